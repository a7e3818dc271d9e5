//! A TCP socket, as the tuner needs it: its two ends, its options, its counts.
//! Two kinds of programs come by one, each in its own way: [`Calling`], whose
//! connection begins or ends, and [`Visited`], which runs already.

mod calling;
mod choices;
mod defaults;
mod visited;

use core::ffi::c_void;

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::generated::bpf_jiffies64};
use wad_common::{
    division::Division,
    event::Event,
    flow::{Counts, Flow, Settings},
    policy::{ANY_USER, BY_CGROUP, BY_INTERFACE, CONGESTION_BYTES, Owner, PACED},
    probe::USER_TIMEOUT_MS,
    progress::Limits,
};
use wad_ebpf::{
    maps::{self, EARLIER, FLOWS, OVERRIDDEN},
    policies::Ends,
    uapi::{
        IP_TOS, IPV6_TCLASS, SO_MAX_PACING_RATE, SO_PRIORITY, SO_RCVBUF, SO_SNDBUF, SOL_IP,
        SOL_IPV6, SOL_SOCKET, SOL_TCP, TCP_BPF_DELACK_MAX, TCP_BPF_IW, TCP_CONGESTION,
    },
};

pub use self::{
    calling::{Calling, ends},
    visited::Visited,
};

// include/linux/socket.h, include/uapi/asm-generic/errno.h
const AF_INET: u32 = 2;
const EAFNOSUPPORT: i32 = 97;

/// It is not on the stack, which is short of room.
// SAFETY: numbers only, for which zeros are valid.
const NO_FLOW: &Flow = &unsafe { core::mem::zeroed() };

/// The part of a traffic class that is not ECN's.
pub const DSCP_MASK: u32 = 0xfc;

/// Two ticks of the kernel's clock, which is the least delay that it takes
/// (`TCP_TIMEOUT_MIN`), at 1000, 250 or 300, and 100 a second. The first that it
/// takes is the least.
const LEAST_ACK_DELAYS_US: [u32; 3] = [2_000, 6_666, 20_000];
/// `TCP_DELACK_MAX` (include/net/tcp.h).
const USUAL_ACK_DELAY_US: u32 = 200_000;

/// The state says how a flow is at the moment.
pub struct State {
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub cwnd_segments: u32,
    pub ssthresh_segments: u32,
    pub mss_bytes: u32,
    pub delivered_segments: u32,
    pub delivered_in_us: u32,
}

/// A full socket; requests and the like are none.
pub trait Socket {
    /// Whether nothing was sent yet, so that an initial window has a meaning.
    const IS_NEW: bool;

    /// Returns the socket as the kernel knows it.
    fn sk(&self) -> *mut c_void;

    fn ends(&self) -> Ends;

    /// Whether the socket is of AF_INET, whatever the packets are.
    fn is_of_v4(&self) -> bool;

    fn is_mptcp_subflow(&self) -> bool;

    /// Whether it is one of a probe's, which nobody tunes.
    #[inline(always)]
    fn is_of_probe(&self) -> bool {
        Visited::of(self.sk()).is_some_and(|socket| socket.user_timeout_ms() == USER_TIMEOUT_MS)
    }

    /// Returns the address of its `struct tcp_sock`, by which scans read the socket.
    #[inline(always)]
    fn address(&self) -> u64 {
        match Visited::of(self.sk()) {
            Some(socket) => socket.address(),
            None => 0,
        }
    }

    /// Whether a process keeps the socket open after this connection, and may connect it again.
    #[inline(always)]
    fn stays_held(&self) -> bool {
        Visited::of(self.sk())
            .is_some_and(|socket| socket.is_held() && !socket.is_closed_by_reset())
    }

    /// Returns which options somebody has set: the application, or a policy.
    #[inline(always)]
    fn set_options(&self) -> u32 {
        match Visited::of(self.sk()) {
            Some(socket) => socket.choices(),
            None => 0,
        }
    }

    /// Returns the division before anything is divided, with the kernel's default buffers.
    #[inline(always)]
    fn division(&self) -> Division {
        defaults::of(self.sk())
    }

    /// Returns the algorithm that its network namespace gives to new connections; zeros
    /// where the kernel does not say.
    #[inline(always)]
    fn default_congestion(&self) -> [u8; CONGESTION_BYTES] {
        match Visited::of(self.sk()) {
            Some(socket) => socket.namespaces_congestion(),
            None => [0; CONGESTION_BYTES],
        }
    }

    /// Returns whose it is, as far as rules of that set depend on it.
    #[inline(never)]
    fn owner(&self, set: u32, by: u16) -> Owner {
        match Visited::of(self.sk()) {
            Some(socket) => {
                let cgroups = if by & BY_CGROUP != 0 { socket.cgroups(set) } else { 0 };
                let interfaces = if by & BY_INTERFACE != 0 { socket.interfaces(set) } else { 0 };
                let patterns = cgroups | interfaces;
                Owner { user: socket.user(), mark: socket.mark(), patterns }
            }
            None => Owner::UNKNOWN,
        }
    }

