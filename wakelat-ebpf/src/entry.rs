//! The entries: thin ones over one body each, a file per way to attach.

mod classic;
mod raw;
mod typed;
