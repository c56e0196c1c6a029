//! Reads the records of the ring buffer by their types. Their layout is that of the C ABI, in the machine's byte order.

pub use zerocopy::FromBytes;
use zerocopy::{Immutable, IntoBytes};

/// Reads the record that `bytes` consists of, which need not be aligned. `None` if its length is not that of `T`.
pub fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_bytes(bytes).ok()
}

/// The bytes of a record, as a program passes it through the ring buffer.
pub fn bytes<T: IntoBytes + Immutable>(record: &T) -> &[u8] {
    record.as_bytes()
}
