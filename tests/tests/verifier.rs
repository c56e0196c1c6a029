//! The basis of all other tests: the kernel loads programs, and describes its types.

use std::{fs, io, process::Command};

use wakelat_tests::{
    machine, once,
    suite::{Case, Skip, TestOutcome},
    wakelat::{self, AttachCase},
};

/// `bpf(2)` commands and map types: Linux, `include/uapi/linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;

pub fn cases() -> Vec<Case> {
    once![the_kernel_publishes_its_types, a_ring_buffer_can_be_made, every_program_passes_the_verifier]
}

fn the_kernel_publishes_its_types() -> TestOutcome {
    let btf = fs::read("/sys/kernel/btf/vmlinux").map_err(|_| Skip::because("no `/sys/kernel/btf/vmlinux`"))?;
    // Magic and version: Linux, `include/uapi/linux/btf.h`.
    assert_eq!(btf[..3], [0x9f, 0xeb, 1]);
    // Among some million pieces, most of which are not names: a set of them would take an emulator seconds.
    let mut missing = vec!["task_struct", "btf_trace_sched_switch", "btf_trace_sched_wakeup"];
    btf.split(|byte| *byte == 0).for_each(|piece| missing.retain(|name| name.as_bytes() != piece));
    assert!(missing.is_empty(), "no {missing:?}");
    Ok(())
}

fn a_ring_buffer_can_be_made() -> TestOutcome {
    // map_type, key_size, value_size, max_entries: the size in bytes, at least a page.
    let page = u32::try_from(machine::page_size()).expect("a page is small");
    let attributes = [BPF_MAP_TYPE_RINGBUF, 0, 0, page];
    // SAFETY: the attributes have the length given, are only read, and outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes)) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor was just created and has no other owner.
    unsafe { libc::close(fd as i32) };
    Ok(())
}

/// Verifies each program, and prints how many instructions that took: `cargo xtask vm` compares them
/// with the accepted ones.
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
        // With classic tracepoints, waits are aggregated in the kernel only by class and CPU.
        let groups = if attach == AttachCase::Classic { "class,cpu" } else { "tid,pid,comm,cgroup,cpu" };
        // Aggregated in the kernel, by class and by group, and as samples with all their fields.
        for more in [&[][..], &["--by", groups, "--mode", "aggregate"], &["--by", "waker"]] {
            let arguments = ["hist", "-d", "1ms", "--class", "wakeup,new,preempted", "--attach", attach.name()];
            print_verified(&[&arguments[..], more].concat());
        }
        if AttachCase::TYPES.contains(&attach) {
            print_verified(&["hist", "-d", "1ms", "--attach", attach.name(), "--pid", "1", "--tree"]);
            let arguments = ["hist", "-d", "1ms", "--class", "runqueue", "--from", "queued", "--attach", attach.name()];
            print_verified(&arguments);
            print_verified(&[&arguments[..], &["--by", groups, "--mode", "aggregate"]].concat());
            print_verified(&[&arguments[..], &["--mode", "samples"]].concat());
            print_verified(
                &[&arguments[..], &["--by", groups, "--mode", "aggregate", "--max-overhead", "1%"]].concat(),
            );
        }
        // Only typed tracepoints report what happens between waits.
        if attach == AttachCase::Btf {
            for view in [
                &["why", "--collect", "irq,idle,throttling,workqueue,fork"][..],
                &["why", "--stacks"],
                &["why", "--mode", "aggregate"],
                &["why", "--mode", "aggregate", "--max-overhead", "1%"],
                &["why", "--mode", "aggregate", "--collect", "irq"],
                &["why", "--mode", "aggregate", "--collect", "irq", "--max-overhead", "1%"],
                &["trace", "--all", "-M", "-w", "--json"],
                &["why", "--from", "queued", "--collect", "irq,idle,throttling,workqueue,fork", "--stacks=wakee"],
                &["trace", "--from", "queued", "--all", "-M", "--json"],
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

/// Runs wakelat, and prints how many instructions the verifier processed for each of its programs.
fn print_verified(arguments: &[&str]) {
    // Enables only these messages: with `-v` the programs would print messages of their own.
    let mut wakelat = Command::new(wakelat::binary());
    let output = wakelat.args(arguments).env("RUST_LOG", "wakelat::collect::attach=info").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if machine::ring_buffer_may_sleep() && stderr.contains("PREEMPT_RT") {
        // wakelat refuses to run here, so nothing was loaded: see the suite `busy`.
        return;
    }
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    for line in stderr.lines() {
        // No such lines before 5.16, which does not count the instructions.
        let Some((_, rest)) = line.split_once("program ") else { continue };
        let Some((program, rest)) = rest.split_once(": ") else { continue };
        if let Some(count) = rest.strip_suffix(" instructions verified") {
            println!("VERIFIED {program} {count}");
        }
    }
}
