//! Checks the DaemonSet for Kubernetes against the program and the documentation.

use std::{fs, path::Path, process::Command};

const MANIFEST: &str = include_str!("../../packaging/kubernetes/daemonset.yaml");
const SECURITY: &str = include_str!("../../docs/security.md");

/// The lines of the manifest that are no comments.
fn lines() -> Vec<String> {
    MANIFEST.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect()
}

/// The values of all lines `KEY: VALUE` or `- KEY: VALUE`.
fn values(key: &str) -> Vec<String> {
    let value = |line: &String| {
        let line = line.trim_start().trim_start_matches("- ");
        line.strip_prefix(key)?.strip_prefix(": ").map(str::to_owned)
    };
    lines().iter().filter_map(value).collect()
}

/// The items of a list `[A, B]`.
fn items(list: &str) -> Vec<String> {
    list.trim_matches(['[', ']']).split(", ").map(str::to_owned).collect()
}

/// The configuration file in the ConfigMap.
fn configuration() -> String {
    let (_, block) = MANIFEST.split_once("  serve.toml: |\n").expect("a configuration file");
    let inside = block.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    inside.map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[test]
fn the_daemonset_adds_exactly_the_documented_capabilities_of_serve() {
    let row = SECURITY.lines().find(|line| line.starts_with('|') && line.contains("`serve` |")).expect("a row");
    let at_start = row.split('|').nth(2).expect("a column").split(';').next().expect("a first part");
    let mut names: Vec<&str> = at_start.split('`').filter_map(|word| word.strip_prefix("CAP_")).collect();
    names.sort_unstable();
    let [added] = &values("add")[..] else { panic!("not one list of capabilities") };
    assert_eq!(items(added), names);
    assert_eq!(values("drop"), ["[ALL]"]);
    assert_eq!(values("privileged"), ["false"]);
    assert_eq!(values("allowPrivilegeEscalation"), ["false"]);
    assert_eq!(values("readOnlyRootFilesystem"), ["true"]);
    assert_eq!((values("hostPID"), values("hostNetwork")), (vec!["false".to_owned()], vec!["false".to_owned()]));
}

#[test]
fn the_only_path_of_the_host_is_that_of_cgroups_and_every_mount_is_read_only() {
    assert_eq!(values("path"), ["/sys/fs/cgroup"], "besides the paths of probes, which are on one line");
    assert_eq!(values("mountPath"), ["/etc/wakelat", "/sys/fs/cgroup"]);
    assert_eq!(values("readOnly"), ["true", "true"]);
}

#[test]
fn the_program_accepts_the_arguments_and_the_configuration_of_the_daemonset() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join("manifest-serve.toml");
    fs::write(&file, configuration()).expect("a file");
    let [args] = &values("args")[..] else { panic!("not one list of arguments") };
    let args = items(args).into_iter().map(|arg| match arg.as_str() {
        "/etc/wakelat/serve.toml" => file.to_str().expect("UTF-8").to_owned(),
        _ => arg,
    });
    let output = Command::new(env!("CARGO_BIN_EXE_wakelat")).args(args).arg("--check").output().expect("it starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [port] = &values("containerPort")[..] else { panic!("not one port") };
    assert!(shown.contains(&format!("listen = \"0.0.0.0:{port}\"")) && shown.contains("/kubepods.slice/*"), "{shown}");
}
