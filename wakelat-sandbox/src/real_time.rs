//! Real-time priorities without a capability.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process use SCHED_FIFO priorities up to `priority` after it has dropped `CAP_SYS_NICE`, by raising its
/// `RLIMIT_RTPRIO`. Returns whether it may use them.
pub fn allow_real_time(priority: u8) -> bool {
    let wanted = u64::from(priority);
    let Rlimit { current, maximum } = getrlimit(Resource::Rtprio);
    if current.is_none_or(|current| current >= wanted) {
        return true;
    }
    // The hard limit stays as it is if it is high enough: raising it needs CAP_SYS_RESOURCE.
    let maximum = maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Rtprio, Rlimit { current: Some(wanted), maximum }).is_ok()
}
