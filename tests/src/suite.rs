//! How the test binaries run: one test after another, each under its name, with a reason for every skip and
//! every failure.
//!
//! The test binary is also the workload: if run with [`workload::ARGUMENT`], it performs one instead of
//! testing, so that a virtual machine needs only one file.

use std::{
    any::Any,
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use libtest_mimic::{Arguments, Completion, Trial};
use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{SigHandler, Signal, signal},
};

pub use crate::skip::Skip;
use crate::{wakelat::AttachCase, workload};

/// What a test ends with: it passes, is skipped, or panics.
pub type TestOutcome = Result<(), Skip>;

/// A test and its name.
pub struct Case {
    name: &'static str,
    body: Body,
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
        Self { name, body: Body::Once(body) }
    }

    /// A test that runs once for each of these ways to attach programs, under the names `<name>_btf` and so on.
    pub const fn attached(
        name: &'static str,
        ways: &'static [AttachCase],
        body: fn(AttachCase) -> TestOutcome,
    ) -> Self {
        Self { name, body: Body::Attached(ways, body) }
    }

    fn trials(self) -> Vec<Trial> {
        match self.body {
            Body::Once(body) => vec![trial(self.name.to_owned(), body)],
            Body::Attached(ways, body) => ways
                .iter()
                .map(|attach| trial(format!("{}_{}", self.name, attach.name()), move || body(*attach)))
                .collect(),
        }
    }
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

/// The `main` of a test binary.
pub fn main(cases: impl IntoIterator<Item = Case>) {
    workload::perform_if_asked();
    take_signals();
    let mut arguments = Arguments::from_args();
    // Tests measure the whole machine: running in parallel they would measure each other.
    arguments.test_threads = Some(1);
    let trials = cases.into_iter().flat_map(Case::trials).collect();
    // Without root, every test is skipped, and the lock may belong to root.
    let _alone = (!arguments.list && root().is_ok()).then(wait_until_alone);
    libtest_mimic::run(&arguments, trials).exit();
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
