//! The memory of the agent itself.

/// Reading a large configuration, or telling all of it, takes several times what
/// is kept. glibc holds on to that, each thread to its own, unless told not to.
pub fn keep_little_memory() {
    // SAFETY: settings of the allocator, made before there is a second thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        const LARGE_BYTES: libc::c_int = 128 * 1024;
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
    }
}

/// Gives memory back to the kernel: what lies between pieces that are kept is given
/// back only on demand.
pub fn give_memory_back() {
    // SAFETY: an allocator may be asked at any time; musl's does it by itself.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
