//! Recordings.

use std::{collections::BTreeMap, io::Cursor};

use wakelat_core::{
    aggregate::{Groups, key::Key},
    recording::{
        FORMAT, Frame, FrameOrder, MAGIC, RecordedNames, RecordedStacks, Recording, Recordings, TimePoint, TimeRange,
        block,
    },
    render::{OutputFormat, ReportView, Style},
    report::{LatencyFrom, Report},
    timeline::stack_event::Role,
    why::{NameCache, SummaryBuilder, SummaryOptions, render},
};

/// Reads any bytes as the blocks of a recording, and shows it, alone, twice as two recordings, and in part: nothing may panic,
/// whatever events the file contains. Returns the number of frames after the header.
///
/// A block is a length of four bytes, little-endian, and that many bytes of frames. It is compressed and gets a valid
/// checksum here, because the fuzzer cannot guess one.
pub fn check(blocks: &[u8]) -> usize {
    let file = as_file(blocks);
    let Ok(mut recording) = Recording::open(&file[..]) else { return 0 };
    for order in [FrameOrder::ByTime, FrameOrder::BySegment] {
        let twice = [&file[..]; 2].into_iter().filter_map(|file| Recording::open(file).ok());
        let mut recordings = Recordings::new(twice.collect(), order);
        show(|| {
            let frame = recordings.frame().ok().flatten();
            recordings.position();
            frame
        });
    }
    for can_seek in [false, true] {
        let range = TimeRange { since: Some(TimePoint::SinceBegin(1)), until: Some(TimePoint::Unix(1 << 60)) };
        let within = Recording::open(Cursor::new(&file)).and_then(|recording| recording.within(range, can_seek));
        let Ok(mut within) = within else { continue };
        show(|| within.frame().ok().flatten());
    }
    show(|| recording.frame().ok().flatten())
}

const ROLES: [Role; 2] = [Role::Waker, Role::Wakee];

/// Shows frames. Returns their number.
fn show(mut frame: impl FnMut() -> Option<Frame<'static>>) -> usize {
    let options = SummaryOptions {
        from: LatencyFrom::Waking,
        by: Vec::new(),
        merged: false,
        max_groups: 16,
        worst: 3,
        not_collected: Vec::new(),
        stacks: ROLES.to_vec(),
        own_pids: Vec::new(),
    };
    let (mut builder, mut known, mut names) =
        (SummaryBuilder::new(options), NameCache::default(), RecordedNames::default());
    builder.enable_folding();
    let mut stacks = RecordedStacks::default();
    let (mut keys, mut groups) = (BTreeMap::new(), Groups::new(vec![Key::Cgroup, Key::Tid], false, 16));
    let mut accepted = 0;
    while let Some(frame) = frame() {
        accepted += 1;
        names.learn(&frame);
        stacks.learn(&frame);
        match frame {
            Frame::Event(event) => {
                known.learn(&event, &names);
                if builder.push(&event, &known).is_some() {
                    known.learn_namespace(&event, &names);
                }
            }
            Frame::WarmedUp => builder.start_window(),
            Frame::Wait(wait) => groups.record(&wait),
            Frame::Group { number, key } => _ = keys.insert(number, key),
            Frame::Histograms(histograms) => histograms.iter().for_each(|one| {
                let Some(key) = keys.get(&one.group) else { return };
                groups.add_recorded(*key, one.count(), |waits| one.add_to(waits, &names));
            }),
            Frame::Reading(report) => show_groups(&mut groups, &report, &names),
            Frame::End(report) => {
                show_groups(&mut groups, &report, &names);
                let mut summary = builder.summary(report.duration_ns, &known);
                builder.add_stacks(&mut summary, stacks.counts(), &stacks, &known);
                builder.folded().map(|folded| folded.lines(&ROLES, &stacks, &known));
                render::json(&summary, &report, &mut Vec::new()).expect("JSON");
            }
            _ => {}
        }
    }
    accepted
}

/// Renders the groups of the window that ends at `reading`, and begins the next one.
fn show_groups(groups: &mut Groups, reading: &Report, names: &RecordedNames) {
    let report = Report { groups: groups.report(names, None), ..reading.clone() };
    for format in [OutputFormat::Human, OutputFormat::Json, OutputFormat::Csv] {
        let mut reports = format.reports(ReportView::Chart, &["cgroup", "tid"], Style::default());
        reports.report(&report, &mut Vec::new()).expect("a report");
    }
    groups.clear();
}

fn as_file(blocks: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(FORMAT.to_le_bytes());
    let (mut rest, mut number) = (blocks, 0);
    while let Some((length, after)) = rest.split_first_chunk() {
        let (frames, after) = after.split_at(after.len().min(u32::from_le_bytes(*length) as usize));
        block::append(number, true, frames, &mut file);
        number += 1;
        rest = after;
    }
    file
}
