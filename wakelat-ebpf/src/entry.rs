//! Entry points of the BPF programs, one file per attach type; each only calls the body it shares with
//! the others.

mod raw_tp;
mod tp;
mod tp_btf;
