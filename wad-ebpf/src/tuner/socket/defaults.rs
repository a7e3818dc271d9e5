//! The buffers that a socket's network namespace gives by default.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock;
use wad_common::{defaults::DefaultOffsets, division::Division};
use wad_ebpf::behind::Behind;

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static DEFAULTS: DefaultOffsets = DefaultOffsets { net: u32::MAX, tcp_wmem: 0, tcp_rmem: 0 };

/// A flow's division before anything is divided: with the defaults, as arguments of
/// SO_SNDBUF and SO_RCVBUF, which the kernel doubles. `sk` is a socket of the kernel.
#[inline(always)]
pub fn of(sk: *mut c_void) -> Division {
    let mut division = Division::default();
    // SAFETY: as the caller vouches.
    let tcp: *const u8 = unsafe { bpf_skc_to_tcp_sock(sk) }.cast();
    if tcp.is_null() {
        return division;
    }
    // SAFETY: a valid static. Volatile, because the compiler would otherwise take the
    // initializer for the value.
    let DefaultOffsets { net, tcp_wmem, tcp_rmem } =
        unsafe { (&raw const DEFAULTS).read_volatile() };
    let net = Behind::pointer(tcp.wrapping_add(net as usize));
    division.default_sndbuf_bytes = net.read::<u32>(tcp_wmem) / 2;
    division.default_rcvbuf_bytes = net.read::<u32>(tcp_rmem) / 2;
    division
}
