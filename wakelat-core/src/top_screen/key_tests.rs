//! What keys and the mouse lead to.

use proptest::prelude::*;
use ratatui::{Terminal, backend::TestBackend};
use wakelat_common::Class;

use super::{
    ScreenAction, TopScreen, TopScreenSettings,
    state::page::ScreenPage,
    testing::{demo_screen, drawn, press, settings, type_text},
    view::{group_id::GroupId, selection::TimeSpan},
};
use crate::{
    report::Report,
    terminal_input::{TerminalInput, TerminalKey},
    timeline::testing::{EventStream, idle, task},
    wait::Comm,
    why::testing::TestNames,
};

fn subject(screen: &TopScreen) -> Vec<GroupId> {
    match screen.pages.last() {
        Some(ScreenPage::Groups(page)) => page.subject(),
        page => panic!("{page:?}"),
    }
}

#[test]
fn five_keys_lead_to_the_task_that_caused_the_longest_wait() {
    let mut screen = demo_screen(settings());
    drawn(&mut screen, 80, 24);
    let enter = TerminalKey::Enter;
    // All waits, with the longest one selected; this wait, with its main culprit selected; the tasks of the cgroup that
    // had used up its quota, the one that ran most first; that task.
    for key in [enter, enter, enter, TerminalKey::Down, enter] {
        assert_eq!(press(&mut screen, key), ScreenAction::Redraw);
    }
    let Some(ScreenPage::Wait(page)) = screen.pages.get(2) else { panic!("{:?}", screen.pages) };
    assert_eq!((page.wait.latency_ns, page.wait.class), (52_783_468, Class::Preempted));
    assert_eq!(page.wait.latency_ns, screen.measuring.measured.total.longest.waits()[0].latency_ns);
    let runs = &screen.measuring.measured.total.runs;
    let cgroup = page.wait.task.cgroup_id.unwrap();
    let ran = |tid| runs.iter().filter(|((task, _), _)| task.tid == tid).map(|(_, ns)| ns).sum::<u64>();
    let most = runs.keys().filter(|(task, _)| task.cgroup_id == cgroup).max_by_key(|(task, _)| ran(task.tid)).unwrap();
    assert_eq!(subject(&screen), [GroupId::Cgroup(cgroup), GroupId::Task(most.0.tid, most.0.comm)]);
}

#[test]
fn three_keys_lead_to_the_task_that_caused_the_longest_wait_of_the_build() {
    let mut screen = demo_screen(settings());
    type_text(&mut screen, "/cc1");
    press(&mut screen, TerminalKey::Enter);
    (0..3).for_each(|_| _ = press(&mut screen, TerminalKey::Enter));
    assert_eq!(subject(&screen), [GroupId::Task(1999, Comm::new(b"cc1"))]);
    (0..3).for_each(|_| _ = press(&mut screen, TerminalKey::Escape));
    assert_eq!(screen.pages.len(), 1);
    assert_eq!(screen.filter.text(), "cc1");
    press(&mut screen, TerminalKey::Escape);
    assert_eq!(screen.filter.text(), "");
    assert_eq!(screen.input(TerminalInput::Key(TerminalKey::Escape)), ScreenAction::Nothing);
}

#[test]
fn q_quits_everywhere_but_in_the_filter() {
    let mut screen = demo_screen(settings());
    for keys in ["", "c", "v", "?", "t", " "] {
        type_text(&mut screen, keys);
        assert_eq!(press(&mut screen, TerminalKey::Char('q')), ScreenAction::Quit, "{keys}");
    }
    type_text(&mut screen, "/q");
    assert_eq!(screen.filter.text(), "q");
    assert_eq!(press(&mut screen, TerminalKey::Ctrl('c')), ScreenAction::Quit);
}

#[test]
fn s_and_h_write_files_and_a_message_is_shown_until_the_next_key() {
    let mut screen = demo_screen(settings());
    assert_eq!(press(&mut screen, TerminalKey::Char('s')), ScreenAction::SaveRecording);
    assert_eq!(press(&mut screen, TerminalKey::Char('h')), ScreenAction::SaveReport);
    screen.message("wrote a\x1b[2J".to_owned());
    assert!(drawn(&mut screen, 80, 24).contains("wrote a\\u{1b}[2J"));
    assert_eq!(press(&mut screen, TerminalKey::Ctrl('x')), ScreenAction::Redraw);
    assert!(!drawn(&mut screen, 80, 24).contains("wrote"));
}

