//! The CPUs of a trace, which may be of several machines.

use crate::{
    files::{FileIds, Files, number_of_cpu, own_number},
    hash::HashMap,
    recording::Header,
};

/// The CPUs of a trace by their IDs. Perfetto's tables have a place for each number, so that numbers have to be small: those
/// of each recording follow the ones of the recording before.
#[derive(Debug)]
pub(super) struct TraceCpus {
    /// If there are several recordings.
    numbers: HashMap<u32, u32>,
    are_several: bool,
}

impl TraceCpus {
    /// The online CPUs of the recordings with these headers.
    pub(super) fn new(headers: &[&Header], files: &Files) -> Self {
        let mut cpus = Self { numbers: HashMap::default(), are_several: files.are_several() };
        for (number, header) in headers.iter().enumerate().filter(|_| files.are_several()) {
            // A list such as `0-3,8-11`.
            let last = header.machine.cpus_online.rsplit([',', '-']).next().and_then(|last| last.parse().ok());
            let ids = FileIds::new(number);
            (0..=last.map_or(0, own_number)).for_each(|cpu| _ = cpus.number(ids.number(cpu)));
        }
        cpus
    }

    /// The number of a CPU in the trace. One that was not online when its recording began follows all others.
    pub(super) fn number(&mut self, cpu: u32) -> u32 {
        if !self.are_several {
            return cpu;
        }
        let next = self.numbers.len() as u32;
        *self.numbers.entry(cpu).or_insert(next)
    }

    /// The first and the last CPU of each recording in the trace, by the number of the recording.
    pub(super) fn of_recordings(&self) -> Vec<(usize, u32, u32)> {
        let mut all: Vec<(usize, u32)> =
            self.numbers.iter().map(|(cpu, number)| (number_of_cpu(*cpu) as usize, *number)).collect();
        all.sort_unstable();
        let mut ranges: Vec<(usize, u32, u32)> = Vec::new();
        for (file, number) in all {
            match ranges.last_mut() {
                Some((last_file, _, to)) if *last_file == file && *to + 1 == number => *to = number,
                _ => ranges.push((file, number, number)),
            }
        }
        ranges
    }
}
