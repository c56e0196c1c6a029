//! The part of docs/overhead.md that this command writes: pure.

use anyhow::Context as _;

/// Where it begins.
pub const BEGIN: &str = "<!-- written by `cargo xtask bench`: begin -->";

/// Where it ends.
pub const END: &str = "<!-- end -->";

/// `page` with `text` between the two markers.
///
/// # Errors
/// If the markers are not there, one after the other.
pub fn with_table(page: &str, text: &str) -> anyhow::Result<String> {
    let missing = || format!("expected `{BEGIN}` and after it `{END}`");
    let (before, rest) = page.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_table_stays() {
        let page = format!("# Title\n{BEGIN}\nold\n{END}\nlimits\n");
        let new = with_table(&page, "new\n").unwrap();
        assert_eq!(new, format!("# Title\n{BEGIN}\n\nnew\n\n{END}\nlimits\n"));
        assert_eq!(with_table(&new, "new").unwrap(), new);
    }

    #[test]
    fn a_page_without_markers_is_left_alone() {
        assert!(with_table(END, "new").is_err());
        assert!(with_table(BEGIN, "new").is_err());
    }
}
