//! A socket that runs already: one that an iterator visits, with its lock held, or that a scan
//! reads without.
//!
//! There is no context that hands out its fields. They are read where the kernel
//! has them: see [`Access`].

mod buffers;
mod offsets;
mod whose;

use core::{ffi::c_void, marker::PhantomData};

use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_STATE_CB_FLAG, BPF_TCP_CLOSE, BPF_TCP_CLOSE_WAIT, BPF_TCP_ESTABLISHED,
        BPF_TCP_FIN_WAIT1, BPF_TCP_FIN_WAIT2, BPF_TCP_LISTEN,
    },
    helpers::{
        bpf_getsockopt, bpf_setsockopt,
        generated::{bpf_get_socket_cookie, bpf_probe_read_kernel, bpf_skc_to_tcp_sock},
    },
};
use wad_common::{
    flow::{Counts, Flow},
    instruments::Place,
    policy::CONGESTION_BYTES,
    progress::Limits,
    signals::Change,
};
use wad_ebpf::{
    kernel::{Access, Kernel, Scanned, Typed, tcp_sock_at},
    policies::{Ends, V4_MAPPED},
    uapi::{
        SO_RCVBUF, SOL_SOCKET, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, TCP_CONGESTION, TCP_WINDOW_CLAMP,
    },
};

use self::offsets::offset;
use super::{AF_INET, Socket, State};

/// `icsk_ca_state` has five bits of its byte.
const CA_STATE_MASK: u8 = 0x1f;

/// Whether a flow that runs can be given the callback at its end: set as `SOCK` is.
#[unsafe(no_mangle)]
static HAS_FLAGS_OPTION: u8 = 0;

/// A full TCP socket.
#[derive(Clone, Copy)]
pub struct Visited<A = Typed>(*mut c_void, PhantomData<A>);

impl Visited {
    /// `sk` is what the kernel gave to an iterator or a tracing program.
    #[inline(always)]
    pub fn of(sk: *mut c_void) -> Option<Self> {
        if sk.is_null() {
            return None;
        }
        // SAFETY: `sk` is a socket of the kernel, of whatever kind.
        let tcp = unsafe { bpf_skc_to_tcp_sock(sk) };
        if tcp.is_null() { None } else { Some(Self(tcp.cast(), PhantomData)) }
    }

    /// Returns the address of its `struct tcp_sock`, by which scans read the socket.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.0 as u64
    }
}

impl Visited<Scanned> {
    /// Returns the socket of a flow; None where it is gone.
    #[inline(always)]
    pub fn of_flow(flow: &Flow) -> Option<Self> {
        let socket = Self(tcp_sock_at(flow.socket).cast_mut().cast(), PhantomData);
        if socket.is_of(flow) { Some(socket) } else { None }
    }

    /// Loads the lines of a `struct tcp_sock` that scans read into the processor's cache.
    #[inline(always)]
    pub fn load(address: u64) {
        if !Scanned::is_cheap() {
            return;
        }
        let socket: Self = Self(tcp_sock_at(address).cast_mut().cast(), PhantomData);
        socket.read::<u8>(offset!(state));
        socket.number_at(offset!(cookie));
        socket.number_at(offset!(rcvbuf));
        socket.number_at(offset!(wmem_queued));
        socket.number_at(offset!(sndbuf));
        socket.read::<u64>(offset!(cgroup));
        socket.read::<u8>(offset!(ca_state));
        socket.number_at(offset!(snd_cwnd));
        socket.number_at(offset!(rtt_min));
        socket.number_at(offset!(chrono_start));
        socket.number_at(offset!(srtt_us));
        socket.number_at(offset!(rate_delivered));
        socket.number_at(offset!(bytes_acked));
        socket.number_at(offset!(total_retrans));
    }

    /// Whether the socket is still the flow's and its connection is not over: then all that a scan has
    /// read before belongs to the flow. The memory of a freed socket stays one of TCP's sockets
    /// (SLAB_TYPESAFE_BY_RCU), with another cookie. A socket that is disconnected keeps its cookie, and
    /// its fields are cleared after the state has become CLOSE (`tcp_disconnect()`).
    #[inline(always)]
    pub fn still_has(&self, flow: &Flow) -> bool {
        !self.is_over() && self.is_of(flow)
    }

