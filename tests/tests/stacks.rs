//! The stacks of a wait: they contain the functions of the kernel and of the workload that are known to
//! wake and to sleep.

use std::{fs, process::Output, thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached_typed, byte, machine, procfs,
    sleep_places::SleepPlaces,
    suite::{Case, Skip, TestOutcome, concurrent},
    task::TaskPlacement,
    wakelat::{AttachCase, Wakelat, command},
    why::check,
    workload::{PingPong, Sleeper, Staged, Workload, until},
};

pub fn cases() -> Vec<Case> {
    let measure = attached_typed![
        a_wait_has_the_stack_of_its_waker_and_of_its_sleep,
        only_the_stacks_asked_for_are_taken,
        without_the_option_there_are_no_stacks,
        folded_stacks_add_up_to_all_waits,
        an_exited_process_is_reported_as_exited,
        a_recording_has_the_stacks_of_its_waits,
        a_view_that_records_shows_the_stacks_of_the_recording,
    ];
    let wait =
        attached_typed![unused_stacks_make_room_for_others, a_recorder_that_has_taken_many_stacks_has_room_for_others];
    measure.into_iter().chain(concurrent(wait)).collect()
}

const ROUNDS: u64 = 200;

/// The document of `wakelat why` for two tasks that wake each other over pipes. `through` gets the
/// tasks once they are done and blocked; names are looked up after it returns.
fn why(attach: AttachCase, arguments: &[&str], through: impl FnOnce(Staged) -> Option<Staged>) -> Value {
    let text = why_text(attach, &[&["--json"], arguments].concat(), through);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// As [`why`], in any format.
fn why_text(attach: AttachCase, arguments: &[&str], through: impl FnOnce(Staged) -> Option<Staged>) -> String {
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS)).stage();
    let mut all = vec!["why", "--attach", attach.name(), "--comm", "wl-p*", "--class", "wakeup"];
    all.extend(["--collect", "none", "--worst", "1000"]);
    all.extend(arguments);
    let wakelat = Wakelat::measuring(command(&all));
    staged.perform();
    let staged = through(staged);
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    drop(staged);
    assert!(ended.status.success(), "{ended:#?}");
    ended.stdout
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Whether a function with `part` in its name is on the stack.
fn is_on(stack: &Value, part: &str) -> bool {
    list(stack).iter().any(|name| name.as_str().is_some_and(|name| name.contains(part)))
}

/// The stack of `role`, for each wait that has one.
fn stacks<'a>(document: &'a Value, role: &str) -> Vec<&'a Value> {
    let of_worst = list(&document["worst"]).iter().map(|wait| &wait["stacks"][role]);
    of_worst.filter(|stack| !stack.is_null()).collect()
}

/// A function of the workload: its name, and its offset in this file, which is also the workload's.
struct Function {
    name: &'static str,
    offset: u64,
}

/// The function that wakes.
fn put_byte() -> Function {
    let address = byte::put_byte as *const () as u64;
    Function { name: "put_byte", offset: procfs::file_offset(address) }
}

/// The function that sleeps.
fn take_byte() -> Function {
    let address = byte::take_byte as *const () as u64;
    Function { name: "take_byte", offset: procfs::file_offset(address) }
}

impl Function {
    /// Whether `name` is this function, by its name, or, if the file is stripped, by its offset.
    fn is(&self, name: &str) -> bool {
        /// Maximum length of such a function: bytes.
        const LENGTH: u64 = 512;
        let offset = name.split_once("+0x").and_then(|(_, offset)| u64::from_str_radix(offset, 16).ok());
        name.contains(self.name) || offset.is_some_and(|offset| (self.offset..self.offset + LENGTH).contains(&offset))
    }
}

/// The stacks of `role`, except for those whose part in the kernel had no room: another stack has the place that its
/// hash selects, which a few of the machine's stacks may.
fn with_room<'a>(document: &'a Value, role: &str) -> Vec<&'a Value> {
    let all = stacks(document, role);
    let found: Vec<&Value> = all.iter().copied().filter(|stack| stack["kernel_missing"] != "no_room").collect();
    assert!(found.len() * 2 >= all.len(), "{} of {} have room: {document}", found.len(), all.len());
    found
}

/// Whether `function` is the innermost of the user stack, as far as it has to be known.
fn is_innermost(function: &Function, stack: &Value) -> bool {
    // If the C library makes the system call, its function is the innermost, and the caller is unknown.
    // And the numbers that a program has in place of frame pointers may be outside every mapping.
    stack["user_missing"] == "no_room"
        || !cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
        || stack["user"][0].as_str().is_some_and(|name| function.is(name))
}

