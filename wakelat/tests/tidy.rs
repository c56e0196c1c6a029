//! The invariants of ARCHITECTURE.md, as far as the source text shows them.

mod support;

use std::collections::BTreeSet;

use support::{files, read};
use wakelat_common::Counter;

/// A source file without its comments and tests.
struct Source {
    path: String,
    code: String,
}

impl Source {
    /// The words of the code: identifiers, keywords, macro names.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
    }

    fn is_below(&self, paths: &[&str]) -> bool {
        paths.iter().any(|path| self.path.starts_with(path))
    }

    /// The modules of this crate that the file uses, as `crate::NAME` or in `crate::{…}`.
    fn modules_used(&self) -> BTreeSet<&str> {
        let word = |text: &'static str| move |c: char| !c.is_alphanumeric() && !text.contains(c);
        let mut used = BTreeSet::new();
        for rest in self.code.split("crate::").skip(1) {
            let Some(group) = rest.strip_prefix('{') else {
                used.extend(rest.split(word("_")).next());
                continue;
            };
            let mut depth = 1;
            let mut piece = 0;
            for (at, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 || depth == 1 && c == ',' {
                    used.extend(group[piece..at].trim().split(word("_")).next().filter(|name| !name.is_empty()));
                    piece = at + 1;
                }
                if depth == 0 {
                    break;
                }
            }
        }
        used
    }
}

