//! Properties of this kernel, machine and process, read from procfs and sysfs. Nothing is loaded into the
//! kernel, and nothing is changed except the limit of locked memory ([`privilege::raise_memory_limit`]).

pub mod btf;
pub mod cgroup;
pub mod context_switches;
pub mod cpus;
pub mod features;
pub mod format;
pub mod kernel_symbols;
pub mod lockdown;
pub mod machine;
pub mod mounts;
pub mod namespace;
pub mod privilege;
pub mod release;
pub mod requirement;
pub mod roots;
pub mod task_schedstat;
pub mod thread_run_time;
pub mod tracefs_access;
pub mod user_symbols;

pub use features::Features;
pub use machine::Machine;
pub use roots::Roots;