    /// Fills in whose it is, and what it waited for.
    #[inline(always)]
    fn describe_visited(&self, event: &mut Event) {
        (event.user, event.cgroup, event.limits) = match Visited::of(self.sk()) {
            Some(socket) => {
                // SAFETY: reads the clock.
                let ticks = unsafe { bpf_jiffies64() } as u32;
                (socket.user(), socket.cgroup(), socket.limits(ticks))
            }
            None => (ANY_USER, 0, Limits::default()),
        };
    }

    fn counts(&self) -> Counts;

    fn state(&self) -> State;

    /// # Safety
    ///
    /// `value` points to that many readable bytes.
    unsafe fn set_option(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> i64;

    /// # Safety
    ///
    /// `value` points to that many writable bytes, which are initialised.
    unsafe fn get_option(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> i64;

    fn cookie(&self) -> u64;

    /// Asks for the callback at state changes, leaving what others asked for.
    fn ask_for_state_changes(&self);

    #[inline(always)]
    fn set_rcvbuf(&self, bytes: u32) -> Result<(), i32> {
        self.set_number(SOL_SOCKET, SO_RCVBUF, bytes)
    }

    #[inline(always)]
    fn set_congestion(&self, name: &[u8; CONGESTION_BYTES]) -> Result<(), i32> {
        self.set(SOL_TCP, TCP_CONGESTION, name.as_ptr().cast_mut().cast(), name.len() as i32)
    }

    /// Returns the state of its flow, if it is one of a path's.
    #[inline(always)]
    fn flow<'b>(&self) -> Option<&'b mut Flow> {
        maps::flow(self.cookie())
    }

    /// Returns the state of its flow, made of zeros if there is none; None where the map is full,
    /// or there is no memory.
    #[inline(always)]
    fn flow_or_insert<'b>(&self) -> Option<&'b mut Flow> {
        let cookie = self.cookie();
        // It fails where there is one.
        let _ = FLOWS.insert(cookie, NO_FLOW, BPF_NOEXIST.into());
        maps::flow(cookie)
    }

    /// Returns what it has kept of its latest flow.
    #[inline(always)]
    fn earlier<'b>(&self) -> Option<&'b mut Flow> {
        // SAFETY: `sk` is a socket of the kernel, whose lock is held.
        unsafe { maps::kept(&EARLIER, self.sk()).as_mut() }
    }

    /// Stores the state of the flow that ends, for the next connection of this socket.
    #[inline(always)]
    fn keep(&self, flow: &Flow) {
        // SAFETY: as above.
        if let Some(earlier) = unsafe { maps::kept_or_new(&EARLIER, self.sk()).as_mut() } {
            *earlier = *flow;
        }
    }

    /// Has programs at setsockopt(2) find its flow.
    #[inline(always)]
    fn note_overridden(&self) {
        // SAFETY: as above.
        if let Some(cookie) = unsafe { maps::kept_or_new(&OVERRIDDEN, self.sk()).as_mut() } {
            *cookie = self.cookie();
        }
    }

    #[inline(always)]
    fn set_sndbuf(&self, bytes: u32) -> Result<(), i32> {
        self.set_number(SOL_SOCKET, SO_SNDBUF, bytes)
    }

    #[inline(always)]
    fn set_initial_window(&self, segments: u32) -> Result<(), i32> {
        self.set_number(SOL_TCP, TCP_BPF_IW, segments)
    }

    /// Bounds the rate, and has the flow paced. With [`PACED`] it is paced without a bound:
    /// any turns pacing on, which stays when it is lifted (`sk_setsockopt()`).
    #[inline(always)]
    fn set_max_pacing_rate(&self, bytes_per_second: u32) -> Result<(), i32> {
        if bytes_per_second == PACED {
            self.set_number(SOL_SOCKET, SO_MAX_PACING_RATE, PACED - 1)?;
            return self.lift_max_pacing_rate();
        }
        self.set_number(SOL_SOCKET, SO_MAX_PACING_RATE, bytes_per_second)
    }

    #[inline(always)]
    fn lift_max_pacing_rate(&self) -> Result<(), i32> {
        self.set_number(SOL_SOCKET, SO_MAX_PACING_RATE, u32::MAX)
    }

    /// Returns the most bytes per second at which it sends; `u64::MAX` for no bound.
    #[inline(always)]
    fn max_pacing_rate(&self) -> u64 {
        match Visited::of(self.sk()) {
            Some(socket) => socket.most_pacing_rate(),
            None => u64::MAX,
        }
    }

    /// Bounds how long an acknowledgement waits for company or for data to go with.
    #[inline(always)]
    fn set_delayed_acks(&self, delayed: bool) -> Result<(), i32> {
        let set = |delay_us| self.set_number(SOL_TCP, TCP_BPF_DELACK_MAX, delay_us);
        if delayed {
            return set(USUAL_ACK_DELAY_US);
        }
        let [at_1000, at_300, at_100] = LEAST_ACK_DELAYS_US;
        set(at_1000).or_else(|_| set(at_300)).or_else(|_| set(at_100))
    }

    /// Sets the upper six bits, which are the DSCP; the kernel keeps ECN's two to itself
    /// (`__ip_sock_set_tos()`). An IPv4 flow of an IPv6 socket takes IP_TOS, which
    /// BPF may not set there (`sol_ip_sockopt()`).
    #[inline(always)]
    fn set_traffic_class(&self, class: u32) -> Result<(), i32> {
        if self.is_of_v4() {
            // The kernel sets this one with it, but not for IPv6: it stays the application's.
            let priority = self.number(SOL_SOCKET, SO_PRIORITY);
            let set = self.set_number(SOL_IP, IP_TOS, class);
            // What was there fits, and fails only with the socket.
            let _ = self.set_number(SOL_SOCKET, SO_PRIORITY, priority);
            set
        } else if self.ends().is_v4() {
            Err(-EAFNOSUPPORT)
        } else {
            self.set_number(SOL_IPV6, IPV6_TCLASS, class)
        }
    }

    /// Returns the upper six bits of the traffic class; 0 where BPF may not read it.
    #[inline(always)]
    fn traffic_class(&self) -> u32 {
        let class = if self.is_of_v4() {
            self.number(SOL_IP, IP_TOS)
        } else if self.ends().is_v4() {
            0
        } else {
            self.number(SOL_IPV6, IPV6_TCLASS)
        };
        class & DSCP_MASK
    }

    /// Takes them from where the kernel has them: to ask for an option costs a new flow
    /// twenty times as much, and before Linux 6.0 the kernel does not say.
    #[inline(always)]
    fn read_buffers(&self, settings: &mut Settings) {
        if let Some(socket) = Visited::of(self.sk()) {
            [settings.sndbuf_bytes, settings.rcvbuf_bytes] = socket.buffers_bytes();
        }
    }

    #[inline(always)]
    fn read_control(&self, settings: &mut Settings) {
        settings.cwnd_segments = self.state().cwnd_segments;
        self.read_congestion(&mut settings.congestion);
    }

    #[inline(always)]
    fn read_congestion(&self, name: &mut [u8; CONGESTION_BYTES]) {
        if let Some(socket) = Visited::of(self.sk()) {
            *name = socket.congestion();
        }
    }

    /// Fills in what an event says of the socket itself.
    #[inline(always)]
    fn describe(&self, event: &mut Event) {
        let ends = self.ends();
        let state = self.state();
        let counts = self.counts().since(&event.flow.earlier);
        event.cookie = self.cookie();
        event.bytes_acked = counts.bytes_acked;
        event.bytes_received = counts.bytes_received;
        // SAFETY: the same 16 bytes in the same order.
        event.remote = unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(ends.remote) };
        // SAFETY: as above.
        event.local = unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(ends.local) };
        event.remote_port = ends.remote_port;
        event.local_port = ends.local_port;
        event.data_segs_out = counts.data_segs_out;
        event.segs_retrans = counts.segs_retrans;
        event.srtt_us = state.srtt_us;
        event.min_rtt_us = state.min_rtt_us;
        event.cwnd_segments = state.cwnd_segments;
        event.ssthresh_segments = state.ssthresh_segments;
        event.mss_bytes = state.mss_bytes;
        event.delivered_segments = state.delivered_segments;
        event.delivered_in_us = state.delivered_in_us;
        self.describe_visited(event);
        event.reserved = 0;
    }

    #[inline(always)]
    fn set_number(&self, level: i32, option: i32, mut value: u32) -> Result<(), i32> {
        self.set(level, option, (&raw mut value).cast(), size_of::<u32>() as i32)
    }

    #[inline(always)]
    fn set(&self, level: i32, option: i32, value: *mut c_void, bytes: i32) -> Result<(), i32> {
        // SAFETY: as all callers have it.
        match unsafe { self.set_option(level, option, value, bytes) } {
            0 => Ok(()),
            error => Err(error as i32),
        }
    }

    #[inline(always)]
    fn number(&self, level: i32, option: i32) -> u32 {
        let mut value = 0_u32;
        let bytes = size_of::<u32>() as i32;
        // SAFETY: `value` has the length given. On failure it stays zero.
        unsafe { self.get_option(level, option, (&raw mut value).cast(), bytes) };
        value
    }
}
