//! What became of the exports to an OTLP receiver.

/// What became of the exports so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// The receiver has accepted them.
    pub delivered: u64,
    /// The receiver has refused them for good.
    pub rejected: u64,
    /// They were removed from the full queue.
    pub dropped: u64,
    /// They were sent, no answer came, and sending them again might count them twice.
    pub unknown: u64,
    /// Points that the receiver has refused in exports that it has accepted.
    pub rejected_points: u64,
    /// Exports that wait to be delivered.
    pub queued: u64,
}

impl ExportCounts {
    /// The exports by the value of the label `result`. With `queued`, they are all exports.
    pub fn by_result(&self) -> [(&'static str, u64); 4] {
        let Self { delivered, rejected, dropped, unknown, .. } = *self;
        [("delivered", delivered), ("rejected", rejected), ("dropped", dropped), ("unknown", unknown)]
    }
}
