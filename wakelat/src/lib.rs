//! How long a Linux task waits between being woken and running, why, and whether the number can be trusted.
//!
//! This crate is the command. [`collect`] loads the BPF programs and reads their records, [`session`] passes them to
//! [`wakelat_core`], which turns them into reports, and [`commands`] shows these. [`cli`] and [`config`] turn the command
//! line into settings that fit this machine ([`wakelat_kernel`]).

pub mod cli;
pub mod collect;
pub mod commands;
pub mod config;
pub mod session;
pub mod status;
