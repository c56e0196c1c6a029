//! The header `Host` of requests.
//!
//! A page in a browser on this machine can request any URL with a name that leads to a loopback address, and its server
//! can make its own name lead there (DNS rebinding): the answer is then of the page's own origin, and the page may read
//! it. The browser sends that name as `Host`. No page can have `localhost` or an address as its name unless it comes from
//! there.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The values of `Host` with which requests are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptedHosts {
    /// All.
    Any,
    /// Addresses, `localhost` and these names, with any port.
    Named(Vec<String>),
}

impl AcceptedHosts {
    /// Whether a request with this `Host` is answered. `None` is a value that is not text.
    pub fn accepts(&self, host: Option<&str>) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Named(_), None) => false,
            (Self::Named(names), Some(host)) => {
                let Some(name) = without_port(host) else { return false };
                let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
                    || name.parse::<Ipv4Addr>().is_ok()
                    || name.eq_ignore_ascii_case("localhost")
                    || names.iter().any(|accepted| name.eq_ignore_ascii_case(accepted))
            }
        }
    }
}

/// The host without `:PORT`, if it has one. `None` if the port is not a number.
fn without_port(host: &str) -> Option<&str> {
    // The colons of an IPv6 address are in brackets.
    let name_ends = host.rfind(']').map_or(0, |at| at + 1);
    match host[name_ends..].find(':') {
        Some(colon) => {
            let (name, port) = host.split_at(name_ends + colon);
            port[1..].bytes().all(|digit| digit.is_ascii_digit()).then_some(name)
        }
        None => Some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_the_given_names_are_accepted() {
        let hosts = AcceptedHosts::Named(vec!["metrics.example.com".to_owned()]);
        for accepted in [
            "127.0.0.1",
            "127.0.0.1:9779",
            "192.0.2.1:80",
            "[::1]",
            "[::1]:9779",
            "localhost",
            "LOCALHOST:1",
            "localhost:",
            "metrics.example.com",
            "Metrics.Example.com:443",
        ] {
            assert!(hosts.accepts(Some(accepted)), "{accepted}");
        }
        for refused in [
            "",
            ":9779",
            "example.com",
            "evil.example:9779",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a.metrics.example.com",
            "metrics.example.com.",
            "127.1",
            "0x7f000001",
            "::1",
            "[::1",
            "[evil.example]",
            "[::1]evil.example",
            "evil.example:[::1]",
            "user@localhost",
            "localhost:80:80",
            "localhost:a",
            "localhost,evil.example",
        ] {
            assert!(!hosts.accepts(Some(refused)), "{refused}");
        }
        assert!(!hosts.accepts(None));
        assert!(AcceptedHosts::Any.accepts(None) && AcceptedHosts::Any.accepts(Some("evil.example")));
    }
}
