//! A period and the pause before it.

/// What a period and the pause before it have cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub length_ns: u64,
    /// The part of `length_ns` in which the programs were attached.
    pub attached_ns: u64,
    pub runs: u64,
    /// Runs that measured, and what they took: ns.
    pub measured: u64,
    pub measured_ns: f64,
    pub tool_ns: u64,
    /// wakelat's CPU time for stopping the programs and letting them measure again: ns.
    pub stopping_ns: u64,
    /// wakelat's CPU time in the pause and for ending it: ns.
    pub of_pause_ns: u64,
}