    /// Whether the socket has the flow's cookie.
    #[inline(always)]
    fn is_of(&self, flow: &Flow) -> bool {
        self.read::<u64>(offset!(cookie)) == flow.cookie
    }
}

impl<A: Access> Visited<A> {
    /// Whether it can send still.
    #[inline(always)]
    pub fn can_send(&self) -> bool {
        let state = u32::from(self.read::<u8>(offset!(state)));
        state == BPF_TCP_ESTABLISHED || state == BPF_TCP_CLOSE_WAIT
    }

    /// Whether anything comes or goes still: the application may have said that it sends no more,
    /// and receive all that it has asked for.
    #[inline(always)]
    pub fn is_in_use(&self) -> bool {
        let state = u32::from(self.read::<u8>(offset!(state)));
        matches!(
            state,
            BPF_TCP_ESTABLISHED | BPF_TCP_CLOSE_WAIT | BPF_TCP_FIN_WAIT1 | BPF_TCP_FIN_WAIT2
        )
    }

    /// Whether the application's close() ends the connection by a reset: data was left unread, or
    /// SO_LINGER is 0 (`__tcp_close()`). While the callback at the end of the connection runs, the
    /// socket still has the state of before. In ESTABLISHED and CLOSE_WAIT only close() shuts down both
    /// directions.
    #[inline(always)]
    pub fn is_closed_by_reset(&self) -> bool {
        /// `SHUTDOWN_MASK` (include/net/sock.h).
        const BOTH_DIRECTIONS: u8 = 3;
        self.can_send() && self.read::<u8>(offset!(shutdown)) == BOTH_DIRECTIONS
    }

