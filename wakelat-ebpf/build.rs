//! Generates accessors, with CO-RE relocations, for the kernel fields that `src/kernel_structs.rs` reads: a row per field.

use co_re_accessors::{AccessorTable, CHAR, I32, I64, U8, U32, U64, any_width, array, embedded, pointer};

fn main() {
    AccessorTable::new()
        .structure(
            "task_struct",
            [
                ("pid", I32),
                ("tgid", I32),
                ("prio", I32),
                ("flags", U32),
                ("stack", pointer("text")),
                ("policy", U32),
                // Each a u8 in 7.2.
                ("on_cpu", any_width(I32)),
                ("on_rq", any_width(I32)),
                ("__state", U32),
                ("comm", array(CHAR, 16)),
                ("cgroups", pointer("css_set")),
                ("thread_info", embedded("thread_info")),
                ("se", embedded("sched_entity")),
                ("sched_info", embedded("sched_info")),
                // From 6.18 on, in kernels with quotas (`CONFIG_CFS_BANDWIDTH`).
                ("throttled", U8),
            ],
        )
        .structure("sched_entity", [("cfs_rq", pointer("cfs_rq")), ("sched_delayed", U8)])
        .structure(
            "cfs_rq",
            [
                ("rq", pointer("rq")),
                ("throttled_clock_self", U64),
                ("throttled_clock_self_time", U64),
                ("throttled_clock_pelt", U64),
                ("throttled_clock_pelt_time", U64),
                ("throttle_count", I32),
            ],
        )
        .structure(
            "rq",
            [
                ("clock", U64),
                ("nr_switches", U64),
                ("clock_pelt", U64),
                ("lost_idle_time", U64),
                ("prev_irq_time", U64),
                ("prev_steal_time", U64),
                ("prev_steal_time_rq", U64),
                ("rt", embedded("rt_rq")),
            ],
        )
        .structure("sched_info", [("pcount", U64), ("run_delay", U64), ("last_arrival", U64), ("last_queued", U64)])
        .structure("rt_rq", [("rt_throttled", I32)])
        .structure("irqaction", [("name", pointer("text"))])
        .structure("work_struct", [("func", pointer("text"))])
        // The target of a `char *`, a `void *` or a function pointer.
        .structure("text", [])
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