/// Asserts that the stacks of `role` contain `function` of the workload and `kernel`, except for those
/// at the kernel's own locks, for which tasks sleep under PREEMPT_RT.
fn assert_known(document: &Value, role: &str, function: &Function, kernel: &str) {
    let stacks = with_room(document, role);
    assert!(!stacks.is_empty(), "{document}");
    let is_known = |stack: &&&Value| {
        assert!(stack["kernel_missing"].is_null(), "{stack}");
        is_on(&stack["kernel"], kernel) && is_innermost(function, stack)
    };
    let known = stacks.iter().filter(is_known).count();
    let expected = if machine::is_preempt_rt() { stacks.len().div_ceil(2) } else { stacks.len() };
    println!("\n  {role}: {known} of {} at `{}` and `{kernel}`", stacks.len(), function.name);
    assert!(known >= expected, "{stacks:#?}");
}

fn a_wait_has_the_stack_of_its_waker_and_of_its_sleep(attach: AttachCase) -> TestOutcome {
    let document = why(attach, &["--stacks"], Some);
    assert_known(&document, "waker", &put_byte(), "pipe_write");
    assert_known(&document, "wakee", &take_byte(), "pipe_read");
    for stack in stacks(&document, "wakee") {
        assert!(is_on(&stack["kernel"], "schedule"), "{stack}");
        assert!(!is_on(&stack["kernel"], "bpf_"), "wakelat's own programs: {stack}");
    }
    for wait in list(&document["worst"]) {
        let (waker, wakee) = (&wait["stacks"]["waker"], &wait["stacks"]["wakee"]);
        assert!(wakee.is_null() || wakee["tid"] == wait["tid"], "{wait}");
        assert!(waker.is_null() || waker["tid"] != wait["tid"], "{wait}");
    }
    let counts = &document["stacks"];
    // Each wait has a wakeup and a switch before it, and at each a stack is taken or exceeds the budget.
    let looked_for = number(&counts["attempts"]) + number(&counts["over_budget"]);
    assert!(looked_for >= 2 * list(&document["worst"]).len() as u64 - 2, "{counts}");
    assert_eq!((number(&counts["no_kernel"]), number(&counts["given_up"])), (0, 0), "{counts}");
    Ok(())
}

fn only_the_stacks_asked_for_are_taken(attach: AttachCase) -> TestOutcome {
    for (asked, other) in [("waker", "wakee"), ("wakee", "waker")] {
        let document = why(attach, &[&format!("--stacks={asked}")], Some);
        assert!(!stacks(&document, asked).is_empty(), "{document}");
        assert!(stacks(&document, other).is_empty(), "{document}");
    }
    Ok(())
}

fn without_the_option_there_are_no_stacks(attach: AttachCase) -> TestOutcome {
    let document = why(attach, &[], Some);
    assert!(document["stacks"].is_null(), "{document}");
    assert!(list(&document["worst"]).iter().all(|wait| wait["stacks"].is_null()), "{document}");
    Ok(())
}

fn folded_stacks_add_up_to_all_waits(attach: AttachCase) -> TestOutcome {
    let path = std::env::temp_dir().join(format!("wakelat-folded-{}", std::process::id()));
    let document = why(attach, &["--folded", path.to_str().expect("a plain path")], Some);
    let folded = std::fs::read_to_string(&path).expect("wakelat has written the file");
    std::fs::remove_file(&path).expect("the file can be removed");
    let mut sum_ns = 0;
    for line in folded.lines() {
        let (frames, ns) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no weight in `{line}`"));
        assert!(frames.starts_with("wl-p"), "{line}");
        sum_ns += ns.parse::<u64>().unwrap_or_else(|error| panic!("{error} in `{line}`"));
    }
    let of_classes: u64 = list(&document["classes"]).iter().map(|class| number(&class["sum_ns"])).sum();
    assert_eq!(sum_ns, of_classes, "{folded}");
    // The sleeper's stack from the outermost frame to the innermost, then the waker's from the
    // innermost to the outermost.
    let found = |line: &str| ["pipe_read_[k]", ";--;", "pipe_write_[k]"].map(|part| line.find(part));
    let is_whole = |line: &&str| matches!(found(line), [Some(read), Some(between), Some(write)] if read < between && between < write);
    assert!(folded.lines().any(|line| is_whole(&line)), "{folded}");
    Ok(())
}

