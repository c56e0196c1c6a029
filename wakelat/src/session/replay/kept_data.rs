//! Whether recordings keep what a view shows.

use super::super::View;
use crate::config::ConfigError;
use wakelat_core::recording::{Header, Kept};

/// Checks that recordings with these headers have the waits or events that `view` shows.
///
/// # Errors
/// If they do not.
pub fn check_view(headers: &[&Header], view: &dyn View) -> Result<(), ConfigError> {
    if view.shows_events().is_some() {
        return check_has_events(headers);
    }
    if view.shows_waits() { check(headers, "every wait", "waits", |kept| !is_histograms(kept)) } else { Ok(()) }
}

/// Checks that recordings with these headers have every event.
///
/// # Errors
/// If they do not.
pub fn check_has_events(headers: &[&Header]) -> Result<(), ConfigError> {
    check(headers, "every event", "events", |kept| *kept == Kept::Events)
}

fn is_histograms(kept: &Kept) -> bool {
    matches!(kept, Kept::Histograms { .. })
}

fn check(headers: &[&Header], needed: &str, keep: &str, has: impl Fn(&Kept) -> bool) -> Result<(), ConfigError> {
    let Some(kept) = headers.iter().map(|header| &header.kept).find(|kept| !has(kept)) else { return Ok(()) };
    let (name, description) = (kept.name(), kept.description());
    let shown = if is_histograms(kept) { "`hist` and `top`" } else { "`hist`, `top` and `trace`" };
    let why = format!(
        "the recording has {description} (`record --keep {name}`), which {shown} show; this needs {needed}, which \
         `record --keep {keep}` keeps"
    );
    Err(ConfigError::usage("--input", why))
}
