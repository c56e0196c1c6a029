//! Tests on a real kernel: deterministic workloads, the `wakelat` binary run on them, and independent
//! sources to compare its figures with.
//!
//! A test stages a [`workload`] (its tasks exist and are blocked), starts [`wakelat::Wakelat`] (and
//! waits until it measures), lets the workload perform, and compares the [`report::JsonReport`] with
//! what the workload knows about itself and with what the kernel knows about its tasks ([`procfs`]).
//! Nothing here uses wakelat's own code: an error must not be able to hide on both sides.

pub mod account;
pub mod accounted_waits;
pub mod agreement;
pub mod bpf_objects;
pub mod broadcast;
pub mod byte;
pub mod cause_document;
pub mod cgroup;
pub mod clock;
pub mod clock_differences;
pub mod compare;
pub mod competing_threads;
pub mod concurrent;
pub mod cpu_interrupts;
pub mod csv_report;
pub mod documents;
pub mod echo;
pub mod empty_program;
pub mod ftrace_recording;
pub mod golden;
pub mod grace_periods;
pub mod http;
pub mod idle;
pub mod inside;
pub mod kernel_log;
pub mod ksm;
pub mod kubelet;
pub mod machine;
pub mod overhead_report;
pub mod packet_flood;
pub mod perf_sched;
pub mod privileges;
pub mod procfs;
pub mod prometheus;
pub mod quota;
pub mod random;
pub mod replay;
pub mod report;
pub mod rtla;
pub mod shared;
pub mod skip;
pub mod sleep_places;
pub mod spinner;
pub mod stress_ng;
pub mod suite;
pub mod supervisor;
pub mod switches;
pub mod sysctl;
pub mod task;
pub mod timed_ping_pong;
pub mod timers;
pub mod tool;
pub mod trace_buffer;
pub mod trace_instance;
pub mod tracefs;
pub mod tracer;
pub mod uninterruptible_sleeps;
pub mod verify_run;
pub mod wakelat;
pub mod why;
pub mod window_word;
pub mod workload;
