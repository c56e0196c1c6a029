//! `wakelat events`: lists the tracepoints of this kernel with their fields and their state.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::config::{ConfigError, EventsConfig};
use crate::hist_trigger::TriggerSpec;
use crate::kernel::format::{EventFormat, FormatField};
use crate::tracefs::TracefsMount;
use wakelat_core::render::OutputFormat;
use wakelat_core::render::style::{Style, TextStyle};
use wakelat_core::render::text_line::{TextLine, clean, left, right};
use wakelat_core::render::units;

/// A tracepoint and its state in a tracefs instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointState {
    /// The system that the tracepoint belongs to.
    pub system: String,
    /// The format of its record.
    pub format: EventFormat,
    /// Whether records go to the trace buffer.
    pub enabled: bool,
    /// The filter, if there is one.
    pub filter: Option<String>,
    /// The triggers, as the kernel prints them.
    pub triggers: Vec<String>,
}

impl TracepointState {
    /// Reads the tracepoint in `directory`. `None` if it has no record format, because the event takes only
    /// triggers or has just been removed.
    ///
    /// # Errors
    /// If the format file is not of the form that all kernels use.
    pub fn read(system: &str, directory: &Path) -> Result<Option<Self>> {
        let read = |file: &str| std::fs::read_to_string(directory.join(file)).ok();
        let Some(format) = read("format") else { return Ok(None) };
        let format =
            EventFormat::parse(&format).with_context(|| format!("`{}`", directory.join("format").display()))?;
        // `0*` and `1*` mean that a trigger is attached.
        let enabled = read("enable").is_some_and(|state| state.starts_with('1'));
        let filter = read("filter").map(|filter| filter.trim().to_owned()).filter(|filter| filter != "none");
        let triggers = read("trigger").unwrap_or_default();
        let triggers = triggers.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned);
        Ok(Some(Self {
            system: system.to_owned(),
            format,
            enabled,
            filter: filter.filter(|filter| !filter.is_empty()),
            triggers: triggers.collect(),
        }))
    }

    /// Whether the tracepoint is in use: it is on, or has a trigger or a filter.
    fn is_in_use(&self) -> bool {
        self.enabled || self.filter.is_some() || !self.triggers.is_empty()
    }

    /// The full name, such as `sched:sched_switch`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.system, self.format.name)
    }

    fn line(&self, columns: usize, style: &Style) -> TextLine {
        let mut line = TextLine::of(TextStyle::Title, left(&self.name(), columns, style));
        line.push(
            if self.enabled { TextStyle::Strong } else { TextStyle::Dim },
            if self.enabled { "  on " } else { "  off" },
        );
        let hist = self.triggers.iter().filter(|trigger| TriggerSpec::parse(trigger).is_some()).count();
        for (count, thing) in [(hist, "hist trigger"), (self.triggers.len() - hist, "other trigger")] {
            if count > 0 {
                line.push(TextStyle::Plain, format!("  {}", units::counted(count as u64, thing)));
            }
        }
        if let Some(filter) = &self.filter {
            line.push(TextStyle::Plain, format!("  filter: {}", clean(filter, style)));
        }
        line
    }

    fn details(&self, style: &Style, out: &mut String) {
        let columns = self.format.own_fields().map(|field| field.to_string().len()).max().unwrap_or(0);
        for field in self.format.own_fields() {
            let at = format!("offset {:>3}  size {:>2}", field.offset, field.size);
            let sign = if field.array.is_none() && field.signed { "  signed" } else { "" };
            TextLine::of(TextStyle::Plain, format!("    {:<columns$}  ", field.to_string()))
                .and(TextStyle::Dim, format!("{at}{sign}"))
                .finish_within(usize::MAX, style, out);
        }
        for trigger in &self.triggers {
            TextLine::of(TextStyle::Plain, format!("    trigger {}", clean(trigger, style))).finish_within(
                usize::MAX,
                style,
                out,
            );
        }
    }
}

/// `wakelat.tracepoint/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TracepointDocument<'a> {
    /// `wakelat.tracepoint/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.tracepoint/1")))]
    schema: &'static str,
    /// System that the tracepoint belongs to, such as `sched`.
    system: &'a str,
    /// Name of the tracepoint.
    event: &'a str,
    /// Its number on this machine, as perf_event_open(2) takes it.
    id: u32,
    /// Whether its records go to the trace buffer.
    enabled: bool,
    /// Its filter, or `null`.
    filter: Option<&'a str>,
    /// Its triggers, as the kernel prints them.
    triggers: &'a [String],
    /// The fields of its record.
    fields: Vec<FieldDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FieldDocument<'a> {
    /// Name of the field.
    name: &'a str,
    /// C declaration of the field.
    declaration: String,
    /// Offset in the record, in bytes.
    offset: u32,
    /// Size in bytes.
    size: u32,
    /// Whether the field is a signed number.
    signed: bool,
    /// Whether every tracepoint has this field.
    common: bool,
}

