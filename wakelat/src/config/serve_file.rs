//! The configuration file of the service.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    GivenSettings, ServeSettings,
    settings_table::{SettingsTable, place},
};

/// The largest file that is read: bytes.
const MAX_FILE: u64 = 1 << 20;

/// A configuration file that is read again on SIGHUP.
#[derive(Clone, Debug)]
pub struct ServeFile {
    /// Its path.
    pub path: PathBuf,
    /// The flags, which override single settings of the file.
    pub flags: GivenSettings,
}

impl ServeFile {
    /// The settings of the file as it is now, overridden by the flags. What neither of them gives has its default.
    ///
    /// # Errors
    /// If the file cannot be read, or what is wrong with it, and where.
    pub fn settings(&self) -> Result<ServeSettings, String> {
        let text = read(&self.path)?;
        settings(&text, self.flags.clone()).map_err(|error| format!("`{}`, {error}", self.path.display()))
    }
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read `{}`: {error}", path.display());
    let length = fs::metadata(path).map_err(|error| failed(&error))?.len();
    if length > MAX_FILE {
        return Err(failed(&"the file is longer than 1 MiB"));
    }
    fs::read_to_string(path).map_err(|error| failed(&error))
}

/// The settings of a file with this text, overridden by `flags`.
fn settings(text: &str, flags: GivenSettings) -> Result<ServeSettings, String> {
    let parsed = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{}: {}", place(text, at), error.message().trim_end().replace('\n', "; "))
    })?;
    let mut file = SettingsTable::of_file(text, parsed.get_ref());
    let given = GivenSettings::of_file(&mut file)?;
    let merged = flags.or(given).settings().map_err(|error| {
        let table = file.table(error.table).ok().flatten();
        let at = table.map_or_else(|| format!("`--{}`", error.table), |table| table.place());
        format!("{at}: {}", error.why)
    });
    file.finish()?;
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{GivenCapture, GivenKubelet, GivenOtlp};
    use wakelat_core::service::{host::AcceptedHosts, otlp::Temporality};

    fn parse(text: &str) -> Result<ServeSettings, String> {
        settings(text, GivenSettings::default())
    }

    const EXAMPLE: &str = "\
listen = \"unix:/run/wakelat/socket\"
allow-hosts = [\"metrics.example.com\"]
max-series = 50
max-overhead = \"0.25%\"
collect = \"irq\"

[cgroups]
include = [\"/kubepods.slice/*\"]
exclude = [\"*.scope\"]

[labels]
cluster = \"a\"

[otlp]
url = \"http://collector:4318/v1/metrics?key=a\"
interval = \"10s\"
temporality = \"delta\"

[kubelet]
url = \"https://192.0.2.1:10250/pods\"
ca = \"/etc/ca.crt\"
token = \"/etc/token\"
insecure = false

[capture]
conditions = [\"p99>20ms for 30s\", \"max>1s in /system.slice/*\"]
dir = \"/captures\"
duration = \"5s\"
interval = \"2m\"
size = \"50M\"
";

    #[test]
    fn a_file_has_the_settings_that_are_shown() {
        let settings = parse(EXAMPLE).unwrap();
        assert_eq!(settings.to_toml().unwrap(), EXAMPLE);
        assert!(settings.cgroups.selects("/kubepods.slice/a/b"));
        assert!(!settings.cgroups.selects("/kubepods.slice/a.scope") && !settings.cgroups.selects("/user.slice"));
        let empty = parse("").unwrap();
        assert_eq!(empty, ServeSettings::default());
        assert!(empty.cgroups.selects("/any"));
        assert_eq!(parse(&empty.to_toml().unwrap()), Ok(empty));
        let short = parse("[capture]\nconditions = [\"max>1s\"]\ndir = \"a\"").unwrap();
        assert!(short.to_toml().unwrap().ends_with("duration = \"10s\"\ninterval = \"10m\"\nsize = \"200M\"\n"));
        let plain = parse("otlp.url = \"http://[::1]:4318\"").unwrap();
        let shown = "[otlp]\nurl = \"http://[::1]:4318/v1/metrics\"\ninterval = \"1m\"\ntemporality = \"cumulative\"\n";
        assert!(plain.to_toml().unwrap().ends_with(shown), "{}", plain.to_toml().unwrap());
        let plain = parse("kubelet.url = \"http://localhost\"").unwrap();
        assert_eq!(parse(&plain.to_toml().unwrap()), Ok(plain));
    }

    #[test]
    fn a_loopback_address_accepts_only_requests_for_it_and_for_given_names() {
        let hosts = |text: &str| parse(text).unwrap().accepted_hosts();
        let named = |names: &[&str]| AcceptedHosts::Named(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(hosts(""), named(&[]));
        assert_eq!(hosts("listen = \"[::1]:1\"\nallow-hosts = [\"a\", \"b.c\"]"), named(&["a", "b.c"]));
        assert_eq!(hosts("listen = \"0.0.0.0:1\""), AcceptedHosts::Any);
        assert_eq!(hosts("listen = \"0.0.0.0:1\"\nallow-hosts = [\"a\"]"), named(&["a"]));
        assert_eq!(hosts("listen = \"unix:/a\"\nallow-hosts = [\"a\"]"), AcceptedHosts::Any);
    }

    #[test]
    fn a_path_that_no_file_can_have_is_an_error() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let mut settings = parse("[capture]\nconditions = [\"max>1s\"]\ndir = \"a\"").unwrap();
        settings.capture.as_mut().unwrap().dir = OsStr::from_bytes(b"/tmp/\xff").into();
        let error = settings.to_toml().unwrap_err().to_string();
        assert!(error.contains("invalid UTF-8"), "{error}");
    }

    #[test]
    fn every_setting_of_the_packaged_file_can_be_used() {
        const PACKAGED: &str = include_str!("../../../packaging/serve.toml");
        assert_eq!(parse(PACKAGED), Ok(ServeSettings::default()));
        let is_setting = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
        let settings: Vec<&str> =
            PACKAGED.lines().filter_map(|line| line.strip_prefix('#')).filter(is_setting).collect();
        let settings = parse(&settings.join("\n")).unwrap();
        assert!(settings.cgroups.selects("/system.slice/a.service") && !settings.labels.is_empty(), "{settings:?}");
        assert!(settings.otlp.is_some_and(|otlp| otlp.interval_ns == 60_000_000_000));
        assert!(settings.kubelet.is_some_and(|kubelet| !kubelet.insecure));
        assert!(settings.capture.is_some_and(|capture| capture.dir.starts_with("/var/lib/wakelat")));
    }

    #[test]
    fn a_flag_overrides_its_own_setting_only() {
        let flags = GivenSettings {
            max_series: Some(7),
            otlp: Some(GivenOtlp { interval_ns: Some(5_000_000_000), ..GivenOtlp::default() }),
            kubelet: Some(GivenKubelet { token: Some("/other".into()), ..GivenKubelet::default() }),
            capture: Some(GivenCapture { max_bytes: Some(1 << 20), ..GivenCapture::default() }),
            ..GivenSettings::default()
        };
        let overridden = settings(EXAMPLE, flags).unwrap().to_toml().unwrap();
        let expected = EXAMPLE
            .replace("max-series = 50", "max-series = 7")
            .replace("interval = \"10s\"", "interval = \"5s\"")
            .replace("/etc/token", "/other")
            .replace("50M", "1M");
        assert_eq!(overridden, expected);
        let flags = GivenSettings {
            otlp: Some(GivenOtlp { temporality: Some(Temporality::Cumulative), ..GivenOtlp::default() }),
            kubelet: Some(GivenKubelet { insecure: Some(true), ..GivenKubelet::default() }),
            capture: Some(GivenCapture {
                conditions: Some(vec!["max>2s".parse().unwrap()]),
                dir: Some("/b".into()),
                ..GivenCapture::default()
            }),
            ..GivenSettings::default()
        };
        let file = EXAMPLE.replace("ca = \"/etc/ca.crt\"\n", "");
        let overridden = settings(&file, flags).unwrap().to_toml().unwrap();
        let expected = file
            .replace("\"delta\"", "\"cumulative\"")
            .replace("insecure = false", "insecure = true")
            .replace("\"p99>20ms for 30s\", \"max>1s in /system.slice/*\"", "\"max>2s\"")
            .replace("/captures", "/b");
        assert_eq!(overridden, expected);
    }

    #[test]
    fn flags_override_the_file_each_time_that_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("serve.toml");
        let otlp = GivenOtlp { interval_ns: Some(5_000_000_000), ..GivenOtlp::default() };
        let flags = GivenSettings { max_series: Some(7), otlp: Some(otlp), ..GivenSettings::default() };
        let file = ServeFile { path, flags };
        for host in ["a", "b"] {
            let text = format!("max-series = 9\notlp = {{ url = \"http://{host}:1\", interval = \"10s\" }}\n");
            fs::write(&file.path, text).unwrap();
            let settings = file.settings().unwrap();
            let otlp = settings.otlp.map(|otlp| (otlp.endpoint.host, otlp.interval_ns));
            assert_eq!((settings.max_series, otlp), (7, Some((host.to_owned(), 5_000_000_000))));
        }
        fs::write(&file.path, "max-series = 9").unwrap();
        let error = file.settings().unwrap_err();
        assert!(error.ends_with("or `--otlp http://127.0.0.1:4318`"), "{error}");
    }

    #[test]
    fn the_url_and_the_rest_of_a_table_may_be_given_in_different_places() {
        let url = || GivenSettings {
            otlp: Some(GivenOtlp { endpoint: "http://a:1".parse().ok(), ..GivenOtlp::default() }),
            kubelet: Some(GivenKubelet { url: "https://192.0.2.1".parse().ok(), ..GivenKubelet::default() }),
            ..GivenSettings::default()
        };
        let found = settings("otlp.interval = \"10s\"\n[kubelet]\nca = \"/ca\"", url()).unwrap();
        assert_eq!(found.otlp.map(|otlp| (otlp.endpoint.port, otlp.interval_ns)), Some((1, 10_000_000_000)));
        assert_eq!(found.kubelet.map(|kubelet| kubelet.ca() == Path::new("/ca")), Some(true));
        assert!(settings("", url()).is_ok_and(|found| found.otlp.is_some() && found.capture.is_none()));
        let interval = GivenOtlp { interval_ns: Some(1_000_000_000), ..GivenOtlp::default() };
        let flags = GivenSettings { otlp: Some(interval), ..GivenSettings::default() };
        let error = settings("", flags).unwrap_err();
        assert!(error.starts_with("`--otlp`: no URL is given; expected `url = "), "{error}");
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, expected) in [
            ("max-series = 0", "line 1, column 14: `max-series`: `0` is not accepted; expected a number from 1"),
            ("max-series = -0", "line 1, column 14: `max-series`: "),
            ("\nmax_series = 5", "line 2, column 1: `max_series` is not a setting; expected one of `listen`, "),
            ("[otlp]\npath = 5", "line 2, column 1: `otlp.path` is not a setting; expected one of `url`, `interval`"),
            ("[cgroups]\ninclude = [\"a[\"]", "line 2, column 12: `cgroups.include`: `a[` is not a shell pattern"),
            ("[labels]\ncgroup = \"x\"", "line 1, column 2: the label `cgroup` is reserved"),
            ("listen = \"9779\"", "line 1, column 10: `listen`: `9779` is not an address"),
            ("allow-hosts = [\"a:80\"]", "line 1, column 16: `allow-hosts`: `a:80` is not a host name; expected one"),
            ("collect = \"idle\"", "line 1, column 11: `collect`: `idle` is not accepted; expected `none` or `irq`"),
            ("max-overhead = \"0\"", "line 1, column 16: `max-overhead`: `0` is not accepted; expected `none` or a"),
            ("[capture]\nconditions = [\"max\"]\ndir = \"a\"", "line 2, column 15: `capture.conditions`: `max` is not"),
            ("[capture]\nconditions = []\ndir = \"a\"", "line 1, column 2: 0 conditions are given"),
            ("capture.conditions = [\"max>1s\"]", "line 1, column 1: no directory is given; expected `dir = "),
            ("[capture]\ndir = \"a\"", "line 1, column 2: no condition is given; expected `conditions = "),
            ("listen = ", "line 1, column 10: "),
            ("[otlp]\ninterval = \"10s\"", "line 1, column 2: no URL is given; expected `url = "),
            ("[otlp]\nurl = \"https://a\"", "line 2, column 7: `otlp.url`: TLS is not supported"),
            ("otlp = { url = \"http://a\", interval = \"10ms\" }", "line 1, column 39: `otlp.interval`: `10ms` is too"),
            ("otlp = { url = \"http://a\", temporality = \"x\" }", "line 1, column 42: `otlp.temporality`: `x` is not"),
            ("\n[kubelet]\nca = \"/ca\"", "line 2, column 2: no URL is given; expected `url = "),
            ("[kubelet]\nurl = \"a\"", "line 2, column 7: `kubelet.url`: `a` is not a URL of a kubelet"),
            ("[kubelet]\nurl = \"http://a\"\ninsecure = true", "line 1, column 2: `http://a:10255/pods` has no TLS"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_an_error_with_an_example() {
        for (text, expected) in [
            (
                "max-series = \"many\"",
                "line 1, column 14: `max-series` is a string; expected an integer, such as `max-series = 1000`",
            ),
            ("max-series = 1.5", "line 1, column 14: `max-series` is a float; expected an integer, such as"),
            (
                "\nmax-overhead = 0.5",
                "line 2, column 16: `max-overhead` is a float; expected a string, such as `max-overhead = \"0.5%\"`",
            ),
            ("listen = 9779", "line 1, column 10: `listen` is an integer; expected a string, such as `listen = "),
            (
                "[cgroups]\ninclude = \"*\"",
                "line 2, column 11: `cgroups.include` is a string; expected an array of strings, such as `include = [",
            ),
            (
                "[cgroups]\nexclude = [\"a\", 5]",
                "line 2, column 17: an element of `cgroups.exclude` is an integer; expected a string, such as",
            ),
            (
                "[labels]\nrack = 5",
                "line 2, column 8: `labels.rack` is an integer; expected a string, such as `rack = ",
            ),
            (
                "[otlp]\nurl = \"http://a\"\ninterval = 10",
                "line 3, column 12: `otlp.interval` is an integer; expected a string, such as `interval = \"60s\"`",
            ),
            (
                "otlp = \"http://a\"",
                "line 1, column 1: `otlp` is a string; expected a table, which begins with `[otlp]`",
            ),
            (
                "[kubelet]\nurl = \"https://a\"\ninsecure = \"no\"",
                "line 3, column 12: `kubelet.insecure` is a string; expected a boolean, such as `insecure = false`",
            ),
            (
                "[capture]\nsize = 5",
                "line 2, column 8: `capture.size` is an integer; expected a string, such as `size =",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
