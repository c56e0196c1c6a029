//! The pages, drawn.

pub mod chart;
pub mod context;
pub mod cpu_page;
pub mod details;
pub mod frame;
pub mod table;
pub mod text_page;
pub mod wait_page;
