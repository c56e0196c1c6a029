//! Entry points of the BPF programs, one file per attach type; each only calls the body it shares with
//! the others.

mod classic;
mod raw;
mod typed;
