//! The kernel's iterator over the sockets of a network namespace hands this to its
//! programs.

use core::ffi::c_void;

/// `struct bpf_iter__tcp`.
#[repr(C)]
pub struct Context {
    /// A `struct bpf_iter_meta`, whose first member is the output.
    meta: *const *mut c_void,
    /// Null at the end.
    sk: *mut c_void,
}

impl Context {
    /// Returns the `struct bpf_iter_meta`, whose first member is the output, and the
    /// socket.
    #[inline(always)]
    pub fn read(ctx: *const Self) -> (*const *mut c_void, *mut c_void) {
        // SAFETY: the kernel's own arguments; the verifier checks the loads.
        unsafe {
            ((&raw const (*ctx).meta).read_volatile(), (&raw const (*ctx).sk).read_volatile())
        }
    }
}
