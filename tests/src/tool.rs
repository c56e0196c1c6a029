//! Other instruments, where this machine has them.

use std::path::Path;

use crate::suite::Skip;

/// The tool of this name, from where Debian puts such tools.
///
/// # Errors
/// Where there is none, with the package it is in.
pub fn find(name: &str, package: &str) -> Result<String, Skip> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/usr/bin", "/usr/share/bcc/tools"]);
    let found = places.map(|place| format!("{place}/{name}")).find(|path| Path::new(path).is_file());
    found.ok_or_else(|| Skip::because(format!("needs `{name}` (Debian package {package})")))
}