impl<'a> TracepointDocument<'a> {
    fn new(state: &'a TracepointState) -> Self {
        Self {
            schema: "wakelat.tracepoint/1",
            system: &state.system,
            event: &state.format.name,
            id: state.format.id,
            enabled: state.enabled,
            filter: state.filter.as_deref(),
            triggers: &state.triggers,
            fields: state.format.fields.iter().map(FieldDocument::new).collect(),
        }
    }
}

impl<'a> FieldDocument<'a> {
    fn new(field: &'a FormatField) -> Self {
        let FormatField { ref name, offset, size, signed, common, .. } = *field;
        Self { name, declaration: field.to_string(), offset, size, signed, common }
    }
}

/// Lists the requested tracepoints.
///
/// # Errors
/// If tracefs cannot be read, or no tracepoint matches.
pub fn run(config: &EventsConfig, style: &Style, out: &mut dyn Write) -> Result<()> {
    list(&TracefsMount::mounted()?, config, style, out)
}

fn list(tracefs: &TracefsMount, config: &EventsConfig, style: &Style, out: &mut dyn Write) -> Result<()> {
    let root = tracefs.instance(config.instance.as_deref())?;
    let directories = directories(&root.join("events"), config.glob.as_deref())?;
    if directories.is_empty() {
        let glob = config.glob.as_deref().unwrap_or("*");
        bail!(
            "no tracepoint matches `{glob}`; quote a pattern such as 'sched:*', so that the shell does not expand it"
        );
    }
    let columns = directories.keys().map(String::len).max().unwrap_or(0);
    let mut systems: BTreeMap<String, System> = BTreeMap::new();
    for (name, directory) in &directories {
        let system = name.split(':').next().unwrap_or_default();
        let Some(event) =
            TracepointState::read(system, directory)?.filter(|event| !config.enabled || event.is_in_use())
        else {
            continue;
        };
        let mut text = String::new();
        if config.systems {
            systems.entry(event.system.clone()).or_default().add(&event);
        } else if config.output.format == OutputFormat::Json {
            text = serde_json::to_string(&TracepointDocument::new(&event))? + "\n";
        } else {
            event.line(columns, style).finish_within(usize::MAX, style, &mut text);
            if config.glob.is_some() {
                event.details(style, &mut text);
            }
        }
        out.write_all(text.as_bytes())?;
    }
    out.write_all(summary(&systems, style).as_bytes())?;
    Ok(())
}

/// The counts of a system.
#[derive(Default)]
struct System {
    events: u64,
    enabled: u64,
    triggers: u64,
    filters: u64,
}

impl System {
    fn add(&mut self, event: &TracepointState) {
        self.events += 1;
        self.enabled += u64::from(event.enabled);
        self.triggers += event.triggers.len() as u64;
        self.filters += u64::from(event.filter.is_some());
    }
}

/// Formats a line for each system.
fn summary(systems: &BTreeMap<String, System>, style: &Style) -> String {
    let mut out = String::new();
    let names = systems.keys().map(String::len).max().unwrap_or(0);
    let counts = systems.values().map(|system| units::thousands(system.events).len()).max().unwrap_or(0);
    for (name, System { events, enabled, triggers, filters }) in systems {
        let mut line = TextLine::of(TextStyle::Title, left(name, names, style));
        line.push(TextStyle::Plain, format!("  {}", right(&units::thousands(*events), counts)));
        for (count, text) in [
            (*enabled, format!("{} on", units::thousands(*enabled))),
            (*triggers, units::counted(*triggers, "trigger")),
            (*filters, units::counted(*filters, "filter")),
        ] {
            if count > 0 {
                line.push(TextStyle::Strong, format!("  {text}"));
            }
        }
        line.finish(style, &mut out);
    }
    out
}

