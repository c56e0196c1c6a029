//! A test program that runs itself, restricts itself, and reports which calls then fail.

use std::{
    io,
    process::{Command, Stdio},
};

/// Makes these calls with the rest of the arguments and exits, if this process was started for `what`.
pub fn perform_if_asked(what: &str, calls: fn(&[String])) {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(what) {
        calls(&arguments.collect::<Vec<_>>());
        std::process::exit(0);
    }
}

/// Runs this program with `what` and `arguments` instead of the tests. Returns what it prints.
pub fn run_inside(what: &str, arguments: &[&str]) -> String {
    let binary = std::env::current_exe().expect("a process knows its binary");
    let output = Command::new(binary)
        .arg(what)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .expect("this binary can be run");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// What was tried, and the error numbers.
pub fn outcomes(printed: &str) -> Vec<(&str, i32)> {
    let lines = printed.lines().filter_map(|line| line.rsplit_once(": "));
    lines.map(|(what, code)| (what, code.parse().expect("an error number"))).collect()
}

/// Prints the error number of `result`, or 0.
pub fn print(what: &str, result: io::Result<()>) {
    let code = result.err().map_or(0, |error| error.raw_os_error().unwrap_or(-1));
    println!("{what}: {code}");
}

/// The process that started this one.
pub fn parent() -> libc::c_long {
    std::os::unix::process::parent_id().into()
}

/// Makes a system call with numbers and null pointers.
pub fn call(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<()> {
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: none of the calls gets a pointer to memory of this process.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