fn an_exited_process_is_reported_as_exited(attach: AttachCase) -> TestOutcome {
    let document = why(attach, &["--stacks"], |staged| {
        let tids = ["wl-ping", "wl-pong"].map(|name| staged.tid(name));
        drop(staged);
        until("both tasks have ended", || tids.iter().all(|tid| matches!(procfs::state(*tid), None | Some('Z' | 'X'))));
        None
    });
    // Under PREEMPT_RT an exiting task may sleep when it has no code left; and there may have been no
    // room for some stacks.
    let stacks = with_room(&document, "wakee").into_iter().filter(|stack| !list(&stack["user"]).is_empty());
    let stacks: Vec<&Value> = stacks.collect();
    assert!(!stacks.is_empty(), "{document}");
    for stack in stacks {
        assert_eq!(stack["user_missing"], "ended", "{stack}");
        assert!(is_on(&stack["kernel"], "schedule"), "{stack}");
    }
    Ok(())
}

/// The stacks at which the tasks of this name slept, for each of the longest waits of their group that has one.
fn wakee_stacks<'a>(document: &'a Value, comm: &str) -> Vec<&'a Value> {
    let groups = list(&document["groups"]).iter().filter(|group| group["key"]["comm"] == comm);
    let stacks = groups.flat_map(|group| list(&group["worst"])).map(|wait| &wait["stacks"]["wakee"]);
    stacks.filter(|stack| !stack.is_null()).collect()
}

/// Three times as many places as the kernel's map has room for stacks: by then, nearly all of its buckets are occupied.
const BEFORE: usize = 3 * 4_096;

/// Places whose stacks need room afterwards.
const LAST: usize = 1_000;

fn many_places() -> Result<SleepPlaces, Skip> {
    if machine::is_emulated() {
        return Err(Skip::because("an emulator takes too long for each stack: most would exceed the time for them"));
    }
    SleepPlaces::new(BEFORE + LAST)
}

/// Sleeps at [`BEFORE`] places in a thread of the first name, and at [`LAST`] others, in one of the second name, when
/// wakelat has removed the stacks of those.
fn sleep_at_many(places: &SleepPlaces, [before, last]: [&str; 2]) {
    places.sleep_at(0..BEFORE, before);
    // Nothing outside shows when wakelat has removed stacks, so this waits for as long as it may take: no task may have
    // had them for 5 s, and it searches the whole map in 4 s, once more if it began too early for the last ones.
    thread::sleep(Duration::from_secs(15));
    places.sleep_at(BEFORE..BEFORE + LAST, last);
}

/// Stacks that no task has had for a while make room in the kernel's map for others. The stacks of tasks that slept
/// all the time can still be shown.
fn unused_stacks_make_room_for_others(attach: AttachCase) -> TestOutcome {
    const SLEEPERS: usize = 4;
    let places = many_places()?;
    let arguments = ["why", "--json", "--attach", attach.name(), "--comm", "wl-*", "--by", "comm", "--worst", "300"];
    let wakelat = Wakelat::measuring(command(&[&arguments[..], &["--stacks=wakee", "--collect", "none"]].concat()));
    let sleeper = Sleeper { rounds: 1, sleep_ns: 1_000_000, place: TaskPlacement::fifo(machine::one_cpu()) };
    // They sleep at their gates from now on.
    let mut sleepers: Vec<Staged> = (0..SLEEPERS).map(|_| Workload::Sleeper(sleeper.clone()).stage()).collect();
    sleep_at_many(&places, ["wl-before", "wl-last"]);
    sleepers.iter_mut().for_each(|sleeper| _ = sleeper.perform());
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    // Names are read while the processes exist.
    drop(sleepers);
    assert!(ended.status.success(), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).expect("a document");
    let last = wakee_stacks(&document, "wl-last");
    let no_room = last.iter().filter(|stack| stack["user_missing"] == "no_room").count();
    println!("\n  {no_room} of {} had no room; {}", last.len(), document["stacks"]);
    // The hashes of some of them are the same.
    assert!(last.len() >= 75 && no_room * 3 < last.len(), "{no_room} of {} had no room", last.len());
    let slept = wakee_stacks(&document, "wl-sleeper");
    let at_gate: Vec<&Value> = slept.iter().copied().filter(|stack| is_on(&stack["kernel"], "pipe_read")).collect();
    assert!(at_gate.len() * 2 >= SLEEPERS, "{slept:#?}");
    assert!(at_gate.iter().all(|stack| is_innermost(&take_byte(), stack)), "{at_gate:#?}");
    Ok(())
}

