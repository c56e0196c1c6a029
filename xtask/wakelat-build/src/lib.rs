//! Builds wakelat, its BPF programs and its kernel tests with the cargo of this workspace, for the commands
//! of `cargo xtask`.

pub mod bpf_programs;
pub mod cargo_build;
mod search_path;
pub mod static_build;
pub mod workspace;

pub use search_path::program_in_path;
