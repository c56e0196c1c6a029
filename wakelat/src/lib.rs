//! How long a Linux task waits between being woken and running, why, and whether the number can be trusted.
//!
//! Data moves one way: a source (the live kernel) gives bytes, [`decode`] makes waits of them, [`aggregate`] makes a
//! [`report::Report`] of those, and a [`sink`] shows it.

pub mod aggregate;
pub mod cli;
pub mod collect;
pub mod commands;
pub mod config;
pub mod decode;
pub mod doctor;
pub mod events;
pub mod hash;
pub mod hist_trigger;
pub mod kernel;
pub mod recording;
pub mod report;
pub mod say;
pub mod session;
pub mod sink;
pub mod timeline;
pub mod timerlat;
pub mod tracefs;
pub mod verify;
pub mod wait;
pub mod why;