/// The source files in and below a directory, except those that only tests compile.
fn sources(directory: &str) -> Vec<Source> {
    let paths = files(directory, "rs");
    let texts: Vec<String> = paths.iter().map(|path| read(path)).collect();
    let mut only_tests = BTreeSet::new();
    for (path, text) in paths.iter().zip(&texts) {
        let (parent, _) = path.rsplit_once('/').expect("a directory");
        let lines: Vec<&str> = text.lines().collect();
        let is_for_tests = |line| ["#[cfg(test)]", "#[cfg(any(test, feature = \"testing\"))]"].contains(&line);
        for pair in lines.windows(2).filter(|pair| is_for_tests(pair[0])) {
            if let Some((_, name)) = pair[1].trim_end_matches(';').split_once("mod ").filter(|_| pair[1].ends_with(';'))
            {
                only_tests.insert(format!("{parent}/{name}.rs"));
            }
        }
    }
    let code = |text: &str| {
        let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let joined = lines.collect::<Vec<_>>().join("\n");
        // Tests are at the end of a file.
        ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(crate) mod tests {"]
            .iter()
            .find_map(|tests| joined.split_once(tests).map(|(before, _)| before.to_owned()))
            .unwrap_or(joined)
    };
    let sources: Vec<Source> = paths
        .into_iter()
        .zip(&texts)
        .filter(|(path, _)| !only_tests.contains(path))
        .map(|(path, text)| Source { path, code: code(text) })
        .collect();
    assert!(!sources.is_empty(), "no source in {directory}");
    sources
}

/// Asserts that `is_broken` holds only for sources in `directory` that `allowed` lists, and for at
/// least one source of each entry of `allowed`.
fn assert_only_in(directory: &str, allowed: &[&str], what: &str, is_broken: impl Fn(&Source) -> bool) {
    let found: Vec<Source> = sources(directory).into_iter().filter(|source| is_broken(source)).collect();
    let wrong: Vec<&str> =
        found.iter().filter(|source| !source.is_below(allowed)).map(|source| &source.path[..]).collect();
    assert!(wrong.is_empty(), "{what} in {wrong:?}; expected only in {allowed:?}");
    for path in allowed {
        assert!(found.iter().any(|source| source.path.starts_with(path)), "no {what} in {path}: remove it");
    }
}

#[test]
fn pure_modules_do_no_io_and_read_no_clock() {
    let outside = [
        "File",
        "Instant",
        "SystemTime",
        "TcpListener",
        "TcpStream",
        "ToSocketAddrs",
        "UdpSocket",
        "UnixStream",
        "eprint",
        "eprintln",
        "fs",
        "libc",
        "now",
        "print",
        "println",
        "rustix",
        "stderr",
        "stdin",
        "stdout",
    ];
    let pure = [
        "wakelat-tracefs/src/hist_trigger/",
        "wakelat-tracefs/src/osnoise_tracers/local_clock.rs",
        "wakelat-tracefs/src/osnoise_tracers/events.rs",
        "wakelat-tracefs/src/osnoise_tracers/record_decoder.rs",
        "wakelat-tracefs/src/osnoise_tracers/page.rs",
        "wakelat-tracefs/src/osnoise_tracers/osnoise_files.rs",
        "wakelat-tracefs/src/osnoise_tracers/tracer_request.rs",
        "wakelat-tracefs/src/osnoise_tracers/stop.rs",
        "wakelat-tracefs/src/osnoise_tracers/trace_text_writer.rs",
    ];
    let in_tracefs = sources("wakelat-tracefs/src");
    for path in pure {
        assert!(in_tracefs.iter().any(|source| source.path.starts_with(path)), "no source in {path}");
    }
    let in_tracefs = in_tracefs.into_iter().filter(|source| source.is_below(&pure));
    for source in sources("wakelat-core/src").into_iter().chain(in_tracefs) {
        let found: Vec<&str> = source.words().filter(|word| outside.contains(word)).collect();
        assert!(found.is_empty(), "{found:?} in {}", source.path);
    }
}

/// A use of a crate that is not a dependency does not compile: these lists are all there is to check.
#[test]
fn crates_depend_on_each_other_in_one_direction() {
    let unknown: [(&str, &[&str]); 4] = [
        (
            "wakelat-core",
            &["aya", "aya-obj", "clap", "libc", "rustix", "tokio", "wakelat", "wakelat-kernel", "wakelat-tracefs"],
        ),
        ("wakelat-kernel", &["aya", "clap", "tokio", "wakelat", "wakelat-tracefs"]),
        (
            "wakelat-sandbox",
            &["aya", "aya-obj", "clap", "tokio", "wakelat", "wakelat-core", "wakelat-kernel", "wakelat-tracefs"],
        ),
        ("wakelat-tracefs", &["aya", "aya-obj", "clap", "tokio", "wakelat"]),
    ];
    for (name, unknown) in unknown {
        let manifest = read(&format!("{name}/Cargo.toml"));
        let names = |line: &str| line.split_once(['=', ' ', '.']).map(|(name, _)| name.to_owned());
        let found: Vec<String> =
            manifest.lines().filter_map(names).filter(|found| unknown.contains(&found.as_str())).collect();
        assert!(found.is_empty(), "{name} depends on {found:?}");
        let script = format!("{name}/build.rs");
        assert!(!files(name, "rs").contains(&script), "{script}: the tests would need what it builds");
    }
}

#[test]
fn data_flows_in_one_direction() {
    let knows: [(&str, &[&str]); 32] = [
        ("wakelat-core/src/wait.rs", &[]),
        ("wakelat-core/src/files.rs", &["wait"]),
        ("wakelat-core/src/softirq.rs", &[]),
        ("wakelat-core/src/cpu_interrupt.rs", &[]),
        ("wakelat-core/src/decode.rs", &["wait"]),
        ("wakelat-core/src/report.rs", &["aggregate", "files", "wait"]),
        ("wakelat-core/src/report/", &["aggregate"]),
        ("wakelat-core/src/aggregate/", &["files", "report", "timeline", "wait"]),
        ("wakelat-core/src/render/", &["aggregate", "files", "report", "timeline", "wait"]),
        ("wakelat-core/src/timeline/event.rs", &["wait"]),
        ("wakelat-core/src/timeline/decode/", &["decode", "wait"]),
        ("wakelat-core/src/timeline/", &["report", "wait"]),
        (
            "wakelat-core/src/why/render/",
            &["aggregate", "cpu_interrupt", "files", "render", "report", "softirq", "timeline", "wait", "why"],
        ),
        ("wakelat-core/src/why/", &["aggregate", "files", "report", "timeline", "wait"]),
        ("wakelat-core/src/service/", &["aggregate", "duration", "render", "report", "why"]),
        ("wakelat-core/src/compare/", &["aggregate", "render", "report", "timeline", "why"]),
        ("wakelat-core/src/recording/", &["aggregate", "files", "report", "timeline", "wait"]),
        (
            "wakelat-core/src/perfetto/",
            &["aggregate", "files", "recording", "render", "report", "timeline", "wait", "why"],
        ),
        (
            "wakelat-core/src/parquet/",
            &["aggregate", "files", "recording", "render", "report", "timeline", "wait", "why"],
        ),
        (
            "wakelat-core/src/html_report/",
            &["aggregate", "compare", "files", "recording", "render", "report", "timeline", "wait", "why"],
        ),
        ("wakelat-core/src/svg/", &["aggregate", "files", "render", "report", "timeline", "why"]),
        (
            "wakelat-core/src/top_screen/",
            &["aggregate", "files", "render", "report", "terminal_input", "timeline", "top_screen", "wait", "why"],
        ),
        ("wakelat-core/src/folded_waits.rs", &["aggregate", "render", "timeline", "why"]),
        (
            "wakelat-core/src/osnoise_tracers/render/",
            &["aggregate", "cpu_interrupt", "osnoise_tracers", "render", "softirq", "wait"],
        ),
        ("wakelat-core/src/osnoise_tracers/", &["aggregate", "osnoise_tracers", "trace_line", "wait"]),
        ("wakelat-core/src/trace_line/", &["wait"]),
        (
            "wakelat-core/src/trace_text/",
            &["aggregate", "decode", "recording", "report", "timeline", "trace_line", "wait"],
        ),
        ("wakelat-core/src/", &[]),
        ("wakelat/src/cli/", &["config"]),
        ("wakelat/src/config/", &["config"]),
        ("wakelat/src/collect/", &["config"]),
        ("wakelat/src/session/", &["collect", "config", "status"]),
    ];
    for source in sources("wakelat-core/src").into_iter().chain(sources("wakelat/src")) {
        let Some((_, known)) = knows.iter().find(|(place, _)| source.path.starts_with(place)) else { continue };
        // Every module may use the hash maps.
        let is_wrong = |name: &&str| *name != "hash" && !known.contains(name);
        let wrong: Vec<&str> = source.modules_used().into_iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{} uses {wrong:?}; expected only {known:?}", source.path);
    }
}

/// The crates of user space deny `unsafe` themselves; this one is also a crate of the kernel.
#[test]
fn unsafe_is_used_only_where_the_kernel_is_called() {
    let is_unsafe = |source: &Source| source.words().any(|word| word == "unsafe");
    assert_only_in("wakelat-common/src", &["wakelat-common/src/lib.rs"], "`unsafe`", is_unsafe);
    let denies = [
        ("wakelat/src/lib.rs", "#![deny(unsafe_code)]"),
        ("wakelat/src/main.rs", "#![forbid(unsafe_code)]"),
        ("wakelat-core/src/lib.rs", "#![forbid(unsafe_code)]"),
        ("wakelat-kernel/src/lib.rs", "#![deny(unsafe_code)]"),
        ("wakelat-sandbox/src/lib.rs", "#![deny(unsafe_code)]"),
        ("wakelat-tracefs/src/lib.rs", "#![forbid(unsafe_code)]"),
    ];
    for (root, attribute) in denies {
        assert!(read(root).contains(attribute), "no `{attribute}` in {root}");
    }
}

#[test]
fn kernel_structures_are_read_in_one_place() {
    let uses = |name: &'static str| move |source: &Source| source.words().any(|word| word == name);
    let programs = "wakelat-ebpf/src";
    let main = "wakelat-ebpf/src/main.rs";
    // The module and its files.
    let (structs, record) = ("wakelat-ebpf/src/kernel_structs", "wakelat-ebpf/src/classic_fields.rs");
    assert_only_in(programs, &[main, structs], "accessors of kernel structures", uses("accessors"));
    assert_only_in(programs, &[structs, record], "reading of kernel memory", uses("bpf_probe_read_kernel"));
}

#[test]
fn no_sample_wakes_its_reader() {
    let sends = |source: &Source| ["submit", "output"].iter().any(|call| source.code.contains(&format!(".{call}(")));
    assert_only_in("wakelat-ebpf/src", &["wakelat-ebpf/src/ring_buffers.rs"], "sending of records", sends);
    let rings =
        sources("wakelat-ebpf/src").into_iter().find(|source| source.path.ends_with("ring_buffers.rs")).unwrap();
    let submits: Vec<&str> = rings.code.lines().filter(|line| line.contains(".submit(")).collect();
    assert!(submits.iter().all(|line| line.contains("BPF_RB_NO_WAKEUP")), "{submits:?}");
}

#[test]
fn every_counter_is_a_term_of_the_coverage() {
    let coverage = read("wakelat-core/src/aggregate/coverage.rs");
    // Samples that the kernel sent are reported only if they arrived: others would break the identity.
    for counter in Counter::ALL.into_iter().filter(|counter| *counter != Counter::Measured) {
        assert!(coverage.contains(&format!("Counter::{counter:?}]")), "`{counter:?}` is counted but not reported");
    }
}

#[test]
fn only_the_output_and_tracefs_are_written() {
    let writes = |source: &Source| {
        let calls = [
            "File::create",
            "File::options",
            "OpenOptions",
            "fs::write",
            "create_dir",
            "remove_dir",
            "remove_file",
            "fs::rename",
        ];
        calls.iter().any(|call| source.code.contains(call))
    };
    let written = [
        "wakelat/src/session/output.rs",
        "wakelat/src/commands/serve/listener.rs",
        // Files of the flight recorder and of captures.
        "wakelat/src/commands/numbered_files.rs",
        "wakelat/src/commands/top/new_files.rs",
        // It opens `/dev/null`, as the output of what it starts.
        "wakelat/src/commands/capture_process/mod.rs",
        "wakelat/src/commands/export/parquet.rs",
        "wakelat/src/commands/compare/interleaved_runs.rs",
    ];
    assert_only_in("wakelat/src", &written, "writing", writes);
    assert_only_in("wakelat-kernel/src", &[], "writing", writes);
    assert_only_in("wakelat-sandbox/src", &[], "writing", writes);
    assert_only_in(
        "wakelat-tracefs/src",
        &[
            "wakelat-tracefs/src/instance.rs",
            "wakelat-tracefs/src/leftovers.rs",
            "wakelat-tracefs/src/mount.rs",
            "wakelat-tracefs/src/osnoise_tracers/buffer.rs",
            "wakelat-tracefs/src/osnoise_tracers/thread_placement.rs",
            "wakelat-tracefs/src/osnoise_tracers/saved_settings.rs",
        ],
        "writing",
        writes,
    );
}

#[test]
fn only_the_command_line_uses_clap() {
    let uses = |source: &Source| source.words().any(|word| word == "clap");
    assert_only_in("wakelat/src", &["wakelat/src/cli/"], "clap", uses);
}

/// The libraries of the command that touch the machine.
const LIBRARIES: [&str; 3] = ["wakelat-kernel/src", "wakelat-sandbox/src", "wakelat-tracefs/src"];

#[test]
fn only_main_ends_the_process() {
    let ends =
        |source: &Source| ["ExitCode", "process::exit", "process::abort"].iter().any(|word| source.code.contains(word));
    assert_only_in("wakelat/src", &["wakelat/src/main.rs"], "an exit", ends);
    for directory in LIBRARIES {
        assert_only_in(directory, &[], "an exit", ends);
    }
}

/// The macros for standard output and error panic if the reader has closed the stream.
#[test]
fn no_macro_that_panics_on_a_closed_stream_is_used() {
    let panics = |source: &Source| ["print!(", "println!("].iter().any(|call| source.code.contains(call));
    for directory in ["wakelat/src"].into_iter().chain(LIBRARIES) {
        assert_only_in(directory, &[], "a macro that panics", panics);
    }
}

#[test]
fn a_file_is_short_and_named_after_what_it_does() {
    let vague = ["helper", "helpers", "manager", "misc", "util", "utils"];
    for path in CRATES.iter().chain(&["fuzz"]).flat_map(|directory| files(directory, "rs")) {
        let lines = read(&path).lines().count();
        assert!(lines < LONGEST, "{path} has {lines} lines; expected fewer than {LONGEST}");
        assert!(!path.split(['/', '.']).any(|part| vague.contains(&part)), "the name of {path} is vague");
    }
}

/// The crates of the workspace, by directory.
const CRATES: [&str; 9] = [
    "tests",
    "wakelat",
    "wakelat-common",
    "wakelat-core",
    "wakelat-ebpf",
    "wakelat-kernel",
    "wakelat-sandbox",
    "wakelat-tracefs",
    "xtask",
];

/// Line limit of a file: one with more than some 400 lines has more than one job.
const LONGEST: usize = 420;

#[test]
fn no_test_is_ignored() {
    let ignore = concat!("#[", "ignore");
    for directory in CRATES {
        for path in files(directory, "rs") {
            assert!(!read(&path).contains(ignore), "{path}");
        }
    }
}

#[test]
fn each_file_of_kernel_tests_is_a_suite() {
    let program = read("tests/tests/main.rs");
    // A module whose tests are not in the list is dead code, which the compiler reports.
    let files = files("tests/tests", "rs").into_iter().filter(|path| path != "tests/tests/main.rs");
    let name = |path: &String| path.trim_start_matches("tests/tests/").trim_end_matches(".rs").to_owned();
    let left_out: Vec<_> =
        files.map(|path| name(&path)).filter(|name| !program.contains(&format!("\nmod {name};"))).collect();
    assert!(left_out.is_empty(), "not in `tests/tests/main.rs`: {left_out:?}");
}