/// The directories of the matching events, by name.
///
/// # Errors
/// If the pattern is invalid ([`ConfigError::Usage`]), or the directory cannot be read.
fn directories(events: &Path, glob: Option<&str>) -> Result<BTreeMap<String, PathBuf>> {
    let text = glob.unwrap_or("*").replacen('/', ":", 1);
    let pattern = glob::Pattern::new(&text).map_err(|error| {
        ConfigError::usage(
            "GLOB",
            format!("`{text}` is not a shell pattern: {} at character {}", error.msg, error.pos + 1),
        )
    })?;
    let whole = text.contains(':');
    let mut found = BTreeMap::new();
    let systems = std::fs::read_dir(events).with_context(|| format!("`{}`", events.display()))?;
    for system in systems.flatten().filter(|entry| entry.path().is_dir()) {
        for event in std::fs::read_dir(system.path()).into_iter().flatten().flatten() {
            let (system, name) = (system.file_name(), event.file_name());
            let (system, name) = (system.to_string_lossy(), name.to_string_lossy());
            let full = format!("{system}:{name}");
            if event.path().is_dir() && pattern.matches(if whole { &full } else { &name }) {
                found.insert(full, event.path());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::config::OutputConfig;

    /// A directory in place of tracefs, with formats of a real kernel.
    fn tracefs() -> (tempfile::TempDir, TracefsMount) {
        let directory = tempfile::tempdir().unwrap();
        for event in ["sched_switch", "sched_waking", "sched_migrate_task"] {
            let path = directory.path().join("events/sched").join(event);
            std::fs::create_dir_all(&path).unwrap();
            let format = format!("{}/tests/fixtures/formats/7.2-rt/{event}.format", env!("CARGO_MANIFEST_DIR"));
            std::fs::copy(format, path.join("format")).unwrap();
            let write = |file: &str, text: &str| std::fs::write(path.join(file), text).unwrap();
            write("filter", if event == "sched_waking" { "pid == 7\n" } else { "none\n" });
            write("enable", if event == "sched_waking" { "1\n" } else { "0*\n" });
            write(
                "trigger",
                match event {
                    "sched_switch" => {
                        "hist:keys=next_pid:vals=hitcount:sort=hitcount:size=2048 [active]\ntraceoff:unlimited\n"
                    }
                    _ => "# Available triggers:\n# traceon traceoff hist\n",
                },
            );
        }
        // Entries of tracefs that are not events.
        std::fs::write(directory.path().join("events/enable"), "0\n").unwrap();
        std::fs::write(directory.path().join("events/sched/enable"), "0\n").unwrap();
        std::fs::create_dir_all(directory.path().join("events/ftrace/without_format")).unwrap();
        let tracefs = TracefsMount::at(directory.path());
        (directory, tracefs)
    }

    fn listed(config: &EventsConfig) -> Result<String> {
        let (_directory, tracefs) = tracefs();
        let mut out = Vec::new();
        list(&tracefs, config, &Style::default(), &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    fn all() -> EventsConfig {
        EventsConfig::default()
    }

    fn matching(glob: &str) -> EventsConfig {
        EventsConfig { glob: Some(glob.to_owned()), ..all() }
    }

    fn document(glob: &str) -> Json {
        let output = OutputConfig { format: OutputFormat::Json, ..OutputConfig::default() };
        let text = listed(&EventsConfig { output, ..matching(glob) }).unwrap();
        assert_eq!(json_schemas::assert_valid(&text), 1);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_event_has_a_line_and_matching_events_have_their_fields() {
        insta::assert_snapshot!("events_all", listed(&all()).unwrap());
        insta::assert_snapshot!("events_one", listed(&matching("sched:*switch")).unwrap());
    }

    #[test]
    fn a_pattern_without_a_system_matches_only_event_names() {
        assert_eq!(
            listed(&matching("sched_*ing")).unwrap().lines().next(),
            Some("sched:sched_waking  on   filter: pid == 7")
        );
        assert_eq!(listed(&matching("sched/sched_waking")).unwrap(), listed(&matching("sched:sched_waking")).unwrap());
    }

    #[test]
    fn json_has_every_field_and_the_state() {
        let document = document("sched_switch");
        assert_eq!(document["fields"].as_array().unwrap().len(), 11);
        assert_eq!(document["triggers"].as_array().unwrap().len(), 2);
        assert_eq!((&document["enabled"], &document["filter"]), (&json!(false), &Json::Null));
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_an_error() {
        assert!(listed(&matching("nothing*")).unwrap_err().to_string().contains("`nothing*`"));
        assert!(
            listed(&EventsConfig { instance: Some("x".to_owned()), ..all() })
                .unwrap_err()
                .to_string()
                .contains("instance `x`")
        );
    }

    #[test]
    fn an_invalid_pattern_is_a_usage_error() {
        let error = listed(&matching("sched:[a")).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))), "{error:#}");
        assert!(error.to_string().contains("`sched:[a` is not a shell pattern"), "{error:#}");
        assert!(listed(&matching("sched_[wm]*")).unwrap().contains("sched_migrate_task"));
    }

    #[test]
    fn enabled_lists_tracepoints_in_use() {
        let lines = listed(&EventsConfig { enabled: true, ..all() }).unwrap();
        let names: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["sched:sched_switch", "sched:sched_waking"]);
    }

    #[test]
    fn each_system_has_a_line_with_its_counts() {
        assert_eq!(listed(&EventsConfig { systems: true, ..all() }).unwrap(), "sched  3  1 on  2 triggers  1 filter\n");
    }

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_type() {
        json_schemas::assert_current::<TracepointDocument>();
    }
}
