//! Measures the cost of wakelat and of other tools, side by side: `cargo xtask bench`.
//!
//! A workload runs again and again: with an instrument attached, and without any before and after. The
//! results are ratios between neighbouring runs, over several rounds; see docs/benchmark.md.

mod affinity;
mod args;
mod figures;
mod floor;
mod instrument;
mod load;
mod losses;
mod machine;
mod measure;
mod observation;
mod overhead_md;
mod process;
mod process_usage;
mod programs;
mod run;
mod running_instrument;
mod sigint;
mod spread;
mod table;
mod workload;

pub use args::BenchArgs;
pub use instrument::DEBIAN_PACKAGES;
pub use load::perform;
pub use measure::measure;
