//! Sizes in bytes as people type them: `4M`, `512KiB`. Units are powers of 1024, as memory is.

/// Parses a size: bytes, at least 1.
///
/// # Errors
/// If the text is not a size, or is zero or beyond u64.
pub fn parse(text: &str) -> Result<u64, String> {
    match parse_size::Config::new().with_binary().parse_size(text) {
        Ok(0) => Err(format!("`{text}` must be greater than zero; expected at least one page")),
        Ok(bytes) => Ok(bytes),
        Err(parse_size::Error::PosOverflow) => Err(format!("`{text}` is too large; expected a size such as `4M`")),
        Err(_) => {
            Err(format!("`{text}` is not a size; expected bytes or a number with a unit, such as `512K` or `4M`"))
        }
    }
}

/// A size as people type it, in the largest unit that divides it. [`parse`] accepts it.
pub fn text(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)).unwrap_or((1, ""));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4M", 4 << 20),
            ("4MB", 4 << 20),
            ("1.5M", 3 << 19),
            ("1G", 1 << 30),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_is_written_as_it_is_parsed() {
        for text in ["1", "1000", "3K", "200M", "2G"] {
            assert_eq!(parse(text).map(self::text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn text_that_is_not_a_size_is_rejected() {
        for text in ["", "M", "4X", "-4M", "4MM", "four", "0", "99999999999999999999", "99999E"] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("`{text}` ")), "{text}: {error}");
        }
    }
}
