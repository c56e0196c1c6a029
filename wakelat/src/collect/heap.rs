//! Returns memory that the allocator keeps to the kernel.

/// Returns free memory. The allocator keeps small pieces: the kernel's types take some 25 MiB while the programs are
/// loaded, and each reading of a service takes and frees many.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and releases only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes the allocator return each large block as soon as it is freed. Otherwise, once such a block has been freed, blocks
/// of its size come from the heap, between small ones that stay (mallopt(3), `M_MMAP_THRESHOLD`).
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: i32 = 128 << 10;
        // SAFETY: sets a number.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
