//! Signals that are ignored from the start, as with `nohup`.

use std::{mem::MaybeUninit, ptr};

use tokio::signal::unix::SignalKind;

/// Whether this process ignores the signal, by itself or inherited from its parent.
pub fn is_ignored(kind: SignalKind) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and the current one is written to a local variable.
    let known = unsafe { libc::sigaction(kind.as_raw_value(), ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: zeros are a valid `sigaction`, too.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_recognized() {
        // No other test uses this signal, and its default action does nothing either.
        let kind = SignalKind::window_change();
        assert!(!is_ignored(kind));
        // SAFETY: the call takes two numbers; `SIG_IGN` runs no handler.
        unsafe { libc::signal(kind.as_raw_value(), libc::SIG_IGN) };
        assert!(is_ignored(kind));
    }
}
