//! Reads the trace buffer of the instance, `per_cpu/cpuN/trace_pipe_raw`, page by page.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::{Context as _, Result};

use super::{
    comm_cache::ThreadNames,
    local_clock::LocalClock,
    page::{MissedEvents, PageLayout},
    record_decoder::{EVENTS, Layouts},
};
use crate::read_at_once;
use wakelat_core::osnoise_tracers::record::{LostByCpu, TimerlatEvent, TimerlatRecord};
use wakelat_kernel::event_format::EventFormat;

/// The trace buffers of an instance, one for each CPU.
pub struct TraceBuffer {
    form: PageLayout,
    layouts: Layouts,
    clock: LocalClock,
    cpus: Vec<Cpu>,
    page: Vec<u8>,
}

struct Cpu {
    number: u32,
    pipe: File,
    /// The path of the kernel's statistics of the buffer.
    stats: std::path::PathBuf,
    lost: u64,
    /// Whether a page did not have the number of records lost before it.
    unknown: bool,
}

impl TraceBuffer {
    /// Opens the buffers of the instance in `directory`. With `only_stacks`, reads only kernel stacks and
    /// skips all other records.
    pub fn open(directory: &Path, only_stacks: bool) -> Result<Self> {
        let read = |file: &str| {
            let path = directory.join("events").join(file);
            read_at_once(&path).with_context(|| format!("cannot read `{}`", path.display()))
        };
        let form = PageLayout::parse(&read("header_page")?).context("cannot parse `events/header_page`")?;
        let mut layouts = Layouts::default();
        for event in EVENTS.iter().filter(|event| !only_stacks || **event == "ftrace/kernel_stack") {
            let file = format!("{event}/format");
            layouts.add(EventFormat::parse(&read(&file)?).with_context(|| format!("cannot parse `events/{file}`"))?);
        }
        let per_cpu = directory.join("per_cpu");
        let mut cpus = Vec::new();
        let entries = fs::read_dir(&per_cpu).with_context(|| format!("cannot read `{}`", per_cpu.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read `{}`", per_cpu.display()))?;
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok()) else { continue };
            let path = entry.path().join("trace_pipe_raw");
            let pipe = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            let pipe = pipe.with_context(|| format!("cannot read `{}`", path.display()))?;
            cpus.push(Cpu { number, pipe, stats: entry.path().join("stats"), lost: 0, unknown: false });
        }
        cpus.sort_by_key(|cpu| cpu.number);
        let page = vec![0; form.size];
        Ok(Self { form, layouts, clock: LocalClock::default(), cpus, page })
    }

    /// Appends all available records to `records`, those of each CPU in order. Records written in the
    /// meantime are left for the next call, so that a reader that is too slow still finishes.
    pub fn drain(
        &mut self,
        started_ns: u64,
        threads: &mut ThreadNames,
        records: &mut Vec<TimerlatRecord>,
    ) -> Result<()> {
        let Self { form, layouts, clock, cpus, page } = self;
        for Cpu { number: cpu, pipe, lost, unknown, .. } in cpus {
            loop {
                let length = match pipe.read(page) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error).with_context(|| format!("cannot read the buffer of CPU {cpu}")),
                };
                let read = form.read(&page[..length]).with_context(|| format!("the buffer of CPU {cpu}"))?;
                match read.missed {
                    MissedEvents::None => {}
                    MissedEvents::Some(count) => *lost += count,
                    MissedEvents::Unknown => *unknown = true,
                }
                let is_later = read.records.last().is_some_and(|(at_ns, _)| *at_ns > started_ns);
                for (at_ns, bytes) in read.records {
                    let Some(decoded) = layouts.decode(*cpu, at_ns, bytes, clock) else { continue };
                    if let TimerlatEvent::ThreadNoise { tid, comm, .. } = &decoded.event {
                        threads.learn(*tid, *comm);
                    }
                    let task = Some(threads.task(decoded.tid, *cpu));
                    records.push(TimerlatRecord { at_ns, cpu: *cpu, task, event: decoded.event });
                }
                if is_later {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Records that each CPU has lost so far, because they were overwritten before they were read.
    pub fn lost(&self) -> LostByCpu {
        let count = |cpu: &Cpu| {
            if !cpu.unknown {
                return cpu.lost;
            }
            // The kernel's own count; the pages report only a part of it.
            let stats = fs::read_to_string(&cpu.stats).unwrap_or_default();
            cpu.lost.max(overrun(&stats).unwrap_or(0)).max(1)
        };
        self.cpus.iter().map(|cpu| (cpu.number, count(cpu))).collect()
    }
}

/// Parses the overruns in `per_cpu/cpuN/stats` (`tracing_stats_read`, kernel/trace/trace.c).
fn overrun(stats: &str) -> Option<u64> {
    stats.lines().find_map(|line| line.strip_prefix("overrun: ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_overwritten_records_is_parsed() {
        let stats = "entries: 12\noverrun: 345\ncommit overrun: 0\nbytes: 4\ndropped events: 0\nread events: 7\n";
        assert_eq!(overrun(stats), Some(345));
        assert_eq!(overrun("entries: 12\n"), None);
    }
}
