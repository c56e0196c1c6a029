//! How the test program runs: one suite after another, each in a process of its own, and one test after another, except
//! for those that only wait. Each runs under its name, with a reason for every skip and every failure.
//!
//! The test program is also the workload: if run with [`workload::ARGUMENT`], it performs one instead of
//! testing, so that a virtual machine needs only one file.

use std::{
    any::Any,
    env,
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::{Command, ExitCode},
    sync::Arc,
};

use libtest_mimic::{Arguments, Completion, Trial};
use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{SigHandler, Signal, signal},
};

pub use crate::skip::{Skip, TestOutcome};
use crate::{
    cgroup::Hierarchy,
    concurrent::{ConcurrentTests, TestBody},
    machine,
    wakelat::AttachCase,
    workload,
};

/// Tests of one subject.
pub struct Suite {
    /// Its name: that of its file.
    pub name: &'static str,
    /// Its tests.
    pub cases: fn() -> Vec<Case>,
}

impl Suite {
    /// Whether these arguments select a test of this suite.
    fn has(&self, arguments: &Arguments) -> bool {
        let Some(text) = &arguments.filter else { return true };
        let mut tests = (self.cases)().into_iter().flat_map(Case::tests);
        tests.any(|test| if arguments.exact { test.name == *text } else { test.name.contains(text) })
    }
}

/// A test and its name.
pub struct Case {
    name: &'static str,
    body: Body,
    /// Whether it runs concurrently with others: see [`concurrent`].
    concurrent: bool,
}

enum Body {
    /// Runs once.
    Once(fn() -> TestOutcome),
    /// Runs once for each of these ways to attach programs.
    Attached(&'static [AttachCase], fn(AttachCase) -> TestOutcome),
}

impl Case {
    /// A test that runs once.
    pub const fn once(name: &'static str, body: fn() -> TestOutcome) -> Self {
        Self { name, body: Body::Once(body), concurrent: false }
    }

    /// A test that runs once for each of these ways to attach programs, under the names `<name>_btf` and so on.
    pub const fn attached(
        name: &'static str,
        ways: &'static [AttachCase],
        body: fn(AttachCase) -> TestOutcome,
    ) -> Self {
        Self { name, body: Body::Attached(ways, body), concurrent: false }
    }

    fn tests(self) -> Vec<Test> {
        let test = |name: String, body: TestBody| Test { name, body, concurrent: self.concurrent };
        match self.body {
            Body::Once(body) => vec![test(self.name.to_owned(), Box::new(body))],
            Body::Attached(ways, body) => ways
                .iter()
                .map(|attach| test(format!("{}_{}", self.name, attach.name()), Box::new(move || body(*attach))))
                .collect(),
        }
    }
}

/// A test under its whole name.
struct Test {
    name: String,
    body: TestBody,
    concurrent: bool,
}

/// These tests of a suite run concurrently: they wait for most of their time, and nothing that they show depends
/// on what else the machine does. In an emulator, waits take no time, and all tests run one after another.
pub fn concurrent(cases: Vec<Case>) -> Vec<Case> {
    cases.into_iter().map(|case| Case { concurrent: true, ..case }).collect()
}

/// Declares each function as a test that runs under both ways of attaching that know everything about a
/// task: `attached![a_fact, another_fact]`.
#[macro_export]
macro_rules! attached {
    ($($test:ident),* $(,)?) => {
        vec![$($crate::suite::Case::attached(stringify!($test), &$crate::wakelat::AttachCase::TYPES, $test)),*]
    };
}

/// Declares each function as a test under typed tracepoints only: for what happens between waits, and
/// for slow tests that do not depend on the way of attaching.
#[macro_export]
macro_rules! attached_typed {
    ($($test:ident),* $(,)?) => {
        vec![$($crate::suite::Case::attached(stringify!($test), &[$crate::wakelat::AttachCase::Btf], $test)),*]
    };
}

/// Declares each function as a test that runs under every way of attaching, including the one that
/// knows only what is in trace records.
#[macro_export]
macro_rules! attached_every_way {
    ($($test:ident),* $(,)?) => {
        vec![$($crate::suite::Case::attached(stringify!($test), &$crate::wakelat::AttachCase::ALL, $test)),*]
    };
}

/// Declares each function as a test that runs under the ways of [`attached`], and once more with a
/// sample of each wait: for tests whose question the kernel can answer by aggregating.
#[macro_export]
macro_rules! attached_every_mode {
    ($($test:ident),* $(,)?) => {
        vec![$($crate::suite::Case::attached(stringify!($test), &$crate::wakelat::AttachCase::MODES, $test)),*]
    };
}

/// Declares each function as a test that runs once: `once![a_fact, another_fact]`.
#[macro_export]
macro_rules! once {
    ($($test:ident),* $(,)?) => { vec![$($crate::suite::Case::once(stringify!($test), $test)),*] };
}

/// Declares each function as a test that runs once for each source of a tracer's records:
/// `from_each_source![a_fact, another_fact]`.
#[macro_export]
macro_rules! from_each_source {
    ($($test:ident),* $(,)?) => {
        vec![$(
            $crate::suite::Case::once(concat!(stringify!($test), "_buffer"), || $test("buffer")),
            $crate::suite::Case::once(concat!(stringify!($test), "_bpf"), || $test("bpf")),
        )*]
    };
}

/// Declares modules with a function `cases` as suites: `suites![why, verify]`.
#[macro_export]
macro_rules! suites {
    ($($suite:ident),* $(,)?) => { &[$($crate::suite::Suite { name: stringify!($suite), cases: $suite::cases }),*] };
}

/// The `main` of a program with one suite.
pub fn main_of(cases: Vec<Case>) -> ExitCode {
    workload::perform_if_asked();
    take_signals();
    run(cases, Arguments::from_args())
}

/// The `main` of a program with several suites.
pub fn main(suites: &[Suite]) -> ExitCode {
    workload::perform_if_asked();
    take_signals();
    let mut words: Vec<String> = env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("--suites") => {
            suites.iter().for_each(|suite| println!("{}", suite.name));
            ExitCode::SUCCESS
        }
        Some("--suite") => {
            let name = words.drain(1..words.len().min(3)).nth(1).unwrap_or_default();
            let Some(suite) = suites.iter().find(|suite| suite.name == name) else {
                eprintln!("no suite `{name}`: `--suites` lists them");
                return ExitCode::from(2);
            };
            run((suite.cases)(), Arguments::from_iter(words))
        }
        _ => run_all(suites, &words[1..], &Arguments::from_iter(&words)),
    }
}

