//! How long a Linux task waits between being woken and running, why, and whether the number can be trusted.
//!
//! This crate is the command. [`collect`] loads the BPF programs and reads their records, [`session`] passes them to
//! [`wakelat_core`], which turns them into reports, and [`commands`] shows these. [`cli`] and [`config`] turn the command
//! line into settings that fit this machine ([`wakelat_kernel`]). Some commands use the kernel's own instruments
//! ([`wakelat_tracefs`]).

#![deny(unsafe_code)]

pub mod cli;
#[allow(unsafe_code, reason = "calls the kernel: bpf(2), mmap(2)")]
pub mod collect;
pub mod commands;
pub mod config;
#[allow(unsafe_code, reason = "calls the kernel: clocks, signals, poll(2)")]
pub mod session;
pub mod status;
