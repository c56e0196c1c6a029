//! Waits until every BPF program that is running now has ended.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};
use aya_obj::generated::{bpf_attr, bpf_attr__bindgen_ty_1, bpf_cmd, bpf_map_type};

/// An array of maps with one element. Updating the element ends in `synchronize_rcu()`, so that user space
/// knows that no program uses the former map (`maybe_wait_bpf_programs()`, kernel/bpf/syscall.c, from 5.0 on;
/// since 6.8 only if the update succeeds). The kernel runs programs on tracepoints as readers of RCU
/// (`__bpf_trace_run()` and `trace_call_bpf()`, kernel/trace/bpf_trace.c), also with PREEMPT_RT.
///
/// `membarrier(2)` would do the same without a map, but not on a kernel with `nohz_full` CPUs
/// (kernel/sched/membarrier.c).
pub(super) struct Barrier {
    outer: OwnedFd,
    inner: OwnedFd,
}

/// Proof that every program that was running at a certain time has ended.
pub(super) struct Quiescent(());

impl Barrier {
    /// Creates the maps.
    pub(super) fn new() -> Result<Self> {
        let inner = map(bpf_map_type::BPF_MAP_TYPE_ARRAY, 4, |_| {})?;
        let outer =
            map(bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, |attr| attr.inner_map_fd = inner.as_raw_fd() as u32)?;
        Ok(Self { outer, inner })
    }

    /// Waits for the programs that are running now.
    pub(super) fn wait(&self) -> Result<Quiescent> {
        let (key, value) = (0_u32, self.inner.as_raw_fd());
        let mut attr = empty();
        // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
        let update = unsafe { &mut attr.__bindgen_anon_2 };
        update.map_fd = self.outer.as_raw_fd() as u32;
        update.key = (&raw const key).addr() as u64;
        update.__bindgen_anon_1.value = (&raw const value).addr() as u64;
        bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr).context("cannot wait for the BPF programs to end")?;
        Ok(Quiescent(()))
    }
}

/// Creates a map with one element of `bytes` bytes; `more` sets further attributes.
fn map(map_type: bpf_map_type, bytes: u32, more: impl FnOnce(&mut bpf_attr__bindgen_ty_1)) -> Result<OwnedFd> {
    let mut attr = empty();
    // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
    let create = unsafe { &mut attr.__bindgen_anon_1 };
    create.map_type = map_type as u32;
    (create.key_size, create.value_size, create.max_entries) = (4, bytes, 1);
    more(create);
    descriptor(bpf_cmd::BPF_MAP_CREATE, &mut attr).context("cannot create the map to wait for programs with")
}

fn empty() -> bpf_attr {
    // SAFETY: a union of plain numbers, for which zeros are a valid value.
    unsafe { std::mem::zeroed() }
}

/// Calls `bpf(2)`.
fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i64> {
    // SAFETY: the kernel accesses no more than the given length, and everything that `attr` points to
    // outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as u32, &raw mut *attr, size_of::<bpf_attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Calls `bpf(2)` with a command that returns a file descriptor.
fn descriptor(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel has just opened the descriptor for this process, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use std::{
        hint, ptr,
        sync::atomic::{AtomicU32, Ordering::SeqCst},
        thread,
    };

    use aya_obj::generated::bpf_prog_type;

    use super::*;

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

    #[test]
    fn a_barrier_waits_for_the_programs_that_run() {
        // BPF_F_MMAPABLE
        let Ok(words) = map(bpf_map_type::BPF_MAP_TYPE_ARRAY, 8, |attr| attr.map_flags = 1 << 10) else {
            println!("SKIP a_barrier_waits_for_the_programs_that_run: may not create a BPF map");
            return;
        };
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, words.as_raw_fd());
        // SAFETY: the kernel chooses the address.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), 8, access, libc::MAP_SHARED, fd, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        // SAFETY: two words in a mapping that is never unmapped.
        let words = unsafe { &*mapped.cast::<[AtomicU32; 2]>() };
        let instructions = slow_program(fd, 50_000);
        let mut attr = empty();
        // SAFETY: all fields of the union are plain numbers, for which any bytes are valid.
        let load = unsafe { &mut attr.__bindgen_anon_3 };
        load.prog_type = bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT as u32;
        load.insns = instructions.as_ptr().addr() as u64;
        load.insn_cnt = instructions.len() as u32;
        load.license = c"GPL".as_ptr().addr() as u64;
        let program = descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attr).unwrap();
        let barrier = Barrier::new().unwrap();
        // Repeated, because a busy machine may preempt this thread for as long as the program runs.
        for _ in 0..20 {
            words.iter().for_each(|word| word.store(0, SeqCst));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut attr = empty();
                    attr.test.prog_fd = program.as_raw_fd() as u32;
                    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr).unwrap();
                });
                while words[0].load(SeqCst) == 0 {
                    hint::spin_loop();
                }
                _ = barrier.wait().unwrap();
                assert_eq!(words[1].load(SeqCst), 1);
            });
        }
    }
}
