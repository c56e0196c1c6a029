//! What every object needs beside its programs.

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // Nothing here can panic: the verifier would refuse this loop.
    loop {}
}

/// Reading kernel memory is reserved to GPL-compatible programs (kernel/bpf/verifier.c, `gpl_only` helpers).
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
