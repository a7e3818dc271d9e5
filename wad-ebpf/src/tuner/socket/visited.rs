//! A socket that an iterator visits, with its lock held: it runs already.
//!
//! There is no context that hands out its fields. They are read where the kernel
//! has them, through pointers whose types the verifier knows.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_STATE_CB_FLAG, BPF_TCP_CLOSE, BPF_TCP_CLOSE_WAIT, BPF_TCP_ESTABLISHED,
        BPF_TCP_LISTEN,
    },
    btf_maps::lpm_trie::Key,
    helpers::{
        bpf_getsockopt, bpf_setsockopt,
        generated::{bpf_get_socket_cookie, bpf_probe_read_kernel, bpf_skc_to_tcp_sock},
    },
};
use wad_common::{
    flow::Counts,
    instruments::Place,
    policy::{CONGESTION_BYTES, INTERFACE_BYTES},
    progress::Limits,
    signals::Change,
    sock::SockOffsets,
};
use wad_ebpf::{
    behind::Behind,
    maps::{CGROUP_SETS, INTERFACE_SETS},
    policies::{Ends, V4_MAPPED},
    uapi::{
        SO_RCVBUF, SOL_SOCKET, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, TCP_CONGESTION, TCP_WINDOW_CLAMP,
    },
};

use super::{AF_INET, Socket, State};

/// `TCP_DEFAULT_SCALING_RATIO` (include/net/tcp.h): half of a receive buffer is
/// payload, before it is known better, and always before Linux 6.6.
const DEFAULT_SCALING_RATIO: u32 = 1 << 7;

/// Levels of cgroups that are climbed at most; the kernel's own bound
/// (`cgroup.max.depth`) has no default.
const CGROUP_LEVELS: u32 = 64;

/// `icsk_ca_state` has five bits of its byte.
const CA_STATE_MASK: u8 = 0x1f;

/// The agent sets it before the programs are loaded, and freezes it. It is not all zeros: LLVM
/// makes one of constants that are alike, and there are others of zeros (a new `PathStats` is as
/// long).
#[unsafe(no_mangle)]
static SOCK: SockOffsets = SockOffsets {
    state: u32::MAX,
    family: 0,
    remote_v4: 0,
    local_v4: 0,
    remote_v6: 0,
    local_v6: 0,
    remote_port: 0,
    local_port: 0,
    net: 0,
    cgroup: 0,
    user: 0,
    mark: 0,
    route: 0,
    rmem_alloc: 0,
    wmem_queued: 0,
    sndbuf: 0,
    rcvbuf: 0,
    rcvq_space: 0,
    rcv_rtt: 0,
    out_of_order: 0,
    max_pacing_rate: 0,
    bytes_acked: 0,
    bytes_received: 0,
    data_segs_out: 0,
    packets_out: 0,
    total_retrans: 0,
    srtt_us: 0,
    rtt_min: 0,
    rate_delivered: 0,
    rate_interval_us: 0,
    app_limited: 0,
    chrono_type: 0,
    chrono_type_shift: 0,
    chrono_start: 0,
    chrono_stat: 0,
    snd_cwnd: 0,
    snd_ssthresh: 0,
    mss_cache: 0,
    ca_state: 0,
    retransmits: 0,
    snd_una: 0,
    delivered_ce: 0,
    rcv_nxt: 0,
    rcv_wup: 0,
    rcv_wnd: 0,
    scaling_ratio: 0,
    is_mptcp: 0,
    congestion: 0,
    net_inode: 0,
    net_congestion: 0,
    net_tcp_wmem: 0,
    net_tcp_rmem: 0,
    net_moderate_rcvbuf: 0,
    congestion_name: 0,
    cgroup_node: 0,
    node_id: 0,
    cgroup_parent: 0,
    state_cgroup: 0,
    route_device: 0,
    device_name: 0,
};

/// Number of the cgroup that the tuner is on: set as the above.
#[unsafe(no_mangle)]
static CGROUP: u64 = u64::MAX;

