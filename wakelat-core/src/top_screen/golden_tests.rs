//! Every page as it is drawn from the demo recording, in three sizes.

use super::{
    TopScreen, TopScreenSettings,
    testing::{demo_screen, drawn, press, settings, type_text},
};
use crate::{
    files::{FileIds, FileName, Files},
    report::Report,
    terminal_input::TerminalKey,
    timeline::testing::{EventStream, idle},
    why::testing::TestNames,
};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn assert_page(name: &str, settings: TopScreenSettings, sizes: &[(u16, u16)], open: impl Fn(&mut TopScreen)) {
    let mut screen = demo_screen(settings);
    drawn(&mut screen, 120, 40);
    open(&mut screen);
    for (width, height) in sizes {
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), drawn(&mut screen, *width, *height));
    }
}

#[test]
fn the_table_of_groups() {
    assert_page("groups", settings(), &SIZES, |_| ());
}

#[test]
fn groups_of_processes_names_cgroups_and_cpus() {
    for (presses, name) in (1..).zip(["processes", "names", "cgroups", "cpu_groups"]) {
        assert_page(name, settings(), &SIZES[..1], |screen| type_text(screen, &"g".repeat(presses)));
    }
}

#[test]
fn the_details_of_a_task() {
    assert_page("task", settings(), &SIZES, |screen| {
        press(screen, TerminalKey::Down);
        press(screen, TerminalKey::Enter);
    });
}

#[test]
fn a_wait_with_its_time_line() {
    assert_page("wait", settings(), &SIZES, |screen| {
        press(screen, TerminalKey::Enter);
        press(screen, TerminalKey::Enter);
    });
}

#[test]
fn the_cpus() {
    assert_page("cpus", settings(), &SIZES, |screen| type_text(screen, "c"));
}

#[test]
fn the_cpus_of_several_recordings_have_the_names_of_their_files() {
    let name = |file: &str| FileName { file: file.to_owned(), host: "host".to_owned() };
    let files = Files::new([name("a.wakelat"), name("/srv/recordings/of/a/long/path/b.wakelat")]);
    let mut screen = TopScreen::new(TopScreenSettings { files, ..settings() });
    let mut stream = EventStream::default();
    for file in [0, 1] {
        stream.switch(FileIds::new(file).number(0), 1_000, idle());
    }
    stream.events.iter().for_each(|event| screen.event(event, 0, &TestNames));
    screen.report(&Report::default());
    type_text(&mut screen, "c");
    let page = drawn(&mut screen, 120, 40);
    for cpu in ["0 in a.wakelat", "0 in …f/a/long/path/b.wakelat"] {
        assert!(page.contains(cpu), "{page}");
    }
}

#[test]
fn whether_it_can_be_trusted() {
    assert_page("trust", settings(), &SIZES, |screen| type_text(screen, "v"));
}

#[test]
fn the_keys() {
    assert_page("help", settings(), &SIZES, |screen| type_text(screen, "?"));
}

#[test]
fn a_filter_while_it_is_typed() {
    assert_page("filter", settings(), &SIZES, |screen| type_text(screen, "/postgres"));
    assert_page("wrong_filter", settings(), &SIZES[..1], |screen| type_text(screen, "/--pid x"));
}

#[test]
fn a_part_of_the_time() {
    assert_page("time_bar", settings(), &SIZES, |screen| {
        type_text(screen, "t]]");
        (0..3).for_each(|_| _ = press(screen, TerminalKey::Left));
    });
}

#[test]
fn without_colours_and_in_ascii() {
    let plain = || TopScreenSettings { color: false, unicode: false, ..settings() };
    assert_page("ascii_groups", plain(), &SIZES[..1], |_| ());
    assert_page("ascii_wait", plain(), &SIZES[..1], |screen| {
        press(screen, TerminalKey::Enter);
        press(screen, TerminalKey::Enter);
    });
}
