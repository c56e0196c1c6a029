//! What happened on each CPU, event by event: the source of every answer to why a task waited. Pure.

pub mod decode;
pub mod event;
pub mod stay;
