//! An application has set these by itself.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock;
use wad_common::{
    choices::ChoiceOffsets,
    flow::option::{CONGESTION, RCVBUF, SNDBUF},
};

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static CHOICES: ChoiceOffsets =
    ChoiceOffsets { userlocks: u32::MAX, userlocks_shift: 0, congestion: 0, congestion_mask: 0 };

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const CHOICES.$field).read_volatile() }
    };
}

/// The options that somebody has set: the application, or a policy. `sk` is a
/// socket of the kernel.
#[inline(always)]
pub fn of(sk: *mut c_void) -> u32 {
    // SAFETY: as the caller vouches.
    let tcp: *const u8 = unsafe { bpf_skc_to_tcp_sock(sk) }.cast();
    if tcp.is_null() {
        return 0;
    }
    let byte = |offset: u32| {
        // SAFETY: the verifier checks the load against the kernel's BTF.
        let byte = unsafe { tcp.add(offset as usize).read_volatile() };
        u32::from(byte)
    };
    let buffers = byte(offset!(userlocks)) >> (offset!(userlocks_shift) & 7);
    let has_congestion = byte(offset!(congestion)) & offset!(congestion_mask) != 0;
    buffers & (SNDBUF | RCVBUF) | if has_congestion { CONGESTION } else { 0 }
}
