//! What everything else stands on: the kernel lets programs in, and describes itself.

use std::{collections::HashSet, fs, io, process::Command};

use wakelat_tests::{
    machine, once,
    suite::{self, Skip, TestOutcome},
    wakelat::{self, AttachCase},
};

/// `bpf(2)` commands and map types: Linux, `include/uapi/linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;

fn main() {
    suite::main(once![the_kernel_publishes_its_types, a_ring_buffer_can_be_made, every_program_passes_the_verifier]);
}

fn the_kernel_publishes_its_types() -> TestOutcome {
    let btf = fs::read("/sys/kernel/btf/vmlinux").map_err(|_| Skip::because("no `/sys/kernel/btf/vmlinux`"))?;
    // Magic and version: Linux, `include/uapi/linux/btf.h`.
    assert_eq!(btf[..3], [0x9f, 0xeb, 1]);
    let names: HashSet<&[u8]> = btf.split(|byte| *byte == 0).collect();
    for name in ["task_struct", "btf_trace_sched_switch", "btf_trace_sched_wakeup"] {
        assert!(names.contains(name.as_bytes()), "no `{name}`");
    }
    Ok(())
}

fn a_ring_buffer_can_be_made() -> TestOutcome {
    // map_type, key_size, value_size, max_entries: the size in bytes, at least a page.
    let attributes = [BPF_MAP_TYPE_RINGBUF, 0, 0, 4096];
    // SAFETY: the attributes are as long as said, are only read, and outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes)) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor was just made and belongs to nobody else.
    unsafe { libc::close(fd as i32) };
    Ok(())
}

/// Has each program verified, and prints how many instructions that took: `cargo xtask vm` compares them with the accepted
/// ones.
fn every_program_passes_the_verifier() -> TestOutcome {
    let tracers: &[&str] = if fs::exists("/sys/kernel/tracing/events/osnoise/timerlat_sample").is_ok_and(|there| there)
        && fs::read_to_string("/sys/kernel/tracing/available_tracers").is_ok_and(|all| all.contains("timerlat"))
    {
        &["timerlat", "osnoise"]
    } else {
        &[]
    };
    // The harness has begun a line with the test's name.
    println!();
    for attach in AttachCase::ALL {
        // Counted in the kernel, and as samples with all that they tell.
        for more in [&[][..], &["--by", "waker"]] {
            let arguments = ["hist", "-d", "1ms", "--class", "wakeup,new,preempted", "--attach", attach.name()];
            print_verified(&[&arguments[..], more].concat());
        }
        // What happens between waits is told by typed tracepoints alone.
        if attach == AttachCase::Btf {
            for view in [
                &["why", "--parts", "noise,idle,quota,works,forks"][..],
                &["why", "--stacks"],
                &["trace", "--all", "-M", "-w", "--json"],
            ] {
                print_verified(&[view, &["-q", "-d", "1ms", "--attach", attach.name()]].concat());
            }
        }
        for tracer in tracers.iter().filter(|_| AttachCase::TYPES.contains(&attach)) {
            print_verified(&[*tracer, "-d", "1ms", "--source", "bpf", "--attach", attach.name()]);
        }
    }
    Ok(())
}

/// Runs wakelat, and prints how many instructions each of its programs took.
fn print_verified(arguments: &[&str]) {
    // Only these messages: with `-v` the programs would have messages of their own.
    let mut wakelat = Command::new(wakelat::binary());
    let output = wakelat.args(arguments).env("RUST_LOG", "wakelat::collect::attach=info").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if machine::ring_buffer_may_sleep() && said.contains("PREEMPT_RT") {
        // Refused, so that nothing was loaded: see the suite `busy`.
        return;
    }
    assert!(output.status.success(), "{arguments:?}: {said}");
    for line in said.lines() {
        // None before 5.16, which does not count them.
        let Some((_, rest)) = line.split_once("program ") else { continue };
        let Some((program, rest)) = rest.split_once(": ") else { continue };
        if let Some(count) = rest.strip_suffix(" instructions verified") {
            println!("VERIFIED {program} {count}");
        }
    }
}
