//! Where the tasks of a wait were in their code.

use wakelat_common::Class;

use crate::{
    sink::{
        Style,
        style::TextStyle,
        text::{TextLine, clean, flow, paragraph},
        units,
    },
    timeline::{
        Breakdown,
        stack::{Role, StackId},
    },
    why::stacks::{Frames, NoSymbols, StackCounts, StackSummary, SymbolizedStacks},
};

/// Functions of a stack that are shown, the innermost; JSON has all.
const FRAMES: usize = 16;

/// Adds the stacks of a wait to `out`.
pub fn draw(account: &Breakdown, sights: &SymbolizedStacks, roles: &[Role], style: &Style, out: &mut String) {
    let (woken, left) = match account.ended_wait.wait.class {
        Class::Wakeup => (Some("woken by"), Some("was asleep at")),
        Class::New => (Some("made by"), None),
        Class::Preempted => (None, Some("preempted at")),
    };
    for (role, title, sight) in [(Role::Waker, woken, &sights.waker), (Role::Wakee, left, &sights.wakee)] {
        let Some(title) = title.filter(|_| roles.contains(&role)) else { continue };
        let Some(sight) = sight else {
            paragraph(
                TextLine::of(TextStyle::Dim, format!("  {title} ")),
                TextStyle::Dim,
                "(no stack was taken)",
                style,
                out,
            );
            continue;
        };
        let name = sight.comm.map_or_else(|| "?".to_owned(), |comm| clean(&comm.to_string(), style));
        // What an interrupt does is not the doing of the task that it interrupted.
        let interrupts = role == Role::Waker && sight.kernel.names().iter().any(|name| is_interrupt(name));
        let title = match (role, sight.tid) {
            (Role::Wakee, _) => title.to_owned(),
            (Role::Waker, 0) => format!("{title} an idle CPU at"),
            (Role::Waker, tid) if interrupts => format!("{title} an interrupt of {name}/{tid} at"),
            (Role::Waker, tid) => format!("{title} {name}/{tid} at"),
        };
        TextLine::of(TextStyle::Plain, format!("  {title}:")).finish(style, out);
        stack("kernel", &sight.kernel, style, out);
        // Threads of the kernel, the idle task among them, have no code of their own: nothing is missing.
        if sight.user != Frames::Missing(StackId::Missing) && !interrupts {
            stack("user", &sight.user, style, out);
        }
    }
}

/// Whether this is where an interrupt enters the kernel: on x86 since 5.8 (arch/x86/include/asm/idtentry.h), on arm64 since 5.14
/// (arch/arm64/kernel/entry.S).
fn is_interrupt(name: &str) -> bool {
    let of_arm = name.starts_with("el0") || name.starts_with("el1");
    name.starts_with("asm_sysvec_") || name == "asm_common_interrupt" || of_arm && name.ends_with("_irq")
}

/// One stack: functions, each called by the one behind it.
fn stack(which: &str, frames: &Frames, style: &Style, out: &mut String) {
    let head = TextLine::of(TextStyle::Dim, format!("    {which:<7}"));
    let note = match frames {
        Frames::Named(_) => None,
        Frames::Unsymbolized(_, NoSymbols::ProcessExited) => Some("it has ended"),
        Frames::Unsymbolized(_, NoSymbols::Restricted) => Some("the kernel hides its addresses: kernel.kptr_restrict"),
        Frames::Missing(StackId::MapFull) => Some("its map had no room for it"),
        Frames::Missing(_) => Some("nothing could be read"),
    };
    let names = frames.names();
    let mut pieces: Vec<TextLine> =
        names.iter().take(FRAMES).map(|name| TextLine::of(TextStyle::Plain, clean(name, style))).collect();
    if names.len() > FRAMES {
        pieces.push(TextLine::of(TextStyle::Dim, format!("{} more", names.len() - FRAMES)));
    }
    pieces.extend(note.map(|note| TextLine::of(TextStyle::Dim, format!("({note})"))));
    flow(head, pieces, style.pick(" ← ", " < "), style, out);
}

/// What became of all stacks of the window.
pub fn counts(shown: &StackSummary, style: &Style, out: &mut String) {
    let StackCounts { taken, over_budget, no_room, no_kernel, no_user, given_up } = shown.counts;
    let mut pieces = vec![TextLine::of(TextStyle::Plain, format!("taken {}", units::counted(taken, "time")))];
    let losses = [
        (over_budget, "not taken, over the budget"),
        (no_room, "without room in the map"),
        (no_kernel, "without a kernel stack"),
        (given_up, "given up before their tasks ran"),
    ];
    for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
        pieces.push(TextLine::of(TextStyle::Warning, format!("{} {what}", units::thousands(count))));
    }
    if no_user > 0 {
        pieces.push(TextLine::of(TextStyle::Plain, format!("{} without a user stack", units::thousands(no_user))));
    }
    flow(TextLine::of(TextStyle::Dim, "stacks: "), pieces, "; ", style, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        timeline::{Timeline, fixtures::EventStream, fixtures::task},
        why::stacks::SymbolizedStack,
    };

    /// A wait whose waker, thread `tid`, was in these functions.
    fn drawn(tid: u32, kernel: &[&str]) -> String {
        let named = |names: &[&str]| Frames::Named(names.iter().map(|name| (*name).to_owned()).collect());
        let (kernel, user) = (named(kernel), named(&["main"]));
        let comm = Some(crate::wait::Comm::new(b"rcu"));
        let sights = SymbolizedStacks { waker: Some(SymbolizedStack { tid, comm, kernel, user }), wakee: None };
        let mut stream = EventStream::default();
        stream.end_wait(0, (1_000, 2_000), task(1, "a"));
        let mut timeline = Timeline::default();
        let account = timeline.push(&stream.events[0]).unwrap();
        let mut out = String::new();
        draw(account, &sights, &[Role::Waker], &Style::default(), &mut out);
        out
    }

    #[test]
    fn an_interrupt_is_not_the_task_that_it_interrupted() {
        let interrupt = ["try_to_wake_up", "hrtimer_wakeup", "asm_sysvec_apic_timer_interrupt", "vfs_read"];
        assert!(drawn(7, &interrupt).starts_with("  woken by an interrupt of rcu/7 at:\n    kernel try_to_wake_up"));
        assert!(!drawn(7, &interrupt).contains("main"), "{}", drawn(7, &interrupt));
        assert!(drawn(0, &interrupt).starts_with("  woken by an idle CPU at:\n"));
        let call = ["try_to_wake_up", "pipe_write"];
        assert_eq!(drawn(7, &call), "  woken by rcu/7 at:\n    kernel try_to_wake_up < pipe_write\n    user   main\n");
    }
}
