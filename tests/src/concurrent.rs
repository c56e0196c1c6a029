//! Tests that run concurrently, because they only wait.

use std::{
    cell::Cell,
    collections::BTreeMap,
    mem,
    panic::resume_unwind,
    sync::{Mutex, MutexGuard},
    thread,
};

use crate::skip::TestOutcome;

/// The body of a test.
pub type TestBody = Box<dyn FnOnce() -> TestOutcome + Send>;

/// What each test ended with, or the payload of its panic, by its name.
type Results = BTreeMap<String, thread::Result<TestOutcome>>;

thread_local! {
    static RUNS_CONCURRENTLY: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs a test that others run concurrently with.
pub fn runs_concurrently() -> bool {
    RUNS_CONCURRENTLY.get()
}

/// Tests that run concurrently, in threads, as soon as the outcome of one of them is requested.
pub struct ConcurrentTests {
    not_started: Mutex<Vec<(String, TestBody)>>,
    results: Mutex<Results>,
}

impl ConcurrentTests {
    /// Tests with their names. None of them runs yet.
    pub fn new(tests: Vec<(String, TestBody)>) -> Self {
        Self { not_started: Mutex::new(tests), results: Mutex::default() }
    }

    /// What a test has ended with. The first request runs all of them, and returns when the last one has ended.
    ///
    /// # Panics
    /// If the test did. If there is no such test, or its outcome has been requested before.
    pub fn outcome(&self, name: &str) -> TestOutcome {
        let not_started = mem::take(&mut *locked(&self.not_started));
        let result = {
            let mut results = locked(&self.results);
            results.extend(run(not_started));
            results.remove(name)
        };
        result.expect("each test runs once").unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().expect("no test runs in a thread that has this lock")
}

fn run(tests: Vec<(String, TestBody)>) -> Results {
    thread::scope(|scope| {
        let begin = |(name, body): (String, TestBody)| {
            let body = move || {
                RUNS_CONCURRENTLY.set(true);
                body()
            };
            let thread = thread::Builder::new().name(name.clone()).spawn_scoped(scope, body);
            (name, thread.expect("a thread can be started"))
        };
        let running: Vec<_> = tests.into_iter().map(begin).collect();
        running.into_iter().map(|(name, thread)| (name, thread.join())).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{Arc, Barrier},
    };

    use super::*;
    use crate::skip::{Skip, skip_test};

    #[test]
    fn tests_run_at_the_same_time_and_each_has_its_own_outcome() {
        let all_run = Arc::new(Barrier::new(3));
        let test = |name: &str, end: fn() -> TestOutcome| -> (String, TestBody) {
            let all_run = Arc::clone(&all_run);
            let body = move || {
                all_run.wait();
                end()
            };
            (name.to_owned(), Box::new(body))
        };
        let tests = ConcurrentTests::new(vec![
            test("passes", || Ok(())),
            test("is_skipped", || skip_test(Skip::because("no reason"))),
            test("fails", || resume_unwind(Box::new("12 of 13"))),
        ]);
        let panic_of = |name| catch_unwind(AssertUnwindSafe(|| tests.outcome(name))).expect_err("a panic");
        assert_eq!(panic_of("fails").downcast_ref::<&str>(), Some(&"12 of 13"));
        assert!(panic_of("is_skipped").is::<Skip>());
        assert!(tests.outcome("passes").is_ok());
    }
}
