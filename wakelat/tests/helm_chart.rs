//! Checks the Helm chart against the manifest, the program and the alert rules, as far as text shows it without Helm.

mod support;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;
use support::{files, read};

const CHART: &str = "packaging/helm/wakelat";

fn chart(file: &str) -> String {
    read(&format!("{CHART}/{file}"))
}

/// The lines of a text that are no comments, without their indentation.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The lines of a template that it has with default values: those of blocks that a default switches off are left out, and
/// expressions whose values are known are replaced.
fn by_default(template: &str) -> Vec<String> {
    let values = [
        ("{{ .Release.Name }}", "wakelat"),
        ("{{ .Release.Namespace }}", "wakelat"),
        ("{{ .Values.kubelet.enabled }}", "false"),
        ("{{ .Values.listen.address }}", "0.0.0.0"),
        ("{{ .Values.listen.port }}", "9779"),
        ("{{ .Values.image.repository }}", "wakelat"),
        ("{{ .Values.image.tag | default .Chart.AppVersion }}", env!("CARGO_PKG_VERSION")),
        ("{{ .Values.image.pullPolicy }}", "IfNotPresent"),
    ];
    let mut shown = vec![];
    let mut blocks: Vec<bool> = vec![];
    for line in lines(template) {
        if let Some(action) = line.strip_prefix("{{- ").and_then(|line| line.strip_suffix(" }}")) {
            match action.split(' ').next() {
                // Every switch is off by default, and every list is empty.
                Some("if" | "with") => blocks.push(action.starts_with("if not ")),
                Some("else") => blocks.iter_mut().last().into_iter().for_each(|block| *block = !*block),
                Some("end") => _ = blocks.pop(),
                _ => {}
            }
        } else if blocks.iter().all(|block| *block) {
            shown.push(values.iter().fold(line, |line, (expression, value)| line.replace(expression, value)));
        }
    }
    shown
}

/// The templates of the chart, by file name.
fn templates() -> Vec<(String, String)> {
    let all = files(&format!("{CHART}/templates"), "yaml");
    all.into_iter().map(|path| (path.rsplit_once('/').expect("a directory").1.to_owned(), read(&path))).collect()
}

#[test]
fn the_chart_has_by_default_what_the_manifest_has() {
    let manifest = read("packaging/kubernetes/daemonset.yaml");
    let (namespace, rest) = manifest.split_once("\n---\n").expect("several documents");
    assert!(namespace.contains("kind: Namespace"), "Helm creates it");
    let manifest: BTreeSet<String> = lines(rest).into_iter().filter(|line| line != "---").collect();
    let templates: Vec<String> = templates().iter().flat_map(|(_, template)| by_default(template)).collect();
    let values = lines(&chart("values.yaml"));
    for line in &templates {
        let is_own = line.starts_with("checksum/config: ");
        assert!(is_own || manifest.contains(line), "`{line}` is not in the manifest");
    }
    for line in &manifest {
        let in_values = |line: &str| values.iter().any(|value| value == line);
        assert!(templates.contains(line) || in_values(line), "`{line}` is not in the chart");
    }
}

#[test]
fn two_releases_share_no_object_and_no_pod() {
    for (file, template) in templates() {
        for document in template.split("\n---\n").filter(|document| document.contains("\nkind: ")) {
            let (_, metadata) = document.split_once("\nmetadata:\n").unwrap_or_else(|| panic!("{file}: no metadata"));
            let is_of_cluster = document.contains("\nkind: Cluster");
            let own =
                if is_of_cluster { "{{ .Release.Namespace }}.{{ .Release.Name }}" } else { "{{ .Release.Name }}" };
            assert!(metadata.starts_with(&format!("  name: {own}")), "{file}: {metadata}");
            let has_namespace = metadata.contains("\n  namespace: {{ .Release.Namespace }}\n");
            assert!(is_of_cluster || has_namespace || metadata.ends_with("{{ .Release.Namespace }}"), "{file}");
        }
        let mut labels = template.split("app.kubernetes.io/name: wakelat\n").skip(1);
        let instance = "app.kubernetes.io/instance: {{ .Release.Name }}\n";
        assert!(labels.all(|next| next.trim_start().starts_with(instance)), "{file}");
    }
    let rbac = chart("templates/kubelet-rbac.yaml");
    let name = "name: {{ .Release.Namespace }}.{{ .Release.Name }}-kubelet\n";
    assert_eq!(rbac.matches(name).count(), 3, "the role, its binding and what it binds");
}

