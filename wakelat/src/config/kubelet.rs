//! How the kubelet is asked for the names of pods.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Serialize, Serializer};

use super::{
    http_url::{self, HttpUrl},
    settings_table::{SettingKey, SettingsTable},
};

/// Where Kubernetes mounts the token of a pod's service account, and the CA of the cluster.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// The ports of the kubelet: the authenticated one, and the read-only one without TLS.
const TLS_PORT: u16 = 10_250;
const PLAIN_PORT: u16 = 10_255;

/// The path of the pods of a node.
const PODS_PATH: &str = "/pods";

/// The URL of the pods of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletUrl {
    /// Whether the connection is encrypted.
    pub is_https: bool,
    /// The name or the address of the host, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The path and the query.
    pub path: String,
}

impl KubeletUrl {
    /// The host and the port, as in the header `Host`.
    pub fn authority(&self) -> String {
        http_url::authority(&self.host, self.port)
    }
}

impl FromStr for KubeletUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = HttpUrl::parse(text).filter(|url| !url.has_user);
        let HttpUrl { is_https, host, port, path, .. } = url.ok_or_else(|| {
            format!("`{text}` is not a URL of a kubelet; expected one such as https://192.0.2.1:10250")
        })?;
        let port = port.unwrap_or(if is_https { TLS_PORT } else { PLAIN_PORT });
        let path = if path == "/" { PODS_PATH.to_owned() } else { path };
        Ok(Self { is_https, host, port, path })
    }
}

impl fmt::Display for KubeletUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl Serialize for KubeletUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How the kubelet is asked for the names of pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KubeletSettings {
    /// The pods of the node.
    pub url: KubeletUrl,
    /// The file for [`Self::ca`], if it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    /// The file for [`Self::token`], if it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
}

impl KubeletSettings {
    /// Settings that use the files of a pod's service account, unless others are given.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn new(url: KubeletUrl, ca: Option<PathBuf>, token: Option<PathBuf>, insecure: bool) -> Result<Self, String> {
        if !url.is_https && (ca.is_some() || token.is_some() || insecure) {
            return Err(format!(
                "`{url}` has no TLS, so no certificate is verified and no token is sent; use https://"
            ));
        }
        if insecure && ca.is_some() {
            return Err("a CA has no effect if any certificate is accepted (`insecure`)".to_owned());
        }
        Ok(Self { url, ca, token, insecure })
    }

    /// The certificates of the authorities that may have signed the kubelet's, in PEM.
    pub fn ca(&self) -> &Path {
        self.ca.as_deref().unwrap_or(Path::new(CA))
    }

    /// The file with the token that requests over TLS send. It is read before each request, because Kubernetes replaces it.
    pub fn token(&self) -> &Path {
        self.token.as_deref().unwrap_or(Path::new(TOKEN))
    }
}

/// Settings of the kubelet that are given in one place: as flags, or in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenKubelet {
    /// The pods of the node.
    pub url: Option<KubeletUrl>,
    /// The file with certificates of authorities.
    pub ca: Option<PathBuf>,
    /// The file with the token.
    pub token: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub insecure: Option<bool>,
}

impl GivenKubelet {
    /// The settings of a table.
    ///
    /// # Errors
    /// What is wrong with a setting, and where.
    pub fn of_table(mut table: SettingsTable<'_>) -> Result<Self, String> {
        let key = |name, example| SettingKey { name, example };
        let path = |text: &str| Ok(PathBuf::from(text));
        let given = Self {
            url: table.string(key("url", "\"https://192.0.2.1:10250\""), str::parse)?,
            ca: table.string(key("ca", "\"/etc/kubelet-ca.crt\""), path)?,
            token: table.string(key("token", "\"/etc/kubelet-token\""), path)?,
            insecure: table.boolean(key("insecure", "false"))?,
        };
        table.finish().map(|()| given)
    }

    /// These settings; what is not given here is taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            url: self.url.or(other.url),
            ca: self.ca.or(other.ca),
            token: self.token.or(other.token),
            insecure: self.insecure.or(other.insecure),
        }
    }

    /// All settings: what is not given has its default.
    ///
    /// # Errors
    /// If there is no URL, and errors of [`KubeletSettings::new`].
    pub fn settings(self) -> Result<KubeletSettings, String> {
        let url = self.url.ok_or(
            "no URL is given; expected `url = \"https://192.0.2.1:10250\"` in the table `[kubelet]`, or \
             `--kubelet https://192.0.2.1:10250`",
        )?;
        KubeletSettings::new(url, self.ca, self.token, self.insecure.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_port_and_the_path_of_the_kubelet_by_default() {
        for (text, shown) in [
            ("https://192.0.2.1", "https://192.0.2.1:10250/pods"),
            ("https://[2001:db8::1]:4/", "https://[2001:db8::1]:4/pods"),
            ("http://localhost", "http://localhost:10255/pods"),
            ("https://api/api/v1/nodes/a/proxy/pods", "https://api:10250/api/v1/nodes/a/proxy/pods"),
        ] {
            assert_eq!(text.parse::<KubeletUrl>().map(|url| url.to_string()).as_deref(), Ok(shown));
        }
        for text in ["", "192.0.2.1", "https://", "https://u:p@a", "https://a:0", "https://a:99999", "unix:/a"] {
            assert!(text.parse::<KubeletUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_an_error() {
        let new = |url: &str, ca: Option<&str>, token: Option<&str>, insecure| {
            KubeletSettings::new(url.parse().unwrap(), ca.map(PathBuf::from), token.map(PathBuf::from), insecure)
        };
        assert_eq!(new("https://a", None, None, false).unwrap().ca(), Path::new(CA));
        assert!(new("https://a", Some("/ca"), Some("/token"), false).is_ok());
        assert!(new("https://a", Some("/ca"), None, true).unwrap_err().contains("no effect"));
        assert!(new("http://a", None, None, false).is_ok());
        for (ca, token, insecure) in [(Some("/ca"), None, false), (None, Some("/token"), false), (None, None, true)] {
            assert!(new("http://a", ca, token, insecure).unwrap_err().contains("no TLS"));
        }
    }
}
