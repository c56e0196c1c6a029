//! Names of causes and contexts.

use super::super::{
    explain::LatencyCause,
    record::{TimerlatContext, TracedTask},
};
use crate::render::{style::Style, text_line::clean, units};
use crate::softirq::softirq_name;

/// Below this width, in columns, the name precedes the kind, so that the name is not cut.
const NARROW: usize = 60;

/// The name of a cause, for people.
pub fn cause(cause: &LatencyCause, style: &Style) -> String {
    let named = |what: &str, name: String| match style.columns() {
        ..NARROW => format!("{name} ({what})"),
        _ => format!("{what} {name}"),
    };
    match cause {
        LatencyCause::IrqDelay => "IRQ delay".to_owned(),
        LatencyCause::IdleExit => "IRQ delay (exit from idle)".to_owned(),
        LatencyCause::TimerIrq(name, vector) => named("timer IRQ", format!("{}:{vector}", clean(name, style))),
        LatencyCause::Irq(name, vector) => named("IRQ", format!("{}:{vector}", clean(name, style))),
        LatencyCause::Softirq(vector) => {
            named("softirq", format!("{}:{vector}", softirq_name(*vector).unwrap_or("unknown")))
        }
        LatencyCause::Nmi => "NMI".to_owned(),
        LatencyCause::Blocking(thread) => named("blocking thread", task(*thread, style)),
        LatencyCause::Thread(thread) => named("thread", task(*thread, style)),
        LatencyCause::Scheduling => "scheduling".to_owned(),
        LatencyCause::UserSpace => "user space".to_owned(),
        LatencyCause::Unexplained => "unexplained".to_owned(),
    }
}

/// The kind of a cause, for programs.
pub fn kind(cause: &LatencyCause) -> &'static str {
    match cause {
        LatencyCause::IrqDelay => "irq_delay",
        LatencyCause::IdleExit => "idle_exit",
        LatencyCause::TimerIrq(..) => "timer_irq",
        LatencyCause::Irq(..) => "irq",
        LatencyCause::Softirq(_) => "softirq",
        LatencyCause::Nmi => "nmi",
        LatencyCause::Blocking(_) => "blocking_thread",
        LatencyCause::Thread(_) => "thread",
        LatencyCause::Scheduling => "scheduling",
        LatencyCause::UserSpace => "user_space",
        LatencyCause::Unexplained => "unexplained",
    }
}

/// Formats a thread: `cc1/87882`, or `idle` for any idle task.
pub fn task(task: TracedTask, style: &Style) -> String {
    let comm = clean(&task.comm.to_string(), style);
    if task.tid == 0 { "idle".to_owned() } else { format!("{comm}/{}", task.tid) }
}

/// The name of a context, for programs.
pub fn context(context: TimerlatContext) -> &'static str {
    match context {
        TimerlatContext::Irq => "irq",
        TimerlatContext::Thread => "thread",
        TimerlatContext::User => "user",
    }
}

/// The name of a context's latency, for people.
pub fn latency(context: TimerlatContext) -> &'static str {
    match context {
        TimerlatContext::Irq => "IRQ latency",
        TimerlatContext::Thread => "thread latency",
        TimerlatContext::User => "return-to-user latency",
    }
}

/// Formats an instant of the clock of the trace, as the trace does: `548.771104`.
pub fn instant(at_ns: u64) -> String {
    format!("{}.{:06}", at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1_000)
}

/// Formats a duration with one decimal.
pub fn time(ns: impl Into<u128>, style: &Style) -> String {
    units::duration(ns, style.unicode)
}
