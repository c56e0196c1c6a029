//! The output of `rtla timerlat hist` and `rtla osnoise top`. Pure, except for the runs themselves.

use std::{collections::BTreeMap, process::Command};

use crate::{skip::Skip, tool};

/// One column: a context of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtlaColumn {
    /// Number of activations by latency, in rtla's unit and buckets.
    pub buckets: BTreeMap<u64, u64>,
    /// Number of latencies beyond the histogram.
    pub over: u64,
    /// Number of all latencies.
    pub count: u64,
}

impl RtlaColumn {
    /// The latency that half of the activations do not exceed; none if it is beyond the histogram.
    pub fn median(&self) -> Option<u64> {
        self.nth(self.count.div_ceil(2))
    }

    /// The latency at this rank, where the shortest has rank 1; none if it is beyond the histogram.
    pub fn nth(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        self.buckets.iter().find_map(|(latency, count)| {
            seen += count;
            (seen >= rank).then_some(*latency)
        })
    }

    /// Whether these can be the latencies of threads woken by `irqs`. Each is later than its interrupt,
    /// and one interrupt may be missing, so the latency at each rank is at least that of the interrupts
    /// at the rank below. Whatever stopped the machine stopped both.
    pub fn follow(&self, irqs: &Self) -> bool {
        let at = |column: &Self, rank| column.nth(rank).unwrap_or(u64::MAX);
        (2..=self.count).all(|rank| at(self, rank) >= at(irqs, rank - 1))
    }
}

