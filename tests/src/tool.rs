//! Other instruments, if this machine has them.

use std::path::Path;

use crate::skip::Skip;

/// Finds the tool `name` where Debian installs such tools.
///
/// # Errors
/// If it is missing; the message names the Debian package that contains it.
pub fn find(name: &str, package: &str) -> Result<String, Skip> {
    let path = std::env::var("PATH").unwrap_or_default();
    let directories = path.split(':').chain(["/usr/sbin", "/usr/bin", "/usr/share/bcc/tools"]);
    let found = directories.map(|directory| format!("{directory}/{name}")).find(|path| Path::new(path).is_file());
    found.ok_or_else(|| Skip::because(format!("needs `{name}` (Debian package {package})")))
}
