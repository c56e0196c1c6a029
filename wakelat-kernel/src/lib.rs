//! Properties of this kernel, machine and process, read from procfs and sysfs. Nothing is loaded into the
//! kernel, and nothing is changed except the limit of locked memory ([`privilege::raise_memory_limit`]) and the
//! scheduling of threads ([`thread_priority`]).

#![deny(unsafe_code)]

pub mod attach_choice;
pub mod btf;
pub mod cgroup;
pub mod context_switches;
pub mod cpus;
pub mod event_format;
pub mod fair_scheduler;
pub mod features;
pub mod kernel_symbols;
pub mod lockdown;
pub mod machine;
pub mod mounts;
pub mod namespace;
pub mod privilege;
pub mod processes;
pub mod ranges;
pub mod release;
pub mod requirement;
pub mod roots;
pub mod run_queue_schedstat;
pub mod run_times;
pub mod task_schedstat;
pub mod task_stat;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[allow(unsafe_code, reason = "no library has `sched_setattr`")]
pub mod thread_priority;
pub mod tracefs_access;
pub mod user_symbols;

pub use features::Features;
pub use machine::Machine;
pub use roots::Roots;
