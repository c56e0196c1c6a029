//! Writes the accessors for the kernel fields that `src/task.rs` reads: one row a field, with real CO-RE relocations.

use core_accessors::{CHAR, I32, I64, Kernel, U32, U64, any_width, array, embedded, pointer};

fn main() {
    Kernel::new()
        .structure(
            "task_struct",
            [
                ("pid", I32),
                ("tgid", I32),
                ("prio", I32),
                ("policy", U32),
                // A u8 in 7.2.
                ("on_cpu", any_width(I32)),
                ("__state", U32),
                ("comm", array(CHAR, 16)),
                ("cgroups", pointer("css_set")),
                ("thread_info", embedded("thread_info")),
            ],
        )
        .structure("task_struct___pre_5_14", [("state", I64)])
        .structure("task_struct___pre_5_16", [("cpu", U32)])
        .structure("thread_info", [("cpu", U32)])
        .structure("css_set", [("dfl_cgrp", pointer("cgroup"))])
        .structure("cgroup", [("self", embedded("cgroup_subsys_state")), ("kn", pointer("kernfs_node"))])
        .structure("cgroup_subsys_state", [("cgroup", pointer("cgroup")), ("parent", pointer("cgroup_subsys_state"))])
        .structure("kernfs_node", [("id", U64)])
        .structure("timerlat_sample", [("timer_latency", U64), ("seqnum", U32), ("context", I32)])
        .structure(
            "osnoise_sample",
            [
                ("runtime", U64),
                ("noise", U64),
                ("max_sample", U64),
                ("hw_count", I32),
                ("nmi_count", I32),
                ("irq_count", I32),
                ("softirq_count", I32),
                ("thread_count", I32),
            ],
        )
        .write_for_build_script();
}
