//! Signals by name.

/// Every signal of signal(7) that has one name on every architecture.
const SIGNALS: [(&str, i32); 31] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGPOLL),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// Parses a signal, given by name with or without `SIG`, or by number; returns its number.
pub(super) fn number(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let numbered = || text.parse().ok().filter(|number| (1..=libc::SIGRTMAX()).contains(number));
    named
        .or_else(numbered)
        .ok_or_else(|| format!("`{text}` is not a signal; expected a name or number such as `USR1` or `10`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_with_and_without_prefix_and_a_number() {
        for text in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(number(text), Ok(libc::SIGTERM), "{text}");
        }
    }

    #[test]
    fn an_unknown_signal_is_rejected() {
        for text in ["", "SIG", "0", "-9", "65", "HANGUP"] {
            assert!(number(text).unwrap_err().contains("is not a signal"), "{text}");
        }
    }
}