/// Columns by CPU and context (`irq`, `thread`, `user-ret`).
pub type RtlaHistogram = BTreeMap<(u32, &'static str), RtlaColumn>;

/// Longest latency in the histogram: ns. rtla takes longer to print a long histogram than to measure it.
pub const LONGEST_NS: u64 = 100_000;

/// Runs rtla with buckets of one nanosecond. Skips the test if rtla is not installed.
pub fn hist(seconds: u32, period_us: u32) -> Result<RtlaHistogram, Skip> {
    let rtla = tool::find("rtla", "rtla")?;
    let [seconds, period, entries] = [u64::from(seconds), u64::from(period_us), LONGEST_NS].map(|n| n.to_string());
    let mut command = Command::new(&rtla);
    command.args(["timerlat", "hist", "--nano", "-b", "1", "-E", &entries, "-d", &seconds, "-p", &period]);
    let output = command.output().unwrap_or_else(|error| panic!("{rtla}: {error}"));
    assert!(output.status.success(), "{output:?}");
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses a table such as
///
/// ```text
/// Index   IRQ-000   Thr-000
/// 2410          1         0
/// over:         0         0
/// count:        1         1
/// ```
///
/// Ignores everything after its `max:`, where later versions print sums over all CPUs.
pub fn parse(text: &str) -> RtlaHistogram {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Index"));
    let head = lines.next().unwrap_or_else(|| panic!("no histogram in {text}"));
    let column = |title: &str| {
        let (context, cpu) = title.split_once('-')?;
        let context = match context {
            "IRQ" => "irq",
            "Thr" => "thread",
            "Usr" => "user-ret",
            _ => return None,
        };
        Some((cpu.parse().ok()?, context))
    };
    let keys: Vec<(u32, &'static str)> =
        head.split_whitespace().skip(1).map(|title| column(title).unwrap_or_else(|| panic!("`{title}`"))).collect();
    let mut histogram: RtlaHistogram = keys.iter().map(|key| (*key, RtlaColumn::default())).collect();
    for line in lines.take_while(|line| !line.starts_with("max:")) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        for (key, word) in keys.iter().zip(words) {
            let Ok(number) = word.parse::<u64>() else { continue };
            let column = histogram.get_mut(key).expect("every key has a column");
            match name {
                "over:" => column.over = number,
                "count:" => column.count = number,
                _ if number == 0 => {}
                _ => drop(name.parse().map(|latency| column.buckets.insert(latency, number))),
            }
        }
    }
    histogram
}

/// What `rtla osnoise top` reports about a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtlaNoise {
    /// How long the workload ran: µs.
    pub runtime_us: u64,
    /// The part of this that was noise: µs.
    pub noise_us: u64,
    /// Noises without an interference.
    pub hw: u64,
}

/// Measures the noise of each CPU with rtla. Skips the test if rtla is not installed.
pub fn osnoise_top(seconds: u32) -> Result<BTreeMap<u32, RtlaNoise>, Skip> {
    let rtla = tool::find("rtla", "rtla")?;
    let output = Command::new(&rtla).args(["osnoise", "top", "-q", "-d", &seconds.to_string()]).output();
    let output = output.unwrap_or_else(|error| panic!("{rtla}: {error}"));
    assert!(output.status.success(), "{output:?}");
    Ok(parse_noise(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses the lines of a table such as
///
/// ```text
/// CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI
///   0 #3           3000000        17424    99.41920        6379          810           0            0
/// ```
pub fn parse_noise(text: &str) -> BTreeMap<u32, RtlaNoise> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [cpu, period, runtime, noise, _, _, _, hw, ..] = words[..] else { return None };
        period.strip_prefix('#')?;
        let [runtime_us, noise_us, hw] = [runtime, noise, hw].map(str::parse);
        Some((cpu.parse().ok()?, RtlaNoise { runtime_us: runtime_us.ok()?, noise_us: noise_us.ok()?, hw: hw.ok()? }))
    };
    text.lines().filter_map(line).collect()
}

/// Whether some consecutive `latencies`, as many as rtla saw, are exactly those that rtla saw.
pub fn is_part_of(column: &RtlaColumn, latencies: &[u64]) -> bool {
    let count = column.count as usize;
    let beyond = |latency: u64| latency >= LONGEST_NS;
    // How many more rtla has of each latency than the part under comparison; empty if both are the same.
    let mut more: BTreeMap<u64, i64> = column.buckets.iter().map(|(latency, n)| (*latency, n.cast_signed())).collect();
    more.insert(u64::MAX, column.over.cast_signed());
    let mut change = |latency: u64, by: i64| {
        let key = if beyond(latency) { u64::MAX } else { latency };
        let entry = more.entry(key).or_default();
        *entry += by;
        if *entry == 0 {
            more.remove(&key);
        }
        more.is_empty()
    };
    change(u64::MAX, 0);
    latencies.iter().enumerate().any(|(at, latency)| {
        let same = change(*latency, -1);
        if at < count { same && at + 1 == count } else { change(latencies[at - count], 1) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "# RTLA timerlat histogram\n# Time unit is nanoseconds (ns)\n# Duration:   0 00:00:01\n\
        Index   IRQ-000   Thr-000\n2410          2         0 \n2500          1         0 \n9000          0         2 \n\
        over:         0         1 \ncount:        3         3 \nmin:       2410      9000 \navg:       2440     70000 \n\
        max:       2500    200000 \nALL:        IRQ       Thr\ncount:       99        99 \n";

    #[test]
    fn a_table_is_read_by_its_columns() {
        let histogram = parse(PRINTED);
        let irq = RtlaColumn { buckets: [(2410, 2), (2500, 1)].into(), over: 0, count: 3 };
        let thread = RtlaColumn { buckets: [(9000, 2)].into(), over: 1, count: 3 };
        assert_eq!(histogram, [((0, "irq"), irq), ((0, "thread"), thread)].into());
        assert_eq!(histogram[&(0, "irq")].median(), Some(2410));
        assert_eq!(histogram[&(0, "thread")].median(), Some(9000));
    }

    #[test]
    fn a_table_of_noise_is_read_by_its_lines() {
        let printed = "duration:   0 00:00:04 | time is in us\n\
            CPU Period  Runtime   Noise  % CPU Aval   Max Noise   Max Single   HW   NMI   IRQ   Softirq   Thread\n  \
            0 #1        1003543  536071    46.58215      536071         5654  313     0   135         0       34\n  \
            1 #3        3001802 1063547    64.56971      529603        12081 1386     0   522         0       92\n";
        let noise = |runtime_us, noise_us, hw| RtlaNoise { runtime_us, noise_us, hw };
        assert_eq!(
            parse_noise(printed),
            [(0, noise(1_003_543, 536_071, 313)), (1, noise(3_001_802, 1_063_547, 1_386))].into()
        );
    }

    #[test]
    fn threads_follow_their_interrupts_and_not_vice_versa() {
        let histogram = parse(PRINTED);
        let (irq, thread) = (&histogram[&(0, "irq")], &histogram[&(0, "thread")]);
        assert_eq!([1, 2, 3, 4].map(|rank| irq.nth(rank)), [Some(2410), Some(2410), Some(2500), None]);
        assert!(thread.follow(irq));
        assert!(!irq.follow(thread));
    }

    #[test]
    fn a_part_is_found_at_any_offset_and_only_as_a_whole() {
        let histogram = parse(PRINTED);
        let (irq, thread) = (&histogram[&(0, "irq")], &histogram[&(0, "thread")]);
        assert!(is_part_of(irq, &[2410, 2500, 2410]));
        assert!(is_part_of(irq, &[7, 2410, 2410, 2500, 8]));
        assert!(!is_part_of(irq, &[2410, 7, 2410, 2500]));
        assert!(!is_part_of(irq, &[2410, 2500]));
        assert!(is_part_of(thread, &[1, 9000, LONGEST_NS, 9000]));
        assert!(!is_part_of(thread, &[9000, 9001, 9000]));
    }
}
