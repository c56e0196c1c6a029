//! Compares the waits of two arms, base and new, each of one or several runs: how much each percentile changed, whether
//! that is more than runs differ anyway, and which causes changed. Pure, and the same input gives the same output.
//!
//! [`run`] has what is known of one run, [`comparability`] whether runs can be compared, and [`comparison`] compares them.
//! With several runs per arm, the run is the unit ([`permutation`]); with one, blocks of its intervals are
//! ([`bootstrap`]). [`holm`] accounts for several groups, and [`render`] shows the result.

pub mod bootstrap;
pub mod causes;
pub mod changes;
pub mod comparability;
pub mod comparison;
pub mod criteria;
pub mod evidence;
pub mod holm;
pub mod latencies;
pub mod metric;
pub mod one_sample;
pub mod permutation;
pub mod random;
pub mod render;
pub mod run;
pub mod saved_report;
mod sides;
