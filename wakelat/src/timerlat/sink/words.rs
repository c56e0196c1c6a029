//! What causes are called.

use super::super::{
    explain::Cause,
    record::{Context, Task, softirq_name},
};
use crate::sink::{style::Style, text::clean, units};

/// Columns below which a name comes before what it is, so that what is cut is not the name.
const NARROW: usize = 60;

/// A cause, for people.
pub fn cause(cause: &Cause, style: &Style) -> String {
    let named = |what: &str, name: String| match style.columns() {
        ..NARROW => format!("{name} ({what})"),
        _ => format!("{what} {name}"),
    };
    match cause {
        Cause::IrqDelay => "IRQ delay".to_owned(),
        Cause::IdleExit => "IRQ delay (exit from idle)".to_owned(),
        Cause::TimerIrq(name, vector) => named("timer IRQ", format!("{}:{vector}", clean(name, style))),
        Cause::Irq(name, vector) => named("IRQ", format!("{}:{vector}", clean(name, style))),
        Cause::Softirq(vector) => named("softirq", format!("{}:{vector}", softirq_name(*vector).unwrap_or("unknown"))),
        Cause::Nmi => "NMI".to_owned(),
        Cause::Blocking(thread) => named("blocking thread", task(*thread, style)),
        Cause::Thread(thread) => named("thread", task(*thread, style)),
        Cause::Scheduling => "scheduling".to_owned(),
        Cause::UserSpace => "user space".to_owned(),
        Cause::Unexplained => "unexplained".to_owned(),
    }
}

/// A cause, for programs.
pub fn kind(cause: &Cause) -> &'static str {
    match cause {
        Cause::IrqDelay => "irq_delay",
        Cause::IdleExit => "idle_exit",
        Cause::TimerIrq(..) => "timer_irq",
        Cause::Irq(..) => "irq",
        Cause::Softirq(_) => "softirq",
        Cause::Nmi => "nmi",
        Cause::Blocking(_) => "blocking_thread",
        Cause::Thread(_) => "thread",
        Cause::Scheduling => "scheduling",
        Cause::UserSpace => "user_space",
        Cause::Unexplained => "unexplained",
    }
}

/// A thread: `cc1/87882`; any idle task: `idle`.
pub fn task(task: Task, style: &Style) -> String {
    let comm = clean(&task.comm.to_string(), style);
    if task.tid == 0 { "idle".to_owned() } else { format!("{comm}/{}", task.tid) }
}

/// A context, for programs.
pub fn context(context: Context) -> &'static str {
    match context {
        Context::Irq => "irq",
        Context::Thread => "thread",
        Context::User => "user",
    }
}

/// A context's latency, for people.
pub fn latency(context: Context) -> &'static str {
    match context {
        Context::Irq => "IRQ latency",
        Context::Thread => "thread latency",
        Context::User => "return-to-user latency",
    }
}

/// An instant of a trace's clock, as the trace shows it: `548.771104`.
pub fn instant(at_ns: u64) -> String {
    format!("{}.{:06}", at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1_000)
}

/// A duration to one decimal.
pub fn time(ns: impl Into<u128>, style: &Style) -> String {
    units::duration(ns, style.unicode)
}
