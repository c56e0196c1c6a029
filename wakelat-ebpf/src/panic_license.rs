//! The panic handler and the license, which every BPF object needs.

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // Nothing here can panic: the verifier would reject this loop.
    loop {}
}

/// Only GPL-compatible programs may read kernel memory (kernel/bpf/verifier.c, `gpl_only` helpers).
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
