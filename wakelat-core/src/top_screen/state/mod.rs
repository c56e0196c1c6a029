//! What is shown: the pages that keys lead to, and what is selected on each.

pub mod filter_line;
pub mod hit;
pub mod list_position;
pub mod page;
pub mod time_bar;