fn run(cases: Vec<Case>, mut arguments: Arguments) -> ExitCode {
    // Tests measure the whole machine: running in parallel they would measure each other.
    arguments.test_threads = Some(1);
    let trials = trials(cases, &arguments);
    // Without root, every test is skipped, and the lock may belong to root.
    let _alone = (!arguments.list && root().is_ok()).then(wait_until_alone);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs each suite that has a test with the requested name, in a process of its own: neither what a suite leaves behind in
/// its process nor its death affects the next one.
fn run_all(suites: &[Suite], words: &[String], arguments: &Arguments) -> ExitCode {
    let own = env::current_exe().expect("a process knows its binary");
    let mut code = ExitCode::SUCCESS;
    for suite in suites.iter().filter(|suite| suite.has(arguments)) {
        println!("\nsuite {}", suite.name);
        let run = Command::new(&own).args(["--suite", suite.name]).args(words).status();
        match run.map(|status| (status.code(), status)) {
            Ok((Some(0), _)) => continue,
            // It has listed the tests that failed.
            Ok((Some(101), _)) => {}
            Ok((_, status)) => println!("{}", ended_early(suite.name, &status.to_string())),
            Err(error) => println!("{}", ended_early(suite.name, &error.to_string())),
        }
        code = ExitCode::from(101);
    }
    code
}

/// The result of a suite that printed none, in the format of the harness.
fn ended_early(suite: &str, why: &str) -> String {
    format!(
        "\nfailures:\n    the suite {suite} ended early: {why}\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored"
    )
}

/// Restores the default action of the ending signals, also for the programs under test: a shell starts
/// background jobs with SIGINT ignored, and wakelat would inherit that.
fn take_signals() {
    for ending in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        // SAFETY: installs no handler.
        unsafe { signal(ending, SigHandler::SigDfl) }.expect("the signal exists");
    }
}

/// Number of characters of a panic's message that the summary of all tests repeats.
const SHOWN: usize = 500;

/// Runs a test to its end, or until it calls [`skip_test`](crate::skip::skip_test). Prints why it panicked in one line,
/// as a skip is printed: what reads the output of many tests lists both.
fn outcome_of(name: &str, body: impl FnOnce() -> TestOutcome) -> TestOutcome {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| match payload.downcast::<Skip>() {
        Ok(skip) => Err(*skip),
        Err(panic) => {
            println!("\nFAIL {name}: {}", message_of(&*panic));
            resume_unwind(panic)
        }
    })
}

/// The start of a panic's message, in one line.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let words = text.unwrap_or("a panic without a message").split_whitespace();
    words.collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
}

/// What the harness runs, one after another. The first of the concurrent tests lasts until all of these have
/// ended.
fn trials(cases: Vec<Case>, arguments: &Arguments) -> Vec<Trial> {
    let are_concurrent = !machine::is_emulated();
    let tests = cases.into_iter().flat_map(Case::tests);
    let (concurrent, alone): (Vec<Test>, Vec<Test>) = tests.partition(|test| test.concurrent && are_concurrent);
    let names: Vec<String> = concurrent.iter().map(|test| test.name.clone()).collect();
    let is_chosen = |test: &Test| !arguments.is_filtered_out(&Trial::test(test.name.clone(), || Ok(())));
    let chosen = concurrent.into_iter().filter(is_chosen).map(|test| (test.name, test.body)).collect();
    let chosen = Arc::new(ConcurrentTests::new(chosen));
    let of_chosen = names.into_iter().map(|name| {
        let (chosen, own) = (Arc::clone(&chosen), name.clone());
        trial(name, move || {
            // If one of the tests mounted it, the others would lose it at the end of that one.
            let _mounted = Hierarchy::find();
            chosen.outcome(&own)
        })
    });
    alone.into_iter().map(|test| trial(test.name, test.body)).chain(of_chosen).collect()
}

fn trial(name: String, body: impl FnOnce() -> TestOutcome + Send + 'static) -> Trial {
    let shown = name.clone();
    Trial::ignorable_test(name, move || match root().and_then(|()| outcome_of(&shown, body)) {
        Ok(()) => Ok(Completion::Completed),
        Err(Skip(reason)) => {
            println!("\nSKIP {shown}: {reason}");
            Ok(Completion::ignored_with(reason))
        }
    })
}

fn root() -> TestOutcome {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(Skip::because("needs root")) }
}

fn wait_until_alone() -> Flock<File> {
    let path = std::env::temp_dir().join("wakelat-tests.lock");
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Flock::lock(file, FlockArg::LockExclusive).unwrap_or_else(|(_, error)| panic!("{}: {error}", path.display()))
}