#[test]
fn a_narrow_screen_says_that_waits_were_lost_and_that_it_is_frozen() {
    let mut screen = TopScreen::new(settings());
    let mut report = Report::default();
    report.coverage.wakeups.ring_buffer_full = 12_345;
    screen.report(&report);
    type_text(&mut screen, " ");
    for columns in [40, 45, 80] {
        let drawn = drawn(&mut screen, columns, 12);
        let line = drawn.lines().find(|line| line.contains("frozen")).unwrap_or_else(|| panic!("{drawn}"));
        assert!(line.contains("12,345 lost (v)"), "{line}");
    }
}

#[test]
fn a_frozen_screen_stays_while_waits_are_added() {
    let mut screen = TopScreen::new(settings());
    let mut stream = EventStream::default();
    for round in 0..20u64 {
        stream.switch(0, round * 100_000_000 + 1, task(7, "hog"));
        stream.end_wait(0, (round * 100_000_000 + 1, round * 100_000_000 + 5_000), task(8, "nginx"));
    }
    let (before, after) = stream.events.split_at(20);
    before.iter().for_each(|event| screen.event(event, 0, &TestNames));
    screen.report(&Report::default());
    type_text(&mut screen, " ");
    let frozen = drawn(&mut screen, 80, 24);
    assert!(frozen.contains("frozen") && frozen.contains("10 waits"), "{frozen}");
    after.iter().for_each(|event| screen.event(event, 0, &TestNames));
    screen.report(&Report::default());
    assert_eq!(drawn(&mut screen, 80, 24), frozen);
    type_text(&mut screen, "g");
    assert!(drawn(&mut screen, 80, 24).contains("10 waits"), "another grouping is of the same waits");
    type_text(&mut screen, " i");
    assert!(drawn(&mut screen, 80, 24).contains("last interval"));
    type_text(&mut screen, "i");
    assert!(drawn(&mut screen, 80, 24).contains("20 waits"));
}

#[test]
fn the_last_interval_has_only_its_own_waits() {
    let mut screen = TopScreen::new(settings());
    let mut stream = EventStream::default();
    for second in 0..3u64 {
        for wait in 0..=second {
            let at_ns = 1_000_000_000 * second + 1_000 * (wait + 1);
            stream.switch(0, at_ns, task(7, "hog"));
            stream.end_wait(0, (at_ns, at_ns + 500), task(8, "nginx"));
        }
    }
    let mut events = stream.events.iter();
    let mut reported_ns = 1_000;
    for waits in [1, 2, 3] {
        events.by_ref().take(2 * waits).for_each(|event| screen.event(event, 0, &TestNames));
        screen.report(&Report::default());
        assert_eq!(
            screen.measuring.measured.last.waits.values().map(|sum| sum.figures.waits).sum::<u64>(),
            waits as u64
        );
        let measured = &screen.measuring.measured;
        if waits > 1 {
            assert_eq!(measured.last.span_ns, (reported_ns, measured.now_ns));
        }
        reported_ns = measured.now_ns;
    }
    screen.start_window();
    assert!(drawn(&mut screen, 80, 24).contains("0 waits"));
}

#[test]
fn a_part_of_the_time_moves_within_the_recording() {
    let mut screen = demo_screen(settings());
    type_text(&mut screen, "t");
    let TimeSpan::Between(from_ns, to_ns) = screen.bar.span else { panic!("{:?}", screen.bar) };
    let interval_ns = screen.measuring.measured.interval_ns;
    assert_eq!(to_ns - from_ns, interval_ns);
    press(&mut screen, TerminalKey::Left);
    assert_eq!(screen.bar.span, TimeSpan::Between(from_ns - interval_ns, from_ns));
    (0..100).for_each(|_| _ = press(&mut screen, TerminalKey::Right));
    assert_eq!(screen.bar.span, TimeSpan::Between(from_ns, to_ns));
    type_text(&mut screen, &"]".repeat(100));
    let figures = |screen: &TopScreen| screen.cache.shown_rows().unwrap().all.figures.waits;
    let whole = figures(&screen);
    type_text(&mut screen, "[");
    assert!(figures(&screen) < whole);
    press(&mut screen, TerminalKey::Enter);
    assert!(!screen.bar.has_keys && matches!(screen.bar.span, TimeSpan::Between(..)));
    type_text(&mut screen, "t");
    press(&mut screen, TerminalKey::Escape);
    assert_eq!(screen.bar.span, TimeSpan::All);
    assert_eq!(figures(&screen), whole);
}

