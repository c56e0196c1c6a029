//! What everything else stands on: the kernel lets programs in, and describes itself.

use std::{collections::HashSet, fs, io, process::Command};

use wakelat_tests::wakelat::{self, Attach};

/// `bpf(2)` commands and map types: Linux, `include/uapi/linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_TYPE_RINGBUF: u32 = 27;

#[test]
fn the_kernel_publishes_its_types() {
    let Ok(btf) = fs::read("/sys/kernel/btf/vmlinux") else {
        println!("SKIP the_kernel_publishes_its_types: no `/sys/kernel/btf/vmlinux`");
        return;
    };
    // Magic and version: Linux, `include/uapi/linux/btf.h`.
    assert_eq!(btf[..3], [0x9f, 0xeb, 1]);
    let names: HashSet<&[u8]> = btf.split(|byte| *byte == 0).collect();
    for name in ["task_struct", "btf_trace_sched_switch", "btf_trace_sched_wakeup"] {
        assert!(names.contains(name.as_bytes()), "no `{name}`");
    }
}

#[test]
fn a_ring_buffer_can_be_made() {
    // SAFETY: takes no argument and only reads the caller's identity.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP a_ring_buffer_can_be_made: needs root");
        return;
    }
    // map_type, key_size, value_size, max_entries: the size in bytes, at least a page.
    let attributes = [BPF_MAP_TYPE_RINGBUF, 0, 0, 4096];
    // SAFETY: the attributes are as long as said, are only read, and outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes)) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor was just made and belongs to nobody else.
    unsafe { libc::close(fd as i32) };
}

/// Has each program verified, and prints how many instructions that took: `cargo xtask vm` compares them with the accepted
/// ones.
#[test]
fn every_program_passes_the_verifier() {
    // SAFETY: takes no argument and only reads the caller's identity.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP every_program_passes_the_verifier: needs root");
        return;
    }
    for attach in Attach::ALL {
        // Starts in the tasks where the kernel has that, and in a map.
        for more in [&[][..], &["--start-entries", "16384"]] {
            let arguments = ["-v", "hist", "-d", "1ms", "--class", "wakeup,new,preempted", "--attach", attach.name()];
            let output = Command::new(wakelat::binary()).args(arguments).args(more).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", attach.name());
            for line in said.lines() {
                // None before 5.16, which does not count them.
                let Some((_, rest)) = line.split_once("program ") else { continue };
                let Some((program, rest)) = rest.split_once(": ") else { continue };
                if let Some(count) = rest.strip_suffix(" instructions verified") {
                    println!("VERIFIED {program} {count}");
                }
            }
        }
    }
}
