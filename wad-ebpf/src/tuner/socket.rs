//! The socket of a sock_ops callback: its addresses, options and counts.

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
use wad_common::{
    event::Event,
    flow::{Flow, Settings},
    policy::CONGESTION_BYTES,
};
use wad_ebpf::{
    maps,
    policies::{Ends, V4_MAPPED},
};

// include/uapi/asm-generic/socket.h, include/linux/socket.h, uapi/linux/tcp.h,
// uapi/linux/bpf.h
const SOL_IP: i32 = 0;
const SOL_SOCKET: i32 = 1;
const SOL_TCP: i32 = 6;
const SOL_IPV6: i32 = 41;
const IP_TOS: i32 = 1;
const SO_SNDBUF: i32 = 7;
const SO_RCVBUF: i32 = 8;
const SO_MAX_PACING_RATE: i32 = 47;
const TCP_CONGESTION: i32 = 13;
const IPV6_TCLASS: i32 = 67;
const TCP_BPF_IW: i32 = 1001;
const AF_INET: u32 = 2;
const EAFNOSUPPORT: i32 = 97;

/// Whether this kernel has Multipath TCP: set by the agent before the program is
/// loaded. Without it the verifier refuses the helper that asks.
#[unsafe(no_mangle)]
static HAS_MPTCP: u8 = 0;

/// A full socket; requests and the like are none.
pub struct Socket<'a> {
    ctx: &'a SockOpsContext,
    sk: *mut c_void,
}

impl<'a> Socket<'a> {
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

    #[inline(always)]
    pub fn ends(&self) -> Ends {
        ends(self.ctx)
    }

    #[inline(always)]
    pub fn is_mptcp_subflow(&self) -> bool {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        if unsafe { (&raw const HAS_MPTCP).read_volatile() } == 0 {
            return false;
        }
        // SAFETY: `sk` is a socket of the kernel.
        !unsafe { bpf_skc_to_mptcp_sock(self.sk) }.is_null()
    }

    #[inline(always)]
    pub fn flow<'b>(&self) -> Option<&'b mut Flow> {
        // SAFETY: `sk` is a socket of the kernel.
        unsafe { maps::flow(self.sk) }
    }

    #[inline(always)]
    pub fn flow_or_insert<'b>(&self) -> Option<&'b mut Flow> {
        // SAFETY: `sk` is a socket of the kernel.
        unsafe { maps::flow_or_insert(self.sk) }
    }

    /// Asks for the callback at state changes, leaving what others asked for.
    #[inline(always)]
    pub fn ask_for_state_changes(&self) {
        let flags = self.ctx.cb_flags() | BPF_SOCK_OPS_STATE_CB_FLAG;
        // It fails only for sockets that are not full ones.
        let _ = self.ctx.set_cb_flags(flags as i32);
    }

    #[inline(always)]
    pub fn set_sndbuf(&self, bytes: u32) -> Result<(), i32> {
        self.set_number(SOL_SOCKET, SO_SNDBUF, bytes)
    }

    #[inline(always)]
    pub fn set_rcvbuf(&self, bytes: u32) -> Result<(), i32> {
        self.set_number(SOL_SOCKET, SO_RCVBUF, bytes)
    }

    #[inline(always)]
    pub fn set_initial_window(&self, segments: u32) -> Result<(), i32> {
        self.set_number(SOL_TCP, TCP_BPF_IW, segments)
    }

    /// Bounds the rate, and has the flow paced.
    #[inline(always)]
    pub fn set_max_pacing_rate(&self, bytes_per_second: u32) -> Result<(), i32> {
        self.set_number(SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_second)
    }

    /// The upper six bits are the DSCP; the kernel keeps ECN's two to itself
    /// (`__ip_sock_set_tos()`). An IPv4 flow of an IPv6 socket takes IP_TOS, which
    /// BPF may not set there (`sol_ip_sockopt()`).
    #[inline(always)]
    pub fn set_traffic_class(&self, class: u32) -> Result<(), i32> {
        if self.ctx.family() == AF_INET {
            self.set_number(SOL_IP, IP_TOS, class)
        } else if self.ends().is_v4() {
            Err(-EAFNOSUPPORT)
        } else {
            self.set_number(SOL_IPV6, IPV6_TCLASS, class)
        }
    }