/// The stacks of the last seconds have room in the kernel's map, although it was full of others a little before.
fn a_recorder_that_has_taken_many_stacks_has_room_for_others(attach: AttachCase) -> TestOutcome {
    // Not one of the tasks that the test above measures at the same time.
    const NAME: &str = "places";
    let places = many_places()?;
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (to, file) = (path("incident.wakelat"), path("incident-1.wakelat"));
    let record = ["record", "--after", "0", "-o", &to, "--attach", attach.name(), "--last", "3s"];
    let of_wakees = ["--stacks=wakee", "--comm", NAME, "--collect", "none"];
    let mut recorder = Wakelat::measuring(command(&[&record[..], &of_wakees].concat()));
    sleep_at_many(&places, [NAME; 2]);
    recorder.signal(Signal::SIGUSR1);
    recorder.until_says("because of SIGUSR1");
    recorder.signal(Signal::SIGINT);
    let ended = recorder.end();
    assert!(ended.status.success(), "{}", ended.stderr);
    let shown = command(&["why", "--json", "--strict", "-q", "-i", &file, "--stacks=wakee"]).output().expect("wakelat");
    let document = document(&shown);
    check(&document);
    let counts = &document["stacks"];
    let [attempts, no_room] = ["attempts", "no_room"].map(|name| number(&counts[name]));
    println!("\n  {no_room} of {attempts} had no room");
    assert!((LAST as u64 / 4..3 * LAST as u64).contains(&attempts), "{counts}");
    // The hashes of some of them are the same.
    assert!(no_room * 3 < attempts, "{counts}");
    Ok(())
}

/// What `wakelat why` shows of a recording.
fn shown(file: &str, arguments: &[&str]) -> Output {
    let flags = ["why", "-q", "-i", file, "--comm", "wl-p*", "--class", "wakeup", "--worst", "1000"];
    command(&[&flags[..], arguments].concat()).output().expect("wakelat")
}

fn document(shown: &Output) -> Value {
    assert!(shown.status.success(), "{shown:?}");
    serde_json::from_slice(&shown.stdout).unwrap_or_else(|error| panic!("{error} in {shown:?}"))
}

fn a_recording_has_the_stacks_of_its_waits(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (file, folded) = (path("file.wakelat"), path("file.folded"));
    for asked in [&["--stacks"][..], &["--stacks=waker"], &[]] {
        let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), ROUNDS)).stage();
        let record = ["record", "-o", &file, "--attach", attach.name(), "--collect", "none"];
        let wakelat = Wakelat::measuring(command(&[&record[..], asked].concat()));
        staged.perform();
        wakelat.signal(Signal::SIGINT);
        let ended = wakelat.end();
        assert!(ended.status.success(), "{ended:#?}");
        // The recording is read without them.
        drop(staged);
        if asked != ["--stacks"] {
            let refused = shown(&file, &["--stacks"]);
            let whose = if asked.is_empty() { "wakers" } else { "wakees" };
            let why = format!("`--stacks`: the recording has no stacks of {whose}");
            assert_eq!(refused.status.code(), Some(2), "{refused:?}");
            assert!(String::from_utf8_lossy(&refused.stderr).contains(&why), "{refused:?}");
        }
        if asked.is_empty() {
            continue;
        }
        let of_wakers = document(&shown(&file, &["--json", "--stacks=waker"]));
        assert_known(&of_wakers, "waker", &put_byte(), "pipe_write");
        assert!(stacks(&of_wakers, "wakee").is_empty(), "{of_wakers}");
        if asked == ["--stacks"] {
            let both = document(&shown(&file, &["--json", "--stacks", "--folded", &folded]));
            assert_known(&both, "waker", &put_byte(), "pipe_write");
            assert_known(&both, "wakee", &take_byte(), "pipe_read");
            assert!(number(&both["stacks"]["attempts"]) > ROUNDS, "{}", both["stacks"]);
            assert_eq!(both["stacks"], of_wakers["stacks"], "what became of the stacks is that of the measurement");
            let lines = fs::read_to_string(&folded).expect("the file is written");
            let ns = lines.lines().map(|line| line.rsplit_once(' ').expect("a weight").1.parse::<u64>().expect("ns"));
            let of_classes: u64 = list(&both["classes"]).iter().map(|class| number(&class["sum_ns"])).sum();
            assert_eq!(ns.sum::<u64>(), of_classes, "{lines}");
            assert!(lines.contains("pipe_read_[k]") && lines.contains("pipe_write_[k]"), "{lines}");
        }
    }
    Ok(())
}

fn a_view_that_records_shows_the_stacks_of_the_recording(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (file, live, read) = (path("file.wakelat"), path("live.folded"), path("read.folded"));
    for form in [&["--json"][..], &["--by", "comm"]] {
        let with = |folded| [&["--stacks", "--folded", folded], form].concat();
        let measured = why_text(attach, &[&with(&live)[..], &["--record", &file]].concat(), Some);
        let shown = shown(&file, &with(&read));
        assert!(shown.status.success(), "{shown:?}");
        assert_eq!(measured, String::from_utf8(shown.stdout).expect("UTF-8"));
        let [live, read] = [&live, &read].map(|path| fs::read_to_string(path).expect("the file is written"));
        assert!(live.contains("pipe_read_[k]"), "{live}");
        assert_eq!(live, read);
    }
    Ok(())
}
