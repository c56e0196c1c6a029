//! Records of the timeline.

use wakelat_core::timeline::decode::Decoder;

/// Decodes any bytes as consecutive records of the timeline, each after a byte with its length: none may panic.
/// Returns the number of events.
pub fn check(bytes: &[u8]) -> usize {
    let (mut rest, mut decoder, mut accepted) = (bytes, Decoder::default(), 0);
    while let Some((length, after)) = rest.split_first() {
        let (record, after) = after.split_at(after.len().min((*length).into()));
        match decoder.decode(record) {
            Ok(_) => accepted += 1,
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
        rest = after;
    }
    accepted
}
