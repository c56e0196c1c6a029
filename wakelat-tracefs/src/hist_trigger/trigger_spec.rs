//! The description of a trigger, as the kernel prints it after `# trigger info:` and in the `trigger` file.

use std::fmt;

/// A hist trigger's description, as `event_hist_trigger_print` writes it (kernel/trace/trace_events_hist.c).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerSpec {
    /// The name by which several triggers share one histogram.
    pub name: Option<String>,
    /// The keys.
    pub keys: Vec<TriggerField>,
    /// The values that are summed.
    pub values: Vec<TriggerField>,
    /// The variables: `name=expression`.
    pub variables: Vec<String>,
    /// The sort keys of the entries.
    pub sort: Vec<SortKey>,
    /// Maximum number of entries in the table; 0 if the text does not contain it.
    pub size: u64,
    /// The trace clock, if the trigger uses timestamps.
    pub clock: Option<String>,
    /// Whether `nohitcount` omits the hit count.
    pub no_hitcount: bool,
    /// The handlers with their actions, such as `onmatch(sched.sched_wakeup).wakeup_latency($lat)`.
    pub actions: Vec<String>,
    /// The filter.
    pub filter: Option<String>,
    /// Whether the trigger is paused.
    pub paused: bool,
}

/// A key or a value of a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerField {
    /// The field's name, including the `$` of a variable.
    pub name: String,
    /// How the field is shown or put in buckets.
    pub modifier: Option<FieldModifier>,
}

/// How a field is shown or put in buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldModifier {
    /// `.hex`
    Hex,
    /// `.sym`
    Sym,
    /// `.sym-offset`
    SymOffset,
    /// `.execname`
    Execname,
    /// `.syscall`
    Syscall,
    /// `.log2`
    Log2,
    /// `.buckets=N`
    Buckets(u64),
    /// `.usecs`
    Usecs,
    /// `.stacktrace`
    Stacktrace,
    /// `.percent`
    Percent,
    /// `.graph`
    Graph,
}

/// One of the fields by which entries are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The field.
    pub field: TriggerField,
    /// Whether the largest comes first.
    pub descending: bool,
}

impl FieldModifier {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "hex" => Self::Hex,
            "sym" => Self::Sym,
            "sym-offset" => Self::SymOffset,
            "execname" => Self::Execname,
            "syscall" => Self::Syscall,
            "log2" => Self::Log2,
            "usecs" => Self::Usecs,
            "stacktrace" => Self::Stacktrace,
            "percent" => Self::Percent,
            "graph" => Self::Graph,
            _ => Self::Buckets(text.strip_prefix("buckets=")?.parse().ok()?),
        })
    }
}

impl fmt::Display for FieldModifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hex => "hex",
            Self::Sym => "sym",
            Self::SymOffset => "sym-offset",
            Self::Execname => "execname",
            Self::Syscall => "syscall",
            Self::Log2 => "log2",
            Self::Buckets(width) => return write!(f, "buckets={width}"),
            Self::Usecs => "usecs",
            Self::Stacktrace => "stacktrace",
            Self::Percent => "percent",
            Self::Graph => "graph",
        })
    }
}

impl TriggerField {
    /// Parses `name` or `name.modifier`. If no known modifier follows the dot, the dot belongs to the name.
    pub fn parse(text: &str) -> Self {
        match text.split_once('.').and_then(|(name, modifier)| Some((name, FieldModifier::parse(modifier)?))) {
            Some((name, modifier)) if !name.is_empty() => Self { name: name.into(), modifier: Some(modifier) },
            _ => Self { name: text.into(), modifier: None },
        }
    }

    /// Whether the field is a stack trace: `stacktrace` up to 6.2, `common_stacktrace` and
    /// `field.stacktrace` since 6.3.
    pub fn is_stack(&self) -> bool {
        self.modifier == Some(FieldModifier::Stacktrace)
            || self.modifier.is_none() && matches!(self.name.as_str(), "stacktrace" | "common_stacktrace")
    }
}

impl fmt::Display for TriggerField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.modifier {
            Some(modifier) => write!(f, ".{modifier}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.descending { ".descending" } else { "" })
    }
}

impl SortKey {
    fn parse(text: &str) -> Self {
        let (text, descending) = match text.strip_suffix(".descending") {
            Some(field) => (field, true),
            None => (text, false),
        };
        Self { field: TriggerField::parse(text), descending }
    }
}

