//! The socket of a sock_ops callback.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    bindings::{BPF_SOCK_OPS_STATE_CB_FLAG, bpf_sock_ops},
    helpers::{
        bpf_getsockopt, bpf_setsockopt,
        generated::{bpf_get_socket_cookie, bpf_skc_to_mptcp_sock},
    },
    programs::SockOpsContext,
};
use wad_common::flow::Counts;
use wad_ebpf::policies::{Ends, V4_MAPPED};

use super::{AF_INET, Socket, State};

/// Whether this kernel has Multipath TCP: set by the agent before the program is
/// loaded. Without it the verifier refuses the helper that asks.
#[unsafe(no_mangle)]
static HAS_MPTCP: u8 = 0;

/// A full socket whose callback this is.
pub struct Calling<'a> {
    ctx: &'a SockOpsContext,
    sk: *mut c_void,
}

impl<'a> Calling<'a> {
    #[inline(always)]
    pub fn of(ctx: &'a SockOpsContext) -> Option<Self> {
        // SAFETY: the kernel turns this load into one of the socket's address,
        // or null where it is not a full socket.
        let sk = unsafe { (*ctx.ops).__bindgen_anon_2.sk };
        if sk.is_null() { None } else { Some(Self { ctx, sk: sk.cast() }) }
    }

    #[inline(always)]
    fn ops(&self) -> &bpf_sock_ops {
        // SAFETY: the context is valid for the program's run. Each field read
        // becomes a load that the verifier checks.
        unsafe { &*self.ctx.ops }
    }
}

impl Socket for Calling<'_> {
    const IS_NEW: bool = true;

    #[inline(always)]
    fn sk(&self) -> *mut c_void {
        self.sk
    }

    #[inline(always)]
    fn ends(&self) -> Ends {
        ends(self.ctx)
    }

    #[inline(always)]
    fn is_of_v4(&self) -> bool {
        self.ctx.family() == AF_INET
    }

    #[inline(always)]
    fn is_mptcp_subflow(&self) -> bool {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        if unsafe { (&raw const HAS_MPTCP).read_volatile() } == 0 {
            return false;
        }
        // SAFETY: `sk` is a socket of the kernel.
        !unsafe { bpf_skc_to_mptcp_sock(self.sk) }.is_null()
    }

    #[inline(always)]
    fn counts(&self) -> Counts {
        let ops = self.ops();
        Counts {
            bytes_acked: ops.bytes_acked,
            bytes_received: ops.bytes_received,
            data_segs_out: ops.data_segs_out,
            segs_retrans: ops.total_retrans,
        }
    }

    #[inline(always)]
    fn state(&self) -> State {
        let ops = self.ops();
        State {
            // The kernel keeps eight times it (`tp->srtt_us`).
            srtt_us: ops.srtt_us >> 3,
            min_rtt_us: ops.rtt_min,
            cwnd_segments: ops.snd_cwnd,
            ssthresh_segments: ops.snd_ssthresh,
            mss_bytes: ops.mss_cache,
            delivered_segments: ops.rate_delivered,
            delivered_in_us: ops.rate_interval_us,
        }
    }

    #[inline(always)]
    unsafe fn set_option(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> i64 {
        // SAFETY: as the caller vouches.
        unsafe { bpf_setsockopt(self.ctx.as_ptr(), level, option, value, bytes) }
    }

    #[inline(always)]
    unsafe fn get_option(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> i64 {
        // SAFETY: as the caller vouches.
        unsafe { bpf_getsockopt(self.ctx.as_ptr(), level, option, value, bytes) }
    }

    #[inline(always)]
    fn cookie(&self) -> u64 {
        // SAFETY: reads the cookie of the context's socket.
        unsafe { bpf_get_socket_cookie(self.ctx.as_ptr()) }
    }

    #[inline(always)]
    fn ask_for_state_changes(&self) {
        let flags = self.ctx.cb_flags() | BPF_SOCK_OPS_STATE_CB_FLAG;
        // It fails only for sockets that are not full ones.
        let _ = self.ctx.set_cb_flags(flags as i32);
    }
}

/// The two ends of the context's socket, which may be a request.
#[inline(always)]
pub fn ends(ctx: &SockOpsContext) -> Ends {
    let is_v4 = ctx.family() == AF_INET;
    // All words are read, and then chosen from: a choice between addresses
    // the verifier refuses ("dereference of modified ctx ptr", Linux 6.18).
    // Volatile, so that LLVM does not make one of them again.
    let word = |field: *const u32| {
        // SAFETY: a field of the context; the verifier checks the load.
        unsafe { field.read_volatile() }
    };
    let address = |v4: *const u32, v6: *const [u32; 4]| {
        let v4 = word(v4);
        let v6: *const u32 = v6.cast();
        // SAFETY: within the four words of the field.
        let v6 = unsafe { [word(v6), word(v6.add(1)), word(v6.add(2)), word(v6.add(3))] };
        if is_v4 { [0, 0, V4_MAPPED, v4] } else { v6 }
    };
    let ops = ctx.ops;
    // SAFETY: only addresses of fields are taken here.
    let (remote, local) = unsafe {
        (
            address(&raw const (*ops).remote_ip4, &raw const (*ops).remote_ip6),
            address(&raw const (*ops).local_ip4, &raw const (*ops).local_ip6),
        )
    };
    Ends {
        remote,
        local,
        // In the context the remote port is in network byte order, as a
        // number of 32 bits; the local one is not.
        remote_port: u32::from_be(ctx.remote_port()) as u16,
        local_port: ctx.local_port() as u16,
    }
}