#[test]
fn the_pod_monitor_and_the_alert_rules_are_those_of_the_manifest() {
    let manifest = read("packaging/kubernetes/daemonset.yaml");
    let (_, comment) = manifest.split_once("# apiVersion: monitoring.coreos.com/v1").expect("a PodMonitor");
    let uncommented: String = comment.lines().map(|line| line.trim_start_matches("# ").to_owned() + "\n").collect();
    let monitor = chart("templates/podmonitor.yaml");
    for line in lines(&uncommented).iter().filter(|line| !line.ends_with(": wakelat")) {
        assert!(monitor.contains(line.as_str()), "`{line}` is not in the PodMonitor");
    }
    assert_eq!(chart("files/wakelat.rules.yml"), read("packaging/prometheus/wakelat.rules.yml"));
    assert!(
        chart("templates/prometheusrule.yaml").contains("{{- .Files.Get \"files/wakelat.rules.yml\" | nindent 2 }}")
    );
}

#[test]
fn the_schema_has_the_switches_of_the_templates_and_the_version_is_that_of_the_program() {
    let schema: Value = serde_json::from_str(&chart("values.schema.json")).expect("JSON");
    let all: String = templates().into_iter().map(|(_, text)| text).chain([chart("templates/NOTES.txt")]).collect();
    let mut used = BTreeSet::new();
    for path in all.split(".Values.").skip(1) {
        let path: String = path.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '.').collect();
        let mut at = &schema;
        for name in path.split('.') {
            at = &at["properties"][name];
        }
        assert!(at.is_object(), "`{path}` is not in the schema");
        used.insert(path.split('.').next().expect("a name").to_owned());
    }
    let known = schema["properties"].as_object().expect("an object").keys().filter(|name| *name != "global");
    let known: BTreeSet<String> = known.cloned().collect();
    assert_eq!(used, known, "every value is used");
    let values = chart("values.yaml");
    let is_key = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let set = values.lines().filter(is_key).filter_map(|line| Some(line.split_once(':')?.0.to_owned()));
    assert_eq!(set.collect::<BTreeSet<_>>(), known, "every value has a default");
    let version = env!("CARGO_PKG_VERSION");
    assert!(chart("Chart.yaml").contains(&format!("\nversion: {version}\n")));
    assert!(chart("Chart.yaml").contains(&format!("\nappVersion: \"{version}\"\n")));
}

#[test]
fn the_program_accepts_the_settings_and_the_flags_of_the_chart() {
    let values = chart("values.yaml");
    let (_, block) = values.split_once("\nconfig: |\n").expect("settings");
    let block = block.lines().take_while(|line| line.is_empty() || line.starts_with("  "));
    let config: String = block.map(|line| line.trim_start().to_owned() + "\n").collect();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chart-serve.toml");
    // Helm's `toJson` and `quote` make a list and strings that are the same in TOML, with `>` as an escape.
    let (_, capture) = values.split_once("\ncapture:\n").expect("captures");
    let value = |name: &str| {
        let line = capture.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    let template = chart("templates/configmap.yaml");
    let (_, block) = template.split_once("{{- if .Values.capture.enabled }}\n").expect("a block");
    let block = block.split_once("{{- end }}").expect("an end").0;
    let captures = ["duration", "interval", "size"].iter().fold(block.to_owned(), |block, name| {
        let expression = format!("{{{{ .Values.capture.{name} | quote }}}}");
        assert!(block.contains(&expression), "{block}");
        block.replace(&expression, &format!("\"{}\"", value(name)))
    });
    let conditions = value("conditions").replace('>', "\\u003e");
    let captures = captures.replace("{{ .Values.capture.conditions | toJson }}", &conditions);
    fs::write(&file, format!("listen = \"0.0.0.0:9779\"\n{config}{captures}")).expect("a file");
    let (_, url) = values.split_once("  url: ").expect("a URL");
    let url = url.lines().next().expect("a line").replace("$(NODE_IP)", "192.0.2.1");
    let daemonset = chart("templates/daemonset.yaml");
    assert!(daemonset.contains("- --kubelet\n") && daemonset.contains("- --kubelet-insecure\n"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakelat"));
    command.args(["serve", "--check", "--kubelet", &url, "--kubelet-insecure", "--config"]).arg(file);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("p99>20ms for 30s") && shown.contains("/var/lib/wakelat/captures"), "{shown}");
    assert!(shown.contains("/kubepods.slice/*") && shown.contains("https://192.0.2.1:10250/pods"), "{shown}");
}
