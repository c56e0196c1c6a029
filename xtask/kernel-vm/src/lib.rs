//! Boots real kernels under QEMU and runs the kernel tests, or one command, in them: `cargo xtask vm`.
//!
//! [`run()`] fetches the kernels ([`KERNELS`], or any of a Debian suite), builds one root file system with
//! `wakelat` and the tests, boots each kernel with it, and reads the results from the guests' output. See
//! docs/virtual-machines.md.

mod apt;
mod args;
mod arm64_image;
mod boot_plan;
mod clock;
mod deb_unpack;
mod emulator;
mod fetch;
mod guests;
mod image;
mod initramfs;
mod instruction_table;
mod kernels;
mod machine_model;
mod monitor;
mod platform;
mod progress;
mod qemu;
mod reproducibility;
mod result_table;
mod rtla;
mod run;
mod suites;
mod test_matrix;
mod verdict;
mod vmlinuz;

pub use args::VmArgs;
pub use fetch::{KernelImage, kernels as fetch_kernels};
pub use kernels::{Flavour, KERNELS, KernelSpec};
pub use result_table::{VmResult, VmRow, times_of_suites};
pub use run::run;
pub use verdict::{BootOutcome, GuestTest, TestStatus};
pub use vmlinuz::{btf as btf_of_image, is_image as is_kernel_image};
