//! What the fuzzer runs: everything that reads untrusted bytes, as functions of those bytes.
//!
//! Each module has one function, `check`. It panics if the code that it calls panics or breaks an invariant, and
//! returns how many items that code accepted, so that a test can show that its input gets past the first check.
//! `fuzz/fuzz_targets` passes the fuzzer's input to these functions, and `tests/seeds.rs` fixtures and random bytes:
//! the normal tests compile and run them without the fuzzer, which needs the nightly compiler.

pub mod hist_trigger;
pub mod http_request;
pub mod recording;
pub mod timeline;
pub mod timerlat_pages;
pub mod timerlat_trace;
pub mod trace_text;
