//! Renders the stacks of a wait: that of the waker, and that of the wakee when it went to sleep or was
//! preempted.

use wakelat_common::Class;

use crate::{
    files::own_tid,
    render::{
        Style,
        labels::in_file,
        style::TextStyle,
        text_line::{TextLine, clean, flow, paragraph},
        units,
    },
    timeline::{
        Breakdown,
        stack_event::{Role, StackId},
        stack_frames::{NoSymbols, StackCounts, StackFrames},
    },
    why::stacks::{StackSummary, SymbolizedStacks},
};

/// Maximum number of functions shown of a stack, the innermost first. JSON has all of them.
const FRAMES: usize = 16;

/// Appends the stacks of a wait to `out`.
pub fn draw(breakdown: &Breakdown, stacks: &SymbolizedStacks, roles: &[Role], style: &Style, out: &mut String) {
    let (woken, left) = match breakdown.ended_wait.wait.class {
        Class::Wakeup => (Some("woken by"), Some("slept at")),
        Class::New => (Some("created by"), None),
        Class::Preempted => (None, Some("preempted at")),
    };
    for (role, title, symbolized) in [(Role::Waker, woken, &stacks.waker), (Role::Wakee, left, &stacks.wakee)] {
        let Some(title) = title.filter(|_| roles.contains(&role)) else { continue };
        let Some(symbolized) = symbolized else {
            paragraph(
                TextLine::of(TextStyle::Dim, format!("  {title} ")),
                TextStyle::Dim,
                "(no stack captured)",
                style,
                out,
            );
            continue;
        };
        let name = symbolized.comm.map_or_else(|| "?".to_owned(), |comm| clean(&comm.to_string(), style));
        // An interrupt is not an action of the task that it interrupted.
        let interrupts = role == Role::Waker && symbolized.kernel.names().iter().any(|name| is_interrupt(name));
        let title = match (role, symbolized.tid) {
            (Role::Wakee, _) => title.to_owned(),
            (Role::Waker, 0) => format!("{title} an idle CPU at"),
            (Role::Waker, tid) => {
                let task = format!("{name}/{}{}", own_tid(tid), in_file(tid, style));
                if interrupts { format!("{title} an interrupt of {task} at") } else { format!("{title} {task} at") }
            }
        };
        TextLine::of(TextStyle::Plain, format!("  {title}:")).finish(style, out);
        stack("kernel", &symbolized.kernel, style, out);
        // Kernel threads, including the idle task, have no user stack, so none is missing.
        if symbolized.user != StackFrames::Missing(StackId::Missing) && !interrupts {
            stack("user", &symbolized.user, style, out);
        }
    }
}

/// Whether a function is an entry point for interrupts: on x86 since 5.8 (arch/x86/include/asm/idtentry.h),
/// on arm64 since 5.14 (arch/arm64/kernel/entry.S).
fn is_interrupt(name: &str) -> bool {
    let is_arm64_entry = name.starts_with("el0") || name.starts_with("el1");
    name.starts_with("asm_sysvec_") || name == "asm_common_interrupt" || is_arm64_entry && name.ends_with("_irq")
}

/// Appends one stack: functions, each called by the next one.
fn stack(which: &str, frames: &StackFrames, style: &Style, out: &mut String) {
    let head = TextLine::of(TextStyle::Dim, format!("    {which:<7}"));
    let note = match frames {
        StackFrames::Named(_) => None,
        StackFrames::Unsymbolized(_, NoSymbols::ProcessExited) => Some("the process has exited"),
        StackFrames::Unsymbolized(_, NoSymbols::Restricted) => {
            Some("the kernel hides its addresses: kernel.kptr_restrict")
        }
        StackFrames::Missing(StackId::MapFull) => Some("the stack map was full"),
        StackFrames::Missing(_) => Some("nothing could be read"),
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

/// Appends what became of all stacks of the window.
pub fn counts(shown: &StackSummary, style: &Style, out: &mut String) {
    let StackCounts { attempts, over_budget, no_room, no_kernel, no_user, given_up } = shown.counts;
    let mut pieces = vec![TextLine::of(TextStyle::Plain, units::counted(attempts, "attempt"))];
    let losses = [
        (over_budget, "skipped, over the budget"),
        (no_room, "lost, the stack map was full"),
        (no_kernel, "without a kernel stack"),
        (given_up, "dropped before their tasks ran"),
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
        files::{FileName, Files},
        timeline::{Timeline, testing::EventStream, testing::task},
        why::{render::document::stacks::StacksDocument, stacks::SymbolizedStack},
    };

    /// Draws the stacks of a wait whose waker, thread `tid`, was in the given functions.
    fn drawn(tid: u32, kernel: &[&str]) -> String {
        drawn_with(tid, kernel, &Style::default())
    }

    fn drawn_with(tid: u32, kernel: &[&str], style: &Style) -> String {
        let named = |names: &[&str]| StackFrames::Named(names.iter().map(|name| (*name).to_owned()).collect());
        let (kernel, user) = (named(kernel), named(&["main"]));
        let comm = Some(crate::wait::Comm::new(b"rcu"));
        let stacks = SymbolizedStacks { waker: Some(SymbolizedStack { tid, comm, kernel, user }), wakee: None };
        let mut stream = EventStream::default();
        stream.end_wait(0, (1_000, 2_000), task(1, "a"));
        let mut timeline = Timeline::default();
        let breakdown = timeline.push(&stream.events[0]).unwrap();
        let mut out = String::new();
        draw(breakdown, &stacks, &[Role::Waker], style, &mut out);
        out
    }

    #[test]
    fn a_waker_of_one_of_several_recordings_has_its_own_tid_and_its_file() {
        let file = |name: &str| FileName { file: name.to_owned(), ..FileName::default() };
        let style = Style { files: Files::new([file("a"), file("b")]), width: 100, ..Style::default() };
        let tid = (1 << 22) + 1_234;
        assert!(drawn_with(tid, &["pipe_write"], &style).starts_with("  woken by rcu/1234 in b at:\n"));
        let interrupted = drawn_with(tid, &["asm_sysvec_apic_timer_interrupt"], &style);
        assert!(interrupted.starts_with("  woken by an interrupt of rcu/1234 in b at:\n"), "{interrupted}");
        let none = StackFrames::Named(Vec::new());
        let stack = SymbolizedStack { tid, comm: None, kernel: none.clone(), user: none };
        let document = serde_json::to_value(StacksDocument::new(&SymbolizedStacks { waker: Some(stack), wakee: None }));
        assert_eq!(document.unwrap()["waker"]["tid"], 1_234);
    }

    #[test]
    fn a_wakeup_by_an_interrupt_is_not_attributed_to_the_interrupted_task() {
        let interrupt = ["try_to_wake_up", "hrtimer_wakeup", "asm_sysvec_apic_timer_interrupt", "vfs_read"];
        assert!(drawn(7, &interrupt).starts_with("  woken by an interrupt of rcu/7 at:\n    kernel try_to_wake_up"));
        assert!(!drawn(7, &interrupt).contains("main"), "{}", drawn(7, &interrupt));
        assert!(drawn(0, &interrupt).starts_with("  woken by an idle CPU at:\n"));
        let call = ["try_to_wake_up", "pipe_write"];
        assert_eq!(drawn(7, &call), "  woken by rcu/7 at:\n    kernel try_to_wake_up < pipe_write\n    user   main\n");
    }
}
