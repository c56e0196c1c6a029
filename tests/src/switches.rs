//! The switches of `wakelat trace --all --json`, read as any other program would read them.

use serde::Deserialize;
use serde_json::Value;

/// A document of schema `wakelat.event/1` whose event is a switch.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonSwitch {
    /// When the task left: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Where.
    pub cpu: u32,
    /// Who.
    pub tid: u32,
    /// Since it had left a CPU, until it came: ns.
    pub off_cpu_ns: Option<u64>,
    /// Why it waited before it came.
    pub class: Option<String>,
    /// How long: ns.
    pub latency_ns: Option<u64>,
    /// How long it had the CPU: ns.
    pub run_ns: Option<u64>,
    /// Who came after it.
    pub next_tid: u32,
}

impl JsonSwitch {
    /// Every switch in the output of `trace --all --json`, in its order.
    ///
    /// # Panics
    /// If a document cannot be read, or events were lost.
    pub fn parse_all(json: &str) -> Vec<Self> {
        let mut switches = Vec::new();
        for document in serde_json::Deserializer::from_str(json).into_iter::<Value>() {
            let document = document.unwrap_or_else(|error| panic!("{error} in {json}"));
            assert!(
                document["event"] != "lost" && document["coverage"]["events_lost"].as_u64().unwrap_or(0) == 0,
                "{document}"
            );
            if document["event"] == "switch" {
                assert_eq!(document["schema"], "wakelat.event/1");
                switches.push(Self::deserialize(&document).unwrap_or_else(|error| panic!("{error} in {document}")));
            }
        }
        switches
    }
}