/// Whether a flow that runs can be given the callback at its end: set as the above.
#[unsafe(no_mangle)]
static HAS_FLAGS_OPTION: u8 = 0;

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const SOCK.$field).read_volatile() }
    };
}

/// A struct of the kernel, whose type the verifier knows.
#[derive(Clone, Copy)]
struct Kernel(*const u8);

impl Kernel {
    #[inline(always)]
    fn read<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks the load against the kernel's BTF; one
        // through a pointer that turns out to be bad yields zero.
        unsafe { self.0.add(offset as usize).cast::<T>().read_volatile() }
    }

    #[inline(always)]
    fn follow(self, offset: u32) -> Self {
        Self(self.read(offset))
    }
}

/// A full TCP socket that an iterator visits.
#[derive(Clone, Copy)]
pub struct Visited(*mut c_void);

impl Visited {
    /// `sk` is what the kernel gave to an iterator or a tracing program.
    #[inline(always)]
    pub fn of(sk: *mut c_void) -> Option<Self> {
        if sk.is_null() {
            return None;
        }
        // SAFETY: `sk` is a socket of the kernel, of whatever kind.
        let tcp = unsafe { bpf_skc_to_tcp_sock(sk) };
        if tcp.is_null() { None } else { Some(Self(tcp.cast())) }
    }

    /// Whether it can send still.
    #[inline(always)]
    pub fn can_send(&self) -> bool {
        let state = u32::from(self.read::<u8>(offset!(state)));
        state == BPF_TCP_ESTABLISHED || state == BPF_TCP_CLOSE_WAIT
    }

