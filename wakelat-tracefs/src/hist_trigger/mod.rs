//! The kernel's own histograms: parses and renders the output of `hist:` triggers on tracepoints, and
//! the shell commands that set them up.
//!
//! [`parse`] reads the output of `cat events/…/hist` for any trigger; [`table`], [`chart`] and [`json`]
//! render it; [`wakeup_latency`] is the trigger recipe for wakeup latency, which `print` writes as shell commands
//! and `verify` places. Nothing here does I/O except through a reader that
//! the caller passes.

pub mod chart;
mod chart_rows;
mod entry;
mod error;
mod histogram_document;
pub mod json;
pub mod kernel_text;
mod line_reader;
pub mod log2_bucket;
pub mod parse;
mod shell_script;
pub mod table;
pub mod trigger_spec;
pub mod unit;
pub mod wakeup_latency;

pub use chart_rows::SelectionError;
pub use trigger_spec::{FieldModifier, SortKey, TriggerField, TriggerSpec};

/// The histogram of one hist trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerHistogram {
    /// The trigger, as the kernel prints it.
    pub trigger: TriggerSpec,
    /// The keys' names as the entries show them, in order. They differ from the trigger's if a key is a
    /// variable.
    pub key_names: Vec<String>,
    /// The values' names as the entries show them, in order: `hitcount` first, unless the trigger has
    /// `nohitcount`.
    pub value_names: Vec<String>,
    /// The entries, in the kernel's sort order.
    pub entries: Vec<HistogramEntry>,
    /// The lines that the kernel prints for a `snapshot()` action; empty without one.
    pub snapshot: Vec<String>,
    /// The totals at the end; none only for an excerpt that lacks them.
    pub totals: Option<HistogramTotals>,
}

/// One entry of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramEntry {
    /// The keys, in the order of [`TriggerHistogram::key_names`].
    pub keys: Vec<EntryKey>,
    /// The values, in the order of [`TriggerHistogram::value_names`].
    pub values: Vec<EntryValue>,
    /// The data that `onmax()` and `onchange()` handlers saved for this entry, in the order of the actions.
    pub track_data: Vec<TrackData>,
}

/// One key of an entry, in a format of `hist_trigger_print_key` (kernel/trace/trace_events_hist.c, 4.7 to
/// 7.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EntryKey {
    /// A plain number. The kernel prints negative ones as if they were unsigned.
    Number(u64),
    /// `.hex`: a number in hexadecimal.
    Hex(u64),
    /// `.log2`: the bucket of values above 2^(k−1) and up to 2^k; `Log2(0)` holds 0 and 1.
    Log2(u8),
    /// `.buckets=N`: the smallest and the largest value of the bucket.
    Range(u64, u64),
    /// A string.
    Text(String),
    /// `.sym` and `.sym-offset`: an address and the symbol there.
    Symbol {
        /// The address.
        address: u64,
        /// The symbol, with offset and module if the kernel shows them.
        name: String,
    },
    /// `.execname`: a thread's name and ID.
    Execname {
        /// The thread's name when the entry was made.
        comm: String,
        /// The thread's ID.
        tid: u64,
    },
    /// `.syscall`: a system call's name and number.
    Syscall {
        /// The system call's name.
        name: String,
        /// The system call's number.
        number: u64,
    },
    /// A stack trace, innermost function first.
    Stack(Vec<String>),
}

/// One value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryValue {
    /// A sum.
    Number(u64),
    /// A sum shown as `.hex`.
    Hex(u64),
    /// `.percent`: hundredths of a percent; none if the kernel could not compute it (`[ERROR]`).
    Percent(Option<u32>),
    /// `.graph`: number of filled characters, 0–20.
    Bar(u8),
}

impl EntryValue {
    /// The sum, if the value is one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) | Self::Hex(number) => Some(number),
            Self::Percent(_) | Self::Bar(_) => None,
        }
    }
}

/// The data of an `onmax()` or `onchange()` handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackData {
    /// `max` or `changed`.
    pub handler: String,
    /// The variable's value.
    pub value: u64,
    /// Names and values of the fields of `save()`.
    pub saved: Vec<(String, SavedField)>,
}

/// The value of a field of `save()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedField {
    /// A number.
    Number(u64),
    /// A string.
    Text(String),
}

/// The totals at the end of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistogramTotals {
    /// Events counted.
    pub hits: u64,
    /// Entries in the table.
    pub entries: u64,
    /// Events not counted because the table had no room for their key.
    pub dropped: u64,
}

impl TriggerHistogram {
    /// The values of this name, entry by entry; none if the histogram has no sum of this name.
    pub fn column(&self, name: &str) -> Option<Vec<u64>> {
        let index = self.value_names.iter().position(|candidate| candidate == name)?;
        self.entries.iter().map(|entry| entry.values.get(index)?.number()).collect()
    }
}