#[test]
fn clicks_select_open_and_sort() {
    let mut screen = demo_screen(settings());
    let click = |screen: &mut TopScreen, column, row| {
        let action = screen.input(TerminalInput::Click { column, row });
        drawn(screen, 80, 24);
        action
    };
    let first = drawn(&mut screen, 80, 24);
    let row = |text: &str, of: &str| of.lines().position(|line| line.contains(text)).unwrap() as u16;
    let at = row("  cc1/", &first);
    assert_eq!(click(&mut screen, 5, at), ScreenAction::Redraw);
    assert_eq!(screen.pages.len(), 1);
    let selected = subject(&screen);
    assert!(matches!(selected[..], [GroupId::Task(..)]), "{selected:?}");
    click(&mut screen, 5, at);
    assert_eq!((screen.pages.len(), subject(&screen)), (2, selected));
    press(&mut screen, TerminalKey::Escape);
    let heading = drawn(&mut screen, 80, 24);
    let head = row("longest", &heading);
    let column = heading.lines().nth(head.into()).unwrap().chars().collect::<String>();
    let column = column.split("longest").next().unwrap().chars().count() as u16;
    click(&mut screen, column, head);
    assert!(drawn(&mut screen, 80, 24).contains("longest▼"));
    click(&mut screen, column, head);
    assert!(drawn(&mut screen, 80, 24).contains("longest▲"));
    assert_eq!(screen.input(TerminalInput::Scroll { up: false }), ScreenAction::Redraw);
    let tab = first.lines().next().unwrap().find("CPUs").unwrap() as u16;
    click(&mut screen, tab, 0);
    assert!(matches!(screen.pages.last(), Some(ScreenPage::Cpus(_))));
}

#[test]
fn hostile_names_reach_the_terminal_only_escaped() {
    let mut screen = TopScreen::new(TopScreenSettings { source: "a\x1b]0;x\x07\u{202e}".to_owned(), ..settings() });
    let mut stream = EventStream::default();
    stream.switch(0, 1_000, idle());
    for (tid, name) in (7..).zip(["\x1b[31mred", "\u{202e}tac", "木木木木木", "a\nb\tc", "\u{301}\u{301}"]) {
        stream.switch(0, 1_000 * u64::from(tid), task(100 + tid, name));
        stream.end_wait(0, (1_000 * u64::from(tid), 1_000 * u64::from(tid) + 900), task(tid, name));
    }
    stream.events.iter().for_each(|event| screen.event(event, 0, &TestNames));
    screen.report(&Report::default());
    for keys in ["", "g", "g", "c"] {
        type_text(&mut screen, keys);
        for width in [41, 80, 200] {
            let text = drawn(&mut screen, width, 24);
            let bad = text.chars().find(|c| c.is_control() && *c != '\n' || matches!(c, '\u{202e}' | '\u{301}'));
            assert_eq!(bad, None, "{text}");
        }
    }
}

fn any_input() -> impl Strategy<Value = TerminalInput> {
    use TerminalKey::*;
    let keys = "qshcvg?ri1t[]/ <>-abx0,";
    let key = prop_oneof![
        prop::sample::select(keys.chars().collect::<Vec<_>>()).prop_map(Char),
        any::<char>().prop_map(Char),
        prop::sample::select(vec![
            Up, Down, Left, Right, PageUp, PageDown, Home, End, Enter, Enter, Enter, Escape, Tab, BackTab, Backspace
        ]),
    ];
    prop_oneof![
        8 => key.prop_map(TerminalInput::Key),
        2 => (0..90u16, 0..40u16).prop_map(|(column, row)| TerminalInput::Click { column, row }),
        1 => any::<bool>().prop_map(|up| TerminalInput::Scroll { up }),
        1 => Just(TerminalInput::Resized),
    ]
}

fn draw_at(screen: &mut TopScreen, (width, height): (u16, u16)) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
}

#[test]
fn every_page_is_drawn_in_every_size() {
    for keys in ["", "c", "v", "?", "/x", "t"] {
        let mut screen = demo_screen(settings());
        type_text(&mut screen, keys);
        let (widths, heights) = ((1..90).chain([200, 500]), (1..30).chain([60]));
        let of_each_width = widths.flat_map(|width| [1, 2, 5, 24].map(|height| (width, height)));
        let of_each_height = heights.flat_map(|height| [1, 20, 40, 80, 200].map(|width| (width, height)));
        of_each_width.chain(of_each_height).for_each(|size| draw_at(&mut screen, size));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_inputs_at_any_size_panic(
        inputs in prop::collection::vec((any_input(), 1..130u16, 1..50u16), 1..60), is_empty in prop::bool::weighted(0.2),
        color in any::<bool>(), unicode in any::<bool>(),
    ) {
        let settings = TopScreenSettings { color, unicode, ..settings() };
        let mut screen = if is_empty { TopScreen::new(settings) } else { demo_screen(settings) };
        for (input, width, height) in inputs {
            screen.input(input);
            draw_at(&mut screen, (width, height));
        }
    }
}
