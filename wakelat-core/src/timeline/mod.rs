//! What happened on each CPU, event by event, and from it the breakdown of each wait into components. Pure.
//!
//! # How it works
//!
//! The BPF programs send a record of each switch, interrupt and migration, and [`decode`] turns it into an
//! [`event`]. Two structures remember what a wait may need later:
//!
//! - [`history`] keeps, for each CPU, what had the CPU from when to when, as segments without gaps; [`occupants`]
//!   numbers what had it. An interrupt is known when it ends: its time is then taken from the task that it interrupted.
//! - [`migrations`] keeps the migrations of each waiting task, and so the CPU whose run queue held it at any time.
//!
//! When a switch ends a wait, [`attribute`] divides its timeline into spans, assigns each to a component and a
//! culprit, and adds them up to a [`breakdown`]:
//!
//! ```text
//!  sched_waking   sched_wakeup                 sched_migrate_task          sched_switch
//!       |              |                               |                         |
//!       |   delivery   |      run queue of CPU 0       |   run queue of CPU 1    |
//!       |--------------+-----------+------+-----+------+------------+------------|
//!       |  placement   | throttled | same | irq | same |   higher   |   stolen   |
//!       |   or ipi     |           |  A   |     |  A   |     B      |            |
//!       |--------------+-----------+------+-----+------+------------+------------|
//!       |              |<----------------------- latency ----------------------->|
//!       |<--------------------- latency with --from waking --------------------->|
//! ```
//!
//! 1. Delivery precedes the run queue. It is part of the latency only with `--from waking`.
//! 2. Throttled and stolen time come from clocks of the kernel that report how long, but not when. Throttled time is
//!    placed at the start of the wait if the group was out of quota when the wait began (as in the drawing), and
//!    otherwise at its end; stolen time is placed at the end, before any throttled time there.
//! 3. Each remaining ns belongs to what had the CPU whose run queue held the task: an interrupt or softirq, the
//!    innermost if they are nested; the idle task; or a task of a higher, the same or a lower class or priority.
//! 4. Time that no event explains, for example after a loss, is unexplained, with a reason.
//!
//! The components of a wait therefore add up to its latency, to the ns. docs/semantics.md defines each [`component`].

pub mod attribute;
pub mod breakdown;
pub mod component;
pub mod culprit_number;
pub mod decode;
pub mod event;
pub mod history;
pub mod migrations;
pub mod occupants;
pub mod stack_event;
pub mod stack_frames;
pub mod timehist;
pub(crate) mod wait_course;

#[cfg(test)]
pub(crate) mod testing;

pub use attribute::Timeline;
pub use breakdown::Breakdown;