impl TriggerSpec {
    /// Parses a trigger as the kernel prints it or as a user writes it. None if it is not a hist trigger.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end();
        let (text, paused) = match (text.strip_suffix(" [active]"), text.strip_suffix(" [paused]")) {
            (Some(text), _) => (text, false),
            (None, Some(text)) => (text, true),
            (None, None) => (text, false),
        };
        // The filter is the last part of a trigger, so the first ` if ` begins it.
        let (spec, filter) = match text.split_once(" if ") {
            Some((spec, filter)) => (spec, Some(filter.to_owned())),
            None => (text, None),
        };
        let mut trigger = Self { filter, paused, ..Self::default() };
        for part in split_outside_parentheses(spec.strip_prefix("hist:")?, ':') {
            match part.split_once('=') {
                Some(("keys" | "key", list)) => {
                    trigger.keys = list.split(',').map(TriggerField::parse).collect();
                }
                Some(("vals" | "val" | "values", list)) => {
                    trigger.values =
                        list.split(',').filter(|field| !field.is_empty()).map(TriggerField::parse).collect();
                }
                Some(("sort", list)) => trigger.sort = list.split(',').map(SortKey::parse).collect(),
                Some(("size", size)) => trigger.size = size.parse().ok()?,
                Some(("clock", clock)) => trigger.clock = Some(clock.to_owned()),
                Some(("name", name)) => trigger.name = Some(name.to_owned()),
                None if matches!(part, "nohitcount" | "NOHC") => trigger.no_hitcount = true,
                None if matches!(part, "pause" | "continue" | "clear") => trigger.paused |= part == "pause",
                _ if part.starts_with("onm") || part.starts_with("onc") && part.contains('(') => {
                    trigger.actions.push(part.to_owned());
                }
                Some(_) => trigger.variables.extend(part.split(',').map(str::to_owned)),
                None => return None,
            }
        }
        (!trigger.keys.is_empty() && trigger.keys.iter().all(|key| !key.name.is_empty())).then_some(trigger)
    }
}

impl TriggerSpec {
    /// The text that removes the trigger when written to its `trigger` file. It is what the kernel prints,
    /// but without the modifiers of the sort keys: the kernel prints them but does not accept them (6.1 to
    /// 7.2).
    pub fn removal(&self) -> String {
        let mut bare = self.clone();
        bare.sort.iter_mut().for_each(|key| key.field.modifier = None);
        let text = bare.to_string();
        format!("!{}", text.trim_end_matches(" [active]").trim_end_matches(" [paused]"))
    }
}

fn split_outside_parentheses(text: &str, separator: char) -> Vec<&str> {
    let mut depth = 0u32;
    text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return character == separator && depth == 0,
        }
        false
    })
    .collect()
}

impl fmt::Display for TriggerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hist:")?;
        if let Some(name) = &self.name {
            write!(f, "name={name}:")?;
        }
        write!(f, "keys={}:vals={}", list(&self.keys), list(&self.values))?;
        if !self.variables.is_empty() {
            write!(f, ":{}", self.variables.join(","))?;
        }
        if !self.sort.is_empty() {
            write!(f, ":sort={}", list(&self.sort))?;
        }
        if self.size > 0 {
            write!(f, ":size={}", self.size)?;
        }
        if let Some(clock) = &self.clock {
            write!(f, ":clock={clock}")?;
        }
        if self.no_hitcount {
            f.write_str(":nohitcount")?;
        }
        for action in &self.actions {
            write!(f, ":{action}")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " if {filter}")?;
        }
        f.write_str(if self.paused { " [paused]" } else { " [active]" })
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_survives_parsing_and_formatting() {
        for text in [
            "hist:keys=lat.log2:vals=hitcount:sort=lat.log2:size=2048 [active]",
            "hist:keys=lat.buckets=10000:vals=hitcount:sort=lat.buckets=10000:size=4096 [paused]",
            "hist:keys=pid:vals=hitcount:ts0=common_timestamp:sort=hitcount:size=2048:clock=mono [active]",
            "hist:keys=next_pid:vals=hitcount:wl=common_timestamp-$ts0:sort=hitcount:size=2048:clock=mono:onmatch(sched.sched_wakeup).wl2($wl,next_pid) [active]",
            "hist:name=foo:keys=skbaddr.hex:vals=hitcount,len:sort=len.descending:size=2048 if len < 0 [active]",
            "hist:keys=pid,common_stacktrace:vals=hitcount,hitcount.percent,hitcount.graph:sort=hitcount:size=2048:nohitcount if comm == \"a:b\" && (prio > 3) [active]",
            "hist:keys=next_pid:vals=hitcount:a=$ts0,b=common_timestamp.usecs-$ts0:sort=hitcount:size=2048:clock=global:onmax($b).save(next_comm,prev_pid):onchange($b).snapshot() [active]",
        ] {
            let trigger = TriggerSpec::parse(text).expect(text);
            assert_eq!(trigger.to_string(), text);
        }
    }

    #[test]
    fn text_that_is_not_a_hist_trigger_is_rejected() {
        for text in ["", "hist:", "traceoff:unlimited", "hist:keys=", "hist:keys=a,,b", "hist:keys=a:size=x"] {
            assert_eq!(TriggerSpec::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_removal_sorts_by_names_without_modifiers() {
        let printed = "hist:keys=lat.log2:vals=hitcount:sort=lat.log2.descending:size=2048 if cpu == 0 [paused]";
        let removal = "!hist:keys=lat.log2:vals=hitcount:sort=lat.descending:size=2048 if cpu == 0";
        assert_eq!(TriggerSpec::parse(printed).unwrap().removal(), removal);
    }

    #[test]
    fn a_dot_without_a_known_modifier_belongs_to_the_name() {
        assert_eq!(TriggerField::parse("a.b"), TriggerField { name: "a.b".into(), modifier: None });
        assert_eq!(TriggerField::parse("a.buckets=0x1").modifier, None);
        assert!(TriggerField::parse("stack.stacktrace").is_stack());
    }
}
