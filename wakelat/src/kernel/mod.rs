//! What this kernel and this machine are: read from procfs and sysfs, nothing loaded, nothing changed.

pub mod btf;
pub mod cgroup;
pub mod code;
pub mod cpus;
pub mod features;
pub mod format;
pub mod machine;
pub mod mounts;
pub mod namespace;
pub mod privilege;
pub mod release;
pub mod requirement;
pub mod roots;
pub mod run_time;
pub mod schedstat;
pub mod switches;
pub mod symbols;
pub mod tracefs;

pub use features::Features;
pub use machine::Machine;
pub use roots::Roots;
