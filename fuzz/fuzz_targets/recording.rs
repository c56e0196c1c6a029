//! Any bytes as the frames of a recording, shown: nothing may panic, whatever a file says has happened. A checksum is nothing to
//! be guessed, so each frame gets its own.
//!
//! `cargo +nightly fuzz run recording -- -max_total_time=600`
#![no_main]

use crc32fast::Hasher;
use libfuzzer_sys::fuzz_target;
use wakelat::{
    recording::{FORMAT, Frame, MAGIC, Recorded, Recording},
    report::From,
    why::{Known, Rules, Summing, sink},
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
    let rules =
        Rules { from: From::Waking, by: Vec::new(), merged: false, max_groups: 16, worst: 3, untold: Vec::new(), stacks: Vec::new() };
    let (mut summing, mut known, mut names) = (Summing::new(rules), Known::default(), Recorded::default());
    while let Ok(Some(frame)) = recording.frame() {
        names.learn(&frame);
        match frame {
            Frame::Event(event) => {
                known.learn(&event, &names);
                if summing.push(&event, &known).is_some() {
                    known.learn_namespace(&event, &names);
                }
            }
            Frame::WarmedUp => summing.begin(),
            Frame::End(report) => {
                let summary = summing.summary(report.duration_ns, &known);
                sink::json(&summary, &report, &mut Vec::new()).expect("JSON");
            }
            _ => {}
        }
    }
});
