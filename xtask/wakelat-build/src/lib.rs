//! Builds wakelat, its BPF programs and its kernel tests with the cargo of this workspace, for the commands
//! of `cargo xtask`.

mod architecture;
pub mod bpf_programs;
pub mod cargo_build;
mod search_path;
pub mod static_build;
pub mod workspace;

pub use architecture::{Architecture, has_standard_library};
pub use search_path::program_in_path;
