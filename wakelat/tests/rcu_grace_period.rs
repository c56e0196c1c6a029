//! The barrier waits for BPF programs that are running. A suite of its own, because it needs to load one.

use std::{
    hint,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    process::ExitCode,
    ptr,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    thread,
};

use aya_obj::generated::{bpf_cmd, bpf_map_type, bpf_prog_type};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use wakelat::collect::{
    bpf_syscall::{create_map, empty, syscall},
    rcu_grace_period::Barrier,
};
use wakelat_tests::{
    once,
    suite::{self, TestOutcome},
};

fn main() -> ExitCode {
    suite::main_of(once![a_barrier_waits_for_the_programs_that_run])
}

/// A program that writes 1 to the first word of the map `words`, reads the clock `readings` times, and
/// writes 1 to the second word.
fn slow_program(words: i32, readings: i32) -> Vec<u64> {
    // Documentation/bpf/standardization/instruction-set.rst
    let instruction = |opcode: u8, dst: u8, src: u8, offset: i16, immediate: i32| {
        u64::from(opcode)
            | u64::from(dst | src << 4) << 8
            | u64::from(offset as u16) << 16
            | u64::from(immediate as u32) << 32
    };
    const MAP_VALUE: u8 = 2;
    const KTIME_GET_NS: i32 = 5;
    vec![
        instruction(0x18, 6, MAP_VALUE, 0, words), // r6 = the map's value
        instruction(0, 0, 0, 0, 0),                //
        instruction(0x62, 6, 0, 0, 1),             // *(u32 *)(r6 + 0) = 1
        instruction(0xb7, 7, 0, 0, readings),      // r7 = readings
        instruction(0x85, 0, 0, 0, KTIME_GET_NS),  // call ktime_get_ns
        instruction(0x07, 7, 0, 0, -1),            // r7 -= 1
        instruction(0x55, 7, 0, -3, 0),            // if r7 != 0 goto the call
        instruction(0x62, 6, 0, 4, 1),             // *(u32 *)(r6 + 4) = 1
        instruction(0xb7, 0, 0, 0, 0),             // r0 = 0
        instruction(0x95, 0, 0, 0, 0),             // exit
    ]
}

/// Loads a program for a raw tracepoint.
fn load(instructions: &[u64]) -> OwnedFd {
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT as u32;
    load.insns = instructions.as_ptr().addr() as u64;
    load.insn_cnt = instructions.len() as u32;
    load.license = c"GPL".as_ptr().addr() as u64;
    // SAFETY: the instructions and the license outlive the call.
    let fd = unsafe { syscall(bpf_cmd::BPF_PROG_LOAD, &mut attr) }.expect("the verifier accepts the program");
    // SAFETY: the kernel has just opened the descriptor for this process, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn a_barrier_waits_for_the_programs_that_run() -> TestOutcome {
    // BPF_F_MMAPABLE
    let map = create_map(bpf_map_type::BPF_MAP_TYPE_ARRAY, 8, |attr| attr.map_flags = 1 << 10).expect("a map");
    // SAFETY: the kernel chooses the address.
    let mapped = unsafe { mmap(ptr::null_mut(), 8, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &map, 0) };
    // SAFETY: two words in a mapping that is never unmapped.
    let words = unsafe { &*mapped.expect("the map can be mapped").cast::<[AtomicU32; 2]>() };
    let program = load(&slow_program(map.as_raw_fd(), 50_000));
    let barrier = Barrier::new().expect("a map of maps");
    // Repeated, because a busy machine may preempt this thread for as long as the program runs.
    for _ in 0..20 {
        words.iter().for_each(|word| word.store(0, SeqCst));
        thread::scope(|scope| {
            let run = scope.spawn(|| {
                let mut attr = empty();
                attr.test.prog_fd = program.as_raw_fd() as u32;
                // SAFETY: the attributes point to nothing.
                unsafe { syscall(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr) }.expect("the program runs");
            });
            while words[0].load(SeqCst) == 0 && !run.is_finished() {
                hint::spin_loop();
            }
            barrier.wait().expect("the barrier");
            assert_eq!(words[1].load(SeqCst), 1);
        });
    }
    Ok(())
}