    /// Whether its connection is over: what is left is a socket that somebody holds, and
    /// may use for the next one.
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        let state = u32::from(self.read::<u8>(offset!(state)));
        state == BPF_TCP_CLOSE || state == BPF_TCP_LISTEN
    }

    /// Its state of congestion control (`enum tcp_ca_state`).
    #[inline(always)]
    pub fn congestion_state(&self) -> u8 {
        self.read::<u8>(offset!(ca_state)) & CA_STATE_MASK
    }

    /// Returns what is known of it when its state of congestion control becomes another.
    #[inline(always)]
    pub fn change(&self, to: u8, heeds_stalls: bool) -> Change {
        Change {
            from: self.congestion_state(),
            to,
            retransmits: self.read(offset!(retransmits)),
            unacknowledged: self.number_at(offset!(snd_una)),
            delivered_ce_segments: self.marked_segments(),
            heeds_stalls,
        }
    }

    /// Segments of its own that arrived with a mark of congestion (ECN).
    #[inline(always)]
    pub fn marked_segments(&self) -> u32 {
        self.number_at(offset!(delivered_ce))
    }

    /// It is not 0 where the application limits what is on its way.
    #[inline(always)]
    pub fn app_limited(&self) -> u32 {
        self.read(offset!(app_limited))
    }

    /// Returns what has kept it from sending faster, and how long, with what the
    /// clock that runs now has still to be given (`tcp_get_info_chrono_stats()`).
    #[inline(always)]
    pub fn limits(&self, now_ticks: u32) -> Limits {
        let running = (self.read::<u8>(offset!(chrono_type)) >> offset!(chrono_type_shift)) & 3;
        let since = now_ticks.wrapping_sub(self.number_at(offset!(chrono_start)));
        // Which of them runs is counted from 1; 0 is none.
        let ticks = |n: u32| {
            let ticks = self.number_at(offset!(chrono_stat) + 4 * n);
            if u32::from(running) == n + 1 { ticks.wrapping_add(since) } else { ticks }
        };
        Limits { busy_ticks: ticks(0), rwnd_ticks: ticks(1), sndbuf_ticks: ticks(2) }
    }

    /// The most bytes per second at which it sends; `u64::MAX` for no bound.
    #[inline(always)]
    pub fn most_pacing_rate(&self) -> u64 {
        self.read(offset!(max_pacing_rate))
    }

    /// How long the application lets what it has sent go without an answer (`TCP_USER_TIMEOUT`);
    /// 0 for the kernel's own.
    #[inline(always)]
    pub fn user_timeout_ms(&self) -> u32 {
        self.read(offset!(user_timeout))
    }

    /// The algorithm that it has.
    #[inline(always)]
    pub fn congestion(&self) -> [u8; CONGESTION_BYTES] {
        self.kernel().follow(offset!(congestion)).name(offset!(congestion_name))
    }

    /// The algorithm that its network namespace gives to new connections.
    #[inline(always)]
    pub fn namespaces_congestion(&self) -> [u8; CONGESTION_BYTES] {
        let algorithm = self.kernel().follow(offset!(net)).follow(offset!(net_congestion));
        algorithm.name(offset!(congestion_name))
    }

    /// Any member of its `struct tcp_sock`; zero where the kernel cannot read it.
    #[inline(always)]
    pub fn member(&self, place: Place) -> u64 {
        let Place { offset, bytes, is_plain } = place;
        if is_plain == 0 {
            return self.copied(offset, bytes.into());
        }
        match bytes {
            1 => self.read::<u8>(offset).into(),
            2 => self.read::<u16>(offset).into(),
            4 => self.read::<u32>(offset).into(),
            _ => self.read(offset),
        }
    }

    #[inline(always)]
    fn copied(&self, offset: u32, bytes: u32) -> u64 {
        let mut value = 0_u64;
        // SAFETY: reads from wherever it is told to, or fails; the agent asks for 8 bytes
        // at most.
        unsafe {
            let from = self.0.cast::<u8>().wrapping_add(offset as usize);
            bpf_probe_read_kernel((&raw mut value).cast(), bytes, from.cast());
        }
        value
    }

    /// Whether anything is on its way that it has sent.
    #[inline(always)]
    pub fn sends(&self) -> bool {
        self.number_at(offset!(packets_out)) != 0
    }

    #[inline(always)]
    pub(in crate::socket) fn kernel(&self) -> Kernel<A> {
        Kernel::at(self.0.cast())
    }

    #[inline(always)]
    fn read<T: Copy>(&self, offset: u32) -> T {
        self.kernel().read(offset)
    }

    #[inline(always)]
    fn number_at(&self, offset: u32) -> u32 {
        self.read(offset)
    }

    #[inline(always)]
    pub fn ends(&self) -> Ends {
        let is_v4 = self.is_of_v4();
        let address = |v4: u32, v6: u32| {
            if is_v4 {
                [0, 0, V4_MAPPED, self.number_at(v4)]
            } else {
                [0, 4, 8, 12].map(|n| self.number_at(v6 + n))
            }
        };
        Ends {
            remote: address(offset!(remote_v4), offset!(remote_v6)),
            local: address(offset!(local_v4), offset!(local_v6)),
            remote_port: u16::from_be(self.read(offset!(remote_port))),
            local_port: self.read(offset!(local_port)),
        }
    }

    #[inline(always)]
    pub fn is_of_v4(&self) -> bool {
        u32::from(self.read::<u16>(offset!(family))) == AF_INET
    }

    #[inline(always)]
    pub fn counts(&self) -> Counts {
        Counts {
            bytes_acked: self.read(offset!(bytes_acked)),
            bytes_received: self.bytes_received(),
            data_segs_out: self.read(offset!(data_segs_out)),
            segs_retrans: self.read(offset!(total_retrans)),
        }
    }

    #[inline(always)]
    pub fn cwnd_segments(&self) -> u32 {
        self.read(offset!(snd_cwnd))
    }

    #[inline(always)]
    pub fn mss_bytes(&self) -> u32 {
        self.read(offset!(mss_cache))
    }

    /// Octets received in order.
    #[inline(always)]
    pub fn bytes_received(&self) -> u64 {
        self.read(offset!(bytes_received))
    }

    #[inline(always)]
    pub fn state(&self) -> State {
        State {
            srtt_us: self.number_at(offset!(srtt_us)) >> 3,
            min_rtt_us: self.read(offset!(rtt_min)),
            cwnd_segments: self.cwnd_segments(),
            ssthresh_segments: self.read(offset!(snd_ssthresh)),
            mss_bytes: self.mss_bytes(),
            delivered_segments: self.read(offset!(rate_delivered)),
            delivered_in_us: self.read(offset!(rate_interval_us)),
        }
    }
}

