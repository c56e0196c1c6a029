//! The switches of `wakelat trace --all --json`, read as any other program would read them.

use serde::Deserialize;
use serde_json::Value;

/// A document of schema `wakelat.event/1` whose event is a switch.
#[derive(Clone, Debug, Deserialize)]
pub struct JsonSwitch {
    /// When the task left the CPU: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task.
    pub tid: u32,
    /// The ID of its cgroup when it left the CPU, if that is known.
    pub cgroup_id: Option<u64>,
    /// From its previous switch-out to its switch-in: ns.
    pub off_cpu_ns: Option<u64>,
    /// Class of its wait before the switch-in.
    pub class: Option<String>,
    /// Latency of that wait: ns.
    pub latency_ns: Option<u64>,
    /// Length of the slice: ns.
    pub run_ns: Option<u64>,
    /// The task that ran next.
    pub next_tid: u32,
}

impl JsonSwitch {
    /// Parses every switch in the output of `trace --all --json`, in its order.
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
