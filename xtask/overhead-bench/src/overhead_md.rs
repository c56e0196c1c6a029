//! Replaces the part of docs/overhead.md that this command writes. Pure.

use anyhow::Context as _;

/// The marker in front of the part.
pub const BEGIN: &str = "<!-- written by `cargo xtask bench`: begin -->";

/// The marker after the part.
pub const END: &str = "<!-- end -->";

/// Returns `page` with `text` between the two markers.
///
/// # Errors
/// Fails if the markers are missing or in the wrong order.
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
    fn text_around_the_table_is_kept() {
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