    /// Whether its connection is over: what is left is a socket that somebody holds, and
    /// may use for the next one.
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        let state = u32::from(self.read::<u8>(offset!(state)));
        state == BPF_TCP_CLOSE || state == BPF_TCP_LISTEN
    }

    /// Whether it is of the tuner's cgroup or of one below: no other is ours to
    /// touch.
    #[inline(always)]
    pub fn is_in_cgroup(&self) -> bool {
        // SAFETY: a valid static, volatile as above.
        let wanted = unsafe { (&raw const CGROUP).read_volatile() };
        let mut cgroup = self.kernel().follow(offset!(cgroup));
        for _ in 0..CGROUP_LEVELS {
            if cgroup.0.is_null() {
                return false;
            }
            let id: u64 = cgroup.follow(offset!(cgroup_node)).read(offset!(node_id));
            if id == wanted {
                return true;
            }
            let parent = cgroup.follow(offset!(cgroup_parent));
            if parent.0.is_null() {
                return false;
            }
            cgroup = parent.follow(offset!(state_cgroup));
        }
        false
    }

    /// Returns the number of its cgroup; 0 where the kernel does not say.
    #[inline(always)]
    pub fn cgroup(&self) -> u64 {
        self.own_cgroup().follow(offset!(cgroup_node)).read(offset!(node_id))
    }

    #[inline(always)]
    fn own_cgroup(&self) -> Behind {
        Behind::pointer(self.0.cast::<u8>().wrapping_add(offset!(cgroup) as usize))
    }

    /// Returns the user that it belongs to: who made it (`sock_alloc()`); from its
    /// listener's to that of who accepted it, when that happens (`sock_graft()`).
    #[inline(always)]
    pub fn user(&self) -> u32 {
        self.number_at(offset!(user))
    }

    /// Returns the mark of its packets (SO_MARK). An accepted one has that of its listener, or,
    /// with `net.ipv4.tcp_fwmark_accept` and none there, of the SYN (`inet_request_mark()`).
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        self.number_at(offset!(mark))
    }

    /// Whether it has a route at the moment. Some options of a socket take it away until the
    /// next packet leaves (`sk_dst_reset()`).
    #[inline(always)]
    pub fn has_route(&self) -> bool {
        !self.route().is_null()
    }

    #[inline(always)]
    fn route(&self) -> Behind {
        Behind::pointer(self.0.cast::<u8>().wrapping_add(offset!(route) as usize))
    }

    /// Returns the patterns of a policy set that the device fits which its route leaves by;
    /// none where it has no route. One that is made has its route before the SYN
    /// (`tcp_v4_connect()`), one that is accepted before it is established
    /// (`tcp_v4_syn_recv_sock()`).
    #[inline(always)]
    pub fn interfaces(&self, set: u32) -> u64 {
        let Some(known) = INTERFACE_SETS.get(set) else { return 0 };
        let device = self.route().follow(offset!(route_device));
        let name: [u8; INTERFACE_BYTES] = device.read(offset!(device_name));
        known.get(&Key::new(8 * INTERFACE_BYTES as u32, name)).copied().unwrap_or(0)
    }

    /// Returns the patterns of a policy set that its cgroup fits, or one around that. It is
    /// the cgroup of who made the socket, or its listener (`cgroup_sk_alloc()`,
    /// `cgroup_sk_clone()`).
    #[inline(always)]
    pub fn cgroups(&self, set: u32) -> u64 {
        let Some(known) = CGROUP_SETS.get(set) else { return 0 };
        let mut cgroup = self.own_cgroup();
        let mut patterns = 0;
        for _ in 0..CGROUP_LEVELS {
            if cgroup.is_null() {
                break;
            }
            let id: u64 = cgroup.follow(offset!(cgroup_node)).read(offset!(node_id));
            // SAFETY: a number, which is copied at once: whoever takes the cgroup out of
            // the map meanwhile may have another in its place, which is then as good.
            if let Some(bits) = unsafe { known.get(id) } {
                patterns |= *bits;
            }
            let parent = cgroup.follow(offset!(cgroup_parent));
            if parent.is_null() {
                break;
            }
            cgroup = parent.follow(offset!(state_cgroup));
        }
        patterns
    }

    /// Returns what is known of it when its state of congestion control becomes another.
    #[inline(always)]
    pub fn change(&self, to: u8, heeds_stalls: bool) -> Change {
        Change {
            from: self.read::<u8>(offset!(ca_state)) & CA_STATE_MASK,
            to,
            retransmits: self.read(offset!(retransmits)),
            unacknowledged: self.number_at(offset!(snd_una)),
            delivered_ce_segments: self.number_at(offset!(delivered_ce)),
            heeds_stalls,
        }
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

    /// Inode of its network namespace.
    #[inline(always)]
    pub fn netns(&self) -> u32 {
        self.kernel().follow(offset!(net)).read(offset!(net_inode))
    }

    /// The algorithm that it has.
    #[inline(always)]
    pub fn congestion(&self) -> [u8; CONGESTION_BYTES] {
        Self::name_of(self.kernel().follow(offset!(congestion)))
    }

    /// The algorithm that its network namespace gives to new connections.
    #[inline(always)]
    pub fn namespaces_congestion(&self) -> [u8; CONGESTION_BYTES] {
        Self::name_of(self.kernel().follow(offset!(net)).follow(offset!(net_congestion)))
    }

    #[inline(always)]
    fn name_of(algorithm: Kernel) -> [u8; CONGESTION_BYTES] {
        let half = |n: u32| algorithm.read::<u64>(offset!(congestion_name) + n).to_ne_bytes();
        let mut name = [0; CONGESTION_BYTES];
        let (first, second) = name.split_at_mut(8);
        first.copy_from_slice(&half(0));
        second.copy_from_slice(&half(8));
        name
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

    /// Returns what the other end may send still, having been told so
    /// (`tcp_receive_window()`).
    #[inline(always)]
    fn offered_bytes(&self) -> u32 {
        let end = self.number_at(offset!(rcv_wup)).wrapping_add(self.number_at(offset!(rcv_wnd)));
        let left = end.wrapping_sub(self.number_at(offset!(rcv_nxt)));
        if left as i32 > 0 { left } else { 0 }
    }

    /// Returns its buffers as the kernel keeps them, the one to send and the one to
    /// receive.
    #[inline(always)]
    pub fn buffers_bytes(&self) -> [u32; 2] {
        [self.number_at(offset!(sndbuf)), self.number_at(offset!(rcvbuf))]
    }

    /// Whether anything is on its way that it has sent.
    #[inline(always)]
    pub fn sends(&self) -> bool {
        self.number_at(offset!(packets_out)) != 0
    }

    /// Returns what data takes that lies in each of them.
    #[inline(always)]
    pub fn held_bytes(&self) -> [u32; 2] {
        [self.number_at(offset!(wmem_queued)), self.number_at(offset!(rmem_alloc))]
    }

    /// Returns up to where the kernel sizes each of them by itself, in its network
    /// namespace.
    #[inline(always)]
    pub fn autotuned_bytes(&self) -> [u32; 2] {
        let net = self.kernel().follow(offset!(net));
        let moderates = net.read::<u8>(offset!(net_moderate_rcvbuf)) != 0;
        let rcvbuf_bytes = if moderates { net.read(offset!(net_tcp_rmem)) } else { 0 };
        [net.read(offset!(net_tcp_wmem)), rcvbuf_bytes]
    }

    /// Returns what its application took in a round trip, at most so far.
    #[inline(always)]
    pub fn taken_bytes(&self) -> u32 {
        self.read(offset!(rcvq_space))
    }

    /// Returns the RTT as this end sees it by what it receives; 0 for none.
    #[inline(always)]
    pub fn receiving_rtt_us(&self) -> u32 {
        self.number_at(offset!(rcv_rtt)) >> 3
    }

    /// Whether data has arrived that lies behind a hole.
    #[inline(always)]
    pub fn has_hole(&self) -> bool {
        !self.kernel().follow(offset!(out_of_order)).0.is_null()
    }

    /// Returns the least receive buffer that holds what lies in it and what the other
    /// end was offered; or all of its buffer, where that is less.
    #[inline(always)]
    pub fn least_rcvbuf_bytes(&self) -> u32 {
        let held = u64::from(self.number_at(offset!(rmem_alloc)));
        let offered = u64::from(self.offered_bytes()) * 256 / u64::from(self.scaling_ratio());
        let has = self.number_at(offset!(rcvbuf));
        if held + offered < u64::from(has) { (held + offered) as u32 } else { has }
    }

    /// Payload in 256 bytes of its receive buffer.
    #[inline(always)]
    pub fn scaling_ratio(&self) -> u32 {
        match offset!(scaling_ratio) {
            0 => DEFAULT_SCALING_RATIO,
            offset => match self.read::<u8>(offset) {
                0 => DEFAULT_SCALING_RATIO,
                ratio => ratio.into(),
            },
        }
    }

    #[inline(always)]
    fn kernel(&self) -> Kernel {
        Kernel(self.0.cast())
    }

    #[inline(always)]
    fn read<T: Copy>(&self, offset: u32) -> T {
        self.kernel().read(offset)
    }

    #[inline(always)]
    fn number_at(&self, offset: u32) -> u32 {
        self.read(offset)
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
    fn is_of_v4(&self) -> bool {
        u32::from(self.read::<u16>(offset!(family))) == AF_INET
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
        Counts {
            bytes_acked: self.read(offset!(bytes_acked)),
            bytes_received: self.read(offset!(bytes_received)),
            data_segs_out: self.read(offset!(data_segs_out)),
            segs_retrans: self.read(offset!(total_retrans)),
        }
    }

    #[inline(always)]
    fn state(&self) -> State {
        State {
            srtt_us: self.number_at(offset!(srtt_us)) >> 3,
            min_rtt_us: self.read(offset!(rtt_min)),
            cwnd_segments: self.read(offset!(snd_cwnd)),
            ssthresh_segments: self.read(offset!(snd_ssthresh)),
            mss_bytes: self.read(offset!(mss_cache)),
            delivered_segments: self.read(offset!(rate_delivered)),
            delivered_in_us: self.read(offset!(rate_interval_us)),
        }
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
        // SAFETY: a valid static, volatile as above.
        if unsafe { (&raw const HAS_FLAGS_OPTION).read_volatile() } == 0 {
            return;
        }
        let flags = self.number(SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS) | BPF_SOCK_OPS_STATE_CB_FLAG;
        // Flags that the kernel gave it takes.
        let _ = self.set_number(SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, flags);
    }
}
