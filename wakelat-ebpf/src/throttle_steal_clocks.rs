//! The clocks of a task's run queue at the beginning of a wait and during it, if they are enabled.

use wakelat_common::{
    timeline::feature,
    wait_context::{Clocks, WaitContext},
};

use crate::{kernel_structs::TaskFields, maps::feature_enabled};

/// Reads the clocks of the task's run queue at the beginning of a wait, if they are enabled.
#[inline(always)]
pub fn at_start<T: TaskFields>(task: T) -> Clocks {
    if feature_enabled(feature::CLOCKS) { task.clocks() } else { Clocks::UNKNOWN }
}

/// Reads the clocks that matter to the pending wait of `task`, if they are enabled.
#[inline(always)]
pub fn during<T: TaskFields>(task: T, context: &WaitContext) -> Clocks {
    if feature_enabled(feature::CLOCKS) { task.clocks_of_wait(context.follows_throttling()) } else { Clocks::UNKNOWN }
}
