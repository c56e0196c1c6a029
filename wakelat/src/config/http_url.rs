//! URLs of services that wakelat connects to.

use hyper::Uri;

/// The parts of a URL whose scheme is `http` or `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// Whether it has a user name or a password.
    pub has_user: bool,
    /// The name or the address of the host, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: Option<u16>,
    /// The path and the query; `/` if there is none.
    pub path: String,
}

impl HttpUrl {
    /// Parses a URL. `None` if it is none, or has another scheme.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let is_https = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        let has_user = authority.as_str().contains('@');
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.as_str().rsplit_once(authority.host())?.1;
        let port = if port.is_empty() { None } else { Some(authority.port_u16().filter(|port| *port != 0)?) };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        (!host.is_empty()).then_some(Self { is_https, has_user, host, port, path })
    }
}

/// The host and the port, as in the header `Host`.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
