//! `events`: lists the tracepoints of this kernel with their fields and their state.

mod document;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use self::document::TracepointDocument;
use super::print::print;
use crate::{
    config::{ConfigError, EventsConfig},
    status::status,
};
use wakelat_core::render::OutputFormat;
use wakelat_core::render::style::{Style, TextStyle};
use wakelat_core::render::text_line::{TextLine, clean, flow, left, right};
use wakelat_core::render::units;
use wakelat_kernel::event_format::EventFormat;
use wakelat_tracefs::TracefsMount;
use wakelat_tracefs::hist_trigger::TriggerSpec;

/// Columns for the state beside a tracepoint's name.
const STATE: usize = 24;

/// Columns around the declaration of a field: `    …  offset 100  size 16  signed`.
const FIELD: usize = 33;

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

    /// Appends the name, in `columns`, and the state beside it, or below it on a narrow terminal.
    fn line(&self, columns: usize, style: &Style, out: &mut String) {
        let (ink, state) = if self.enabled { (TextStyle::Strong, "enabled ") } else { (TextStyle::Dim, "disabled") };
        let mut pieces = vec![TextLine::of(ink, state)];
        let hist = self.triggers.iter().filter(|trigger| TriggerSpec::parse(trigger).is_some()).count();
        for (count, thing) in [(hist, "hist trigger"), (self.triggers.len() - hist, "other trigger")] {
            if count > 0 {
                pieces.push(TextLine::of(TextStyle::Plain, units::counted(count as u64, thing)));
            }
        }
        if let Some(filter) = &self.filter {
            pieces.push(TextLine::of(TextStyle::Plain, format!("filter: {}", clean(filter, style))));
        }
        let mut head = TextLine::of(TextStyle::Title, left(&self.name(), columns, style));
        if columns.saturating_add(STATE) > style.columns() {
            head.finish(style, out);
            head = TextLine::of(TextStyle::Plain, "  ");
        }
        flow(head.and(TextStyle::Plain, "  "), pieces, "  ", style, out);
    }

    fn details(&self, style: &Style, out: &mut String) {
        let columns = self.format.own_fields().map(|field| field.to_string().len()).max().unwrap_or(0);
        // Aligned only if every field fits on a line.
        let columns = if columns + FIELD <= style.columns() { columns } else { 0 };
        let indent = || TextLine::of(TextStyle::Plain, "    ");
        for field in self.format.own_fields() {
            let mut pieces = vec![
                TextLine::of(TextStyle::Plain, format!("{:<columns$}", field.to_string())),
                TextLine::of(TextStyle::Dim, format!("offset {:>3}", field.offset)),
                TextLine::of(TextStyle::Dim, format!("size {:>2}", field.size)),
            ];
            if field.array.is_none() && field.signed {
                pieces.push(TextLine::of(TextStyle::Dim, "signed"));
            }
            flow(indent(), pieces, "  ", style, out);
        }
        for trigger in &self.triggers {
            // A trigger has no spaces between its parts, but colons.
            let trigger = clean(trigger, style);
            let parts = trigger.split_inclusive(':').map(|part| TextLine::of(TextStyle::Plain, part)).collect();
            flow(indent().and(TextStyle::Plain, "trigger "), parts, "", style, out);
        }
    }
}

/// `events`: lists the tracepoints of this kernel.
///
/// # Errors
/// If tracefs cannot be read, no tracepoint matches, or the output cannot be written.
pub fn events(config: &EventsConfig) -> Result<()> {
    print(&config.output, |style, out| {
        if list(&TracefsMount::mounted()?, config, style, out)? == 0 && config.enabled {
            status("no tracepoint is enabled or has a trigger or a filter (BPF programs are not shown)");
        }
        Ok(())
    })
}

/// Lists the tracepoints that `config` selects, and returns their number.
fn list(tracefs: &TracefsMount, config: &EventsConfig, style: &Style, out: &mut dyn Write) -> Result<usize> {
    let root = tracefs.instance(config.instance.as_deref())?;
    let directories = directories(&root.join("events"), config.glob.as_deref())?;
    if directories.is_empty() {
        let glob = config.glob.as_deref().unwrap_or("*");
        bail!(
            "no tracepoint matches `{glob}`; quote a pattern such as 'sched:*', so that the shell does not expand it"
        );
    }
    // Lines in a file are not broken, so that programs such as grep find the whole of them.
    let style = &Style { width: if style.terminal { style.width } else { usize::MAX }, ..style.clone() };
    let columns = directories.keys().map(String::len).max().unwrap_or(0);
    let mut systems: BTreeMap<String, System> = BTreeMap::new();
    let mut listed = 0;
    for (name, directory) in &directories {
        let system = name.split(':').next().unwrap_or_default();
        let Some(event) =
            TracepointState::read(system, directory)?.filter(|event| !config.enabled || event.is_in_use())
        else {
            continue;
        };
        listed += 1;
        let mut text = String::new();
        if config.systems {
            systems.entry(event.system.clone()).or_default().add(&event);
        } else if config.output.format == OutputFormat::Json {
            text = serde_json::to_string(&TracepointDocument::new(&event))? + "\n";
        } else {
            event.line(columns, style, &mut text);
            if config.glob.is_some() {
                event.details(style, &mut text);
            }
        }
        out.write_all(text.as_bytes())?;
    }
    out.write_all(summary(&systems, style).as_bytes())?;
    Ok(listed)
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
        let mut pieces = vec![TextLine::of(TextStyle::Plain, right(&units::thousands(*events), counts))];
        for (count, text) in [
            (*enabled, format!("{} on", units::thousands(*enabled))),
            (*triggers, units::counted(*triggers, "trigger")),
            (*filters, units::counted(*filters, "filter")),
        ] {
            if count > 0 {
                pieces.push(TextLine::of(TextStyle::Strong, text));
            }
        }
        let head = TextLine::of(TextStyle::Title, left(name, names, style)).and(TextStyle::Plain, "  ");
        flow(head, pieces, "  ", style, &mut out);
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
            let format = format!(
                "{}/../wakelat-kernel/tests/fixtures/formats/7.2-rt/{event}.format",
                env!("CARGO_MANIFEST_DIR")
            );
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
        listed_in(config, &Style::default())
    }

    fn listed_in(config: &EventsConfig, style: &Style) -> Result<String> {
        let (_directory, tracefs) = tracefs();
        let mut out = Vec::new();
        list(&tracefs, config, style, &mut out)?;
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
    fn no_line_is_wider_than_a_narrow_terminal() {
        let style = Style { width: 40, terminal: true, ..Style::default() };
        let text = [all(), matching("sched:*switch"), EventsConfig { systems: true, ..all() }]
            .map(|config| listed_in(&config, &style).unwrap())
            .join("\n");
        assert!(text.lines().all(|line| line.len() <= 40), "{text}");
        insta::assert_snapshot!("events_40", text);
    }

    #[test]
    fn a_pattern_without_a_system_matches_only_event_names() {
        assert_eq!(
            listed(&matching("sched_*ing")).unwrap().lines().next(),
            Some("sched:sched_waking  enabled   filter: pid == 7")
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
    fn the_number_of_listed_tracepoints_is_known() {
        let (_directory, tracefs) = tracefs();
        let of = |glob| {
            let config = EventsConfig { enabled: true, ..matching(glob) };
            list(&tracefs, &config, &Style::default(), &mut Vec::new()).unwrap()
        };
        assert_eq!((of("sched_migrate*"), of("sched_*")), (0, 2));
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