impl Socket for Visited {
    const IS_NEW: bool = false;

    #[inline(always)]
    fn sk(&self) -> *mut c_void {
        self.0
    }

    #[inline(always)]
    fn ends(&self) -> Ends {
        Self::ends(self)
    }

    #[inline(always)]
    fn is_of_v4(&self) -> bool {
        Self::is_of_v4(self)
    }

    #[inline(always)]
    fn is_mptcp_subflow(&self) -> bool {
        match offset!(is_mptcp) {
            0 => false,
            offset => self.read::<u8>(offset) != 0,
        }
    }

    #[inline(always)]
    fn counts(&self) -> Counts {
        Self::counts(self)
    }

    #[inline(always)]
    fn state(&self) -> State {
        Self::state(self)
    }

    /// The window was settled when the connection was made: it follows its new
    /// bound only if told. A smaller one the kernel offers when what it has offered
    /// already has come (`tcp_select_window()`): until then the buffer has to hold
    /// that, and stays larger than asked. On the way down less is offered than will
    /// be, so that what the application has not read yet fits beside it.
    #[inline(always)]
    fn set_rcvbuf(&self, bytes: u32) -> Result<(), i32> {
        let ratio = self.scaling_ratio();
        let window_of = |space: u64| (space * u64::from(ratio) / 256) as u32;
        let held = u64::from(self.number_at(offset!(rmem_alloc)));
        // The kernel doubles what it is given.
        let least = self.least_rcvbuf_bytes().div_ceil(2);
        self.set_number(SOL_SOCKET, SO_RCVBUF, if bytes < least { least } else { bytes })?;
        let space = u64::from(self.number(SOL_SOCKET, SO_RCVBUF));
        let asked = 2 * u64::from(bytes);
        let room = if space <= asked {
            space
        } else {
            let most_held = asked / 8 * 5;
            asked / 4 * 3 - if held < most_held { held } else { most_held }
        };
        self.set_number(SOL_TCP, TCP_WINDOW_CLAMP, window_of(room))
    }

    /// A law of ours that the socket has already is left and taken again: it reads
    /// the parameters of its policy anew then.
    #[inline(always)]
    fn set_congestion(&self, name: &[u8; CONGESTION_BYTES]) -> Result<(), i32> {
        const RENO: [u8; CONGESTION_BYTES] = *b"reno\0\0\0\0\0\0\0\0\0\0\0\0";
        let set = |name: &[u8; CONGESTION_BYTES]| {
            let (value, bytes) = (name.as_ptr().cast_mut().cast(), name.len() as i32);
            self.set(SOL_TCP, TCP_CONGESTION, value, bytes)
        };
        let mut now = [0; CONGESTION_BYTES];
        self.read_congestion(&mut now);
        let is_ours = name.starts_with(b"wad_");
        if is_ours && u128::from_ne_bytes(now) == u128::from_ne_bytes(*name) {
            set(&RENO)?;
        }
        set(name)
    }

    #[inline(always)]
    unsafe fn set_option(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> i64 {
        // SAFETY: as the caller vouches.
        unsafe { bpf_setsockopt(self.0, level, option, value, bytes) }
    }

    #[inline(always)]
    unsafe fn get_option(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> i64 {
        // SAFETY: as the caller vouches.
        unsafe { bpf_getsockopt(self.0, level, option, value, bytes) }
    }

    #[inline(always)]
    fn cookie(&self) -> u64 {
        // SAFETY: a socket of the kernel.
        unsafe { bpf_get_socket_cookie(self.0) }
    }

    #[inline(always)]
    fn ask_for_state_changes(&self) {
        // SAFETY: a valid static, volatile as those.
        if unsafe { (&raw const HAS_FLAGS_OPTION).read_volatile() } == 0 {
            return;
        }
        let flags = self.number(SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS) | BPF_SOCK_OPS_STATE_CB_FLAG;
        // Flags that the kernel gave it takes.
        let _ = self.set_number(SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, flags);
    }
}