    #[inline(always)]
    pub fn set_congestion(&self, name: &[u8; CONGESTION_BYTES]) -> Result<(), i32> {
        self.set(SOL_TCP, TCP_CONGESTION, name.as_ptr().cast_mut().cast(), name.len() as i32)
    }

    #[inline(always)]
    pub fn read_buffers(&self, settings: &mut Settings) {
        settings.sndbuf_bytes = self.number(SOL_SOCKET, SO_SNDBUF);
        settings.rcvbuf_bytes = self.number(SOL_SOCKET, SO_RCVBUF);
    }

    #[inline(always)]
    pub fn read_control(&self, settings: &mut Settings) {
        settings.cwnd_segments = self.ops().snd_cwnd;
        let name = &mut settings.congestion;
        // SAFETY: the buffer has the length given. On failure the kernel zeroes
        // it, which reads as "unknown".
        unsafe {
            bpf_getsockopt(
                self.ctx.as_ptr(),
                SOL_TCP,
                TCP_CONGESTION,
                name.as_mut_ptr().cast(),
                name.len() as i32,
            )
        };
    }

    /// Segments retransmitted so far, SYNs included.
    #[inline(always)]
    pub fn retransmitted_segments(&self) -> u32 {
        self.ops().total_retrans
    }

    #[inline(always)]
    pub fn data_segments(&self) -> u32 {
        self.ops().data_segs_out
    }

    #[inline(always)]
    pub fn bytes_acked(&self) -> u64 {
        self.ops().bytes_acked
    }

    #[inline(always)]
    pub fn bytes_received(&self) -> u64 {
        self.ops().bytes_received
    }

    /// Smoothed RTT; the kernel keeps eight times it (`tp->srtt_us`).
    #[inline(always)]
    pub fn srtt_us(&self) -> u32 {
        self.ops().srtt_us >> 3
    }

    /// Fills in what an event says of the socket itself.
    #[inline(always)]
    pub fn describe(&self, event: &mut Event) {
        let ends = self.ends();
        let ops = self.ops();
        // SAFETY: reads the cookie of the context's socket.
        event.cookie = unsafe { bpf_get_socket_cookie(self.ctx.as_ptr()) };
        event.bytes_acked = self.bytes_acked();
        event.bytes_received = self.bytes_received();
        // SAFETY: the same 16 bytes in the same order.
        event.remote = unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(ends.remote) };
        // SAFETY: as above.
        event.local = unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(ends.local) };
        event.remote_port = ends.remote_port;
        event.local_port = ends.local_port;
        event.data_segs_out = self.data_segments();
        event.segs_retrans = self.retransmitted_segments();
        event.srtt_us = self.srtt_us();
        event.min_rtt_us = ops.rtt_min;
        event.cwnd_segments = ops.snd_cwnd;
        event.ssthresh_segments = ops.snd_ssthresh;
        event.mss_bytes = ops.mss_cache;
    }

    #[inline(always)]
    fn set_number(&self, level: i32, option: i32, mut value: u32) -> Result<(), i32> {
        self.set(level, option, (&raw mut value).cast(), size_of::<u32>() as i32)
    }

    #[inline(always)]
    fn set(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> Result<(), i32> {
        // SAFETY: `value` points to that many readable bytes.
        match unsafe { bpf_setsockopt(self.ctx.as_ptr(), level, option, value, bytes) } {
            0 => Ok(()),
            error => Err(error as i32),
        }
    }

    #[inline(always)]
    fn number(&self, level: i32, option: i32) -> u32 {
        let mut value = 0_u32;
        // SAFETY: `value` has the length given. On failure it stays zero.
        unsafe {
            bpf_getsockopt(
                self.ctx.as_ptr(),
                level,
                option,
                (&raw mut value).cast(),
                size_of::<u32>() as i32,
            )
        };
        value
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
