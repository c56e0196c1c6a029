//! Where the waits of a page come from.

use serde::Serialize;

use crate::recording::Header;

/// Where waits come from.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HtmlSource {
    /// The file of the recording; none for a measurement.
    file: Option<String>,
    machine: String,
    command_line: String,
    labels: String,
    /// Why the last part of a run was written, if it is one.
    trigger: Option<String>,
}

impl HtmlSource {
    /// The recording with this header, in `file`, or the measurement that has the header.
    pub fn new(file: Option<String>, header: &Header) -> Self {
        let labels: Vec<_> = header.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self {
            file,
            machine: header.machine.to_string(),
            command_line: header.command_line.join(" "),
            labels: labels.join(" "),
            trigger: header.trigger.clone(),
        }
    }

    /// The saved report in `file`, measured with this kernel.
    pub fn of_report(file: String, kernel: &str) -> Self {
        Self { file: Some(file), machine: kernel.to_owned(), ..Self::default() }
    }
}
