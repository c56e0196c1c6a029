//! Paths of cgroups as text.
//!
//! A cgroup may have any name without `/` and newline. As text, a byte that is not UTF-8 is `\xff`, as in the names
//! that systemd escapes. Such a name also has `\x5c` for each backslash. All other names are as they are, such as
//! `dev-a\x2db.swap` of systemd; only a name that is itself the text of another one is escaped. So no two paths have
//! the same text.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

/// The text of a path, which is below the mount of the cgroups. It begins with `/`.
pub fn text(below_mount: &Path) -> String {
    let mut text = String::new();
    for name in below_mount.components().map(|component| component.as_os_str()).filter(|name| *name != "/") {
        text.push('/');
        match name.to_str().filter(|plain| !is_escaped(plain)) {
            Some(plain) => text.push_str(plain),
            None => text.push_str(&escaped(name.as_bytes())),
        }
    }
    if text.is_empty() { "/".to_owned() } else { text }
}

/// The path with this text, below the mount of the cgroups, without a slash at its beginning.
pub fn path(text: &str) -> PathBuf {
    let name = |name: &str| {
        let name = if is_escaped(name) { OsString::from_vec(unescaped(name)) } else { OsStr::new(name).to_owned() };
        PathBuf::from(name)
    };
    text.split('/').filter(|name| !name.is_empty()).map(name).collect()
}

/// Whether this name is the text of another one.
fn is_escaped(name: &str) -> bool {
    if !name.contains("\\x") {
        return false;
    }
    let bytes = unescaped(name);
    // Each name is shorter than the one before.
    bytes.len() < name.len() && escaped(&bytes) == name && std::str::from_utf8(&bytes).map_or(true, is_escaped)
}

/// The name with each backslash and each byte that is not UTF-8 as `\xff`.
fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    let escape = |text: &mut String, byte: u8| _ = write!(text, "\\x{byte:02x}");
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' { escape(&mut text, b'\\') } else { text.push(c) }
        }
        chunk.invalid().iter().for_each(|byte| escape(&mut text, *byte));
    }
    text
}

/// The bytes of a name with each `\xff` replaced by the byte that it stands for.
fn unescaped(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.strip_prefix(b"x").and_then(|tail| tail.first_chunk::<2>());
        let byte = digits
            .filter(|digits| *first == b'\\' && digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(bytes: &[u8]) -> String {
        text(Path::new(OsStr::from_bytes(bytes)))
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped() {
        let names: [(&[u8], &str); 11] = [
            (b"", "/"),
            (b"a/b", "/a/b"),
            ("\u{e4}/\u{fffd}".as_bytes(), "/\u{e4}/\u{fffd}"),
            (b"\xff", "/\\xff"),
            (b"a\xc3/b\xfe\xff", "/a\\xc3/b\\xfe\\xff"),
            // As systemd names units, in the same path as a name that is not UTF-8.
            (b"dev-a\\x2db.swap/\\xc3\\xa4\\x2d", "/dev-a\\x2db.swap/\\xc3\\xa4\\x2d"),
            (b"\xff\\x2d", "/\\xff\\x5cx2d"),
            // The text of another name.
            (b"\\xff", "/\\x5cxff"),
            (b"\\x5cxff", "/\\x5cx5cxff"),
            // No name has these texts, or not with a small letter.
            (b"\\xFF", "/\\xFF"),
            (b"\\x41\\xf\\", "/\\x41\\xf\\"),
        ];
        for (bytes, shown) in names {
            assert_eq!(of(bytes), shown);
        }
    }

    #[test]
    fn no_two_names_have_the_same_text_and_each_text_leads_back_to_its_name() {
        let parts: [&[u8]; 9] = [b"\\", b"x", b"5c", b"ff", b"c3", b"\xff", b"\xc3", b"\xa4", b"a"];
        let mut texts = BTreeSet::new();
        let mut names = BTreeSet::from([vec![]]);
        for _ in 0..5 {
            names = names
                .iter()
                .flat_map(|name: &Vec<u8>| parts.iter().map(move |part| [name.as_slice(), *part].concat()))
                .chain(names.iter().cloned())
                .collect();
        }
        for name in &names {
            let text = of(name);
            assert_eq!(path(&text).as_os_str().as_bytes(), name, "{text}");
            assert!(texts.insert(text), "{name:?}");
        }
    }
}
