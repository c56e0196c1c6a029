//! `cpu_idle`: stores the C-state of this CPU, and since when it idles.

use aya_ebpf::helpers::bpf_ktime_get_ns;

use crate::{cpu_state, window};

/// `cpu_idle`: the CPU enters a C-state, or leaves the one that it was in.
#[inline(always)]
pub fn set_state(state: u32) {
    // `PWR_EVENT_EXIT` (include/trace/events/power.h) is -1.
    if state >= u8::MAX.into() || !window::is_open() {
        return;
    }
    let Some(here) = cpu_state::get() else { return };
    // SAFETY: the pointer is to this CPU's own entry. Only the idle task and switches write these words,
    // and no switch is in progress while the CPU idles; the helper has no arguments and no side effects.
    unsafe {
        (*here).idle_state = state + 1;
        if (*here).current.pid != 0 && (*here).idle_since_ns == 0 {
            (*here).idle_since_ns = bpf_ktime_get_ns();
        }
    }
}
