//! What measuring costs (`price`), how much it may cost (`limit`), and the part that reads, stops and
//! restarts the programs accordingly (`monitor`).

mod limit;
pub mod monitor;
pub mod price;
mod reading;
mod recent_mean;
mod run_price;
