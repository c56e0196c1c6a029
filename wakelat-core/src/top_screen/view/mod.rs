//! What is selected of the data, and its figures.

pub mod cpu_rows;
pub mod group_details;
pub mod group_id;
pub mod group_rows;
pub mod selection;
pub mod wait_filter;
