//! What is kept of the events, in bounded memory.

pub mod cpu_occupancy;
pub mod kept_wait;
pub mod longest_kept;
pub mod measured_time;
pub mod task_names;
pub mod wait_buckets;
pub mod wait_sum;
pub mod wait_table;
