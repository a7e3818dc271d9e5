//! The buffers that a socket's network namespace gives by default.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock;
use wad_common::{defaults::DefaultOffsets, division::Division};

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static DEFAULTS: DefaultOffsets = DefaultOffsets { net: 0, tcp_wmem: 0, tcp_rmem: 0 };

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const DEFAULTS.$field).read_volatile() as usize }
    };
}

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
    let (net, tcp_wmem, tcp_rmem) = (offset!(net), offset!(tcp_wmem), offset!(tcp_rmem));
    // SAFETY: the verifier checks the loads against the kernel's BTF; one through a
    // pointer that turns out to be bad yields zero.
    let [default_sndbuf, default_rcvbuf] = unsafe {
        let net = tcp.add(net).cast::<*const u8>().read_volatile();
        [tcp_wmem, tcp_rmem].map(|sysctl| net.add(sysctl).cast::<u32>().read_volatile())
    };
    division.default_sndbuf_bytes = default_sndbuf / 2;
    division.default_rcvbuf_bytes = default_rcvbuf / 2;
    division
}
