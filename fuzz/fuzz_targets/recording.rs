//! Reads any bytes as the frames of a recording, and shows it: nothing may panic, whatever events the file
//! contains. Each frame gets a valid checksum, because the fuzzer cannot guess one.
//!
//! `cargo +nightly fuzz run recording -- -max_total_time=600`
#![no_main]

use crc32fast::Hasher;
use libfuzzer_sys::fuzz_target;
use wakelat_core::{
    recording::{FORMAT, Frame, MAGIC, RecordedNames, Recording},
    report::LatencyFrom,
    why::{NameCache, SummaryBuilder, SummaryOptions, render},
};

fuzz_target!(|frames: &[u8]| {
    let mut file = MAGIC.to_vec();
    file.extend(FORMAT.to_le_bytes());
    let (mut rest, mut checksum) = (frames, Hasher::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let (content, after) = after.split_at(after.len().min(u32::from_le_bytes(*length) as usize));
        checksum.update(content);
        file.extend(length);
        file.extend(checksum.clone().finalize().to_le_bytes());
        file.extend(content);
        rest = after;
    }
    let Ok(mut recording) = Recording::open(&file[..]) else { return };
    let options = SummaryOptions {
        from: LatencyFrom::Waking,
        by: Vec::new(),
        merged: false,
        max_groups: 16,
        worst: 3,
        not_collected: Vec::new(),
        stacks: Vec::new(),
        own_pid: None,
    };
    let (mut builder, mut known, mut names) =
        (SummaryBuilder::new(options), NameCache::default(), RecordedNames::default());
    while let Ok(Some(frame)) = recording.frame() {
        names.learn(&frame);
        match frame {
            Frame::Event(event) => {
                known.learn(&event, &names);
                if builder.push(&event, &known).is_some() {
                    known.learn_namespace(&event, &names);
                }
            }
            Frame::WarmedUp => builder.start_window(),
            Frame::End(report) => {
                let summary = builder.summary(report.duration_ns, &known);
                render::json(&summary, &report, &mut Vec::new()).expect("JSON");
            }
            _ => {}
        }
    }
});
