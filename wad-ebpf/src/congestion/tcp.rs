//! The kernel's `tcp_sock`, as far as a congestion control reads and writes it.

use core::ffi::c_void;

use wad_common::{
    flow::{Flow, option::SNDBUF},
    law::{Window, loss_based::Delivery, stall::Signs},
    policy::CONGESTION_BYTES,
    tcp_sock::TcpSockOffsets,
};
use wad_ebpf::{behind::Behind, maps};

use crate::context::Context;

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static TCP_SOCK: TcpSockOffsets = TcpSockOffsets {
    snd_cwnd: u32::MAX,
    snd_ssthresh: 0,
    snd_cwnd_clamp: 0,
    snd_cwnd_cnt: 0,
    prior_cwnd: 0,
    max_packets_out: 0,
    is_cwnd_limited: 0,
    is_cwnd_limited_mask: 0,
    srtt_us: 0,
    mss_cache: 0,
    delivered: 0,
    delivered_ce: 0,
    packets_out: 0,
    sacked_out: 0,
    lost_out: 0,
    retrans_out: 0,
    rate_delivered: 0,
    rate_interval_us: 0,
    total_retrans: 0,
    rack_rtt: 0,
    tcp_mstamp: 0,
    icsk_ca_state: 0,
    icsk_ca_priv: 0,
    sk_pacing_rate: 0,
    sk_max_pacing_rate: 0,
    sk_pacing_status: 0,
    sk_sndbuf: 0,
    userlocks: 0,
    userlocks_shift: 0,
    net: 0,
    net_tcp_wmem: 0,
    congestion: 0,
    congestion_name: 0,
    cookie: 0,
};

/// `enum sk_pacing` (include/net/sock.h): none, or TCP itself is to pace, with a
/// timer. Beyond that, a queueing discipline does (`fq`).
const SK_PACING_NONE: u32 = 0;
const SK_PACING_NEEDED: u32 = 1;

/// `icsk_ca_state` has five bits of its byte.
const CA_STATE_MASK: u8 = 0x1f;
// `enum tcp_ca_state` (include/uapi/linux/tcp.h).
pub const TCP_CA_CWR: u8 = 2;
pub const TCP_CA_RECOVERY: u8 = 3;
pub const TCP_CA_LOSS: u8 = 4;

/// A socket whose lock is held, as in all callbacks used here.
#[derive(Clone, Copy)]
pub struct Tcp(*mut u8);

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const TCP_SOCK.$field).read_volatile() }
    };
}

/// Reads of one field each, in the kernel's unit.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $field:ident as $kind:ty;)*) => {
        $($(#[$doc])* #[inline(always)]
        pub fn $name(self) -> $kind {
            self.read(offset!($field))
        })*
    };
}

impl Tcp {
    #[inline(always)]
    pub fn of(ctx: Context) -> Self {
        Self(ctx.argument(0) as *mut u8)
    }

    #[inline(always)]
    pub fn socket(self) -> *mut c_void {
        self.0.cast()
    }

    /// Returns the state of its flow, if it is one of a path's.
    #[inline(always)]
    pub fn flow(self) -> Option<&'static mut Flow> {
        maps::flow(self.read(offset!(cookie)))
    }

    fields! {
        cwnd_segments: snd_cwnd as u32;
        ssthresh_segments: snd_ssthresh as u32;
        prior_cwnd_segments: prior_cwnd as u32;
        /// A number that goes back to zero with each decrease (`tcp_init_cwnd_reduction()`,
        /// `tcp_enter_loss()`); laws count in it as they like.
        cwnd_count: snd_cwnd_cnt as u32;
        mss_bytes: mss_cache as u32;
        /// The send buffer as the kernel keeps it.
        sndbuf_bytes: sk_sndbuf as u32;
        delivered_segments: delivered as u32;
        delivered_ce_segments: delivered_ce as u32;
        sacked_segments: sacked_out as u32;
        lost_segments: lost_out as u32;
        /// Segments sent from the first that is not acknowledged on.
        packets_out_segments: packets_out as u32;
        retransmitted_segments: total_retrans as u32;
        /// The latest sample of the RTT: 0 before the first, and of what was sent again
        /// not more than it took.
        latest_rtt_us: rack_rtt as u32;
        /// The latest packet came or went then.
        now_us: tcp_mstamp as u64;
    }

    /// Whether somebody has set the size of the send buffer: the kernel sizes it no more.
    #[inline(always)]
    pub fn sndbuf_is_locked(self) -> bool {
        let locks: u8 = self.read(offset!(userlocks));
        u32::from(locks) >> (offset!(userlocks_shift) & 7) & SNDBUF != 0
    }

    /// Up to where the kernel sizes send buffers by itself, in this network namespace.
    #[inline(always)]
    pub fn autotuned_sndbuf_bytes(self) -> u32 {
        Behind::pointer(self.at(offset!(net))).read(offset!(net_tcp_wmem))
    }

    /// Whether this is the name of the socket's algorithm. One that another build has
    /// registered has the name, too.
    #[inline(always)]
    pub fn has_law(self, name: &[u8; CONGESTION_BYTES]) -> bool {
        let algorithm = Behind::pointer(self.at(offset!(congestion)));
        let has: [u64; 2] = algorithm.read(offset!(congestion_name));
        // SAFETY: the same 16 bytes in the same order.
        let wanted: [u64; 2] = unsafe { core::mem::transmute(*name) };
        has == wanted
    }

    /// Segments on their way, as `tcp_packets_in_flight()`.
    #[inline(always)]
    pub fn in_flight_segments(self) -> u32 {
        let retransmitted: u32 = self.read(offset!(retrans_out));
        let left = self.sacked_segments() + self.lost_segments();
        (self.packets_out_segments() + retransmitted).saturating_sub(left)
    }

    /// Whether the kernel has reduced the threshold and the window is to follow
    /// (`tcp_in_cwnd_reduction()`).
    #[inline(always)]
    pub fn is_reducing(self) -> bool {
        self.is_in(1 << TCP_CA_CWR | 1 << TCP_CA_RECOVERY)
    }

    /// Whether it does so for a full queue of this host or for a mark. In `set_state`
    /// this is the state that ends.
    #[inline(always)]
    pub fn is_in_cwr(self) -> bool {
        self.is_in(1 << TCP_CA_CWR)
    }

    #[inline(always)]
    fn is_in(self, states: u32) -> bool {
        let state: u8 = self.read(offset!(icsk_ca_state));
        1 << (state & CA_STATE_MASK) & states != 0
    }

    /// Smoothed RTT.
    #[inline(always)]
    pub fn srtt_us(self) -> u32 {
        self.read::<u32>(offset!(srtt_us)) >> 3
    }

    /// The latest sample of the delivery rate.
    #[inline(always)]
    pub fn delivery(self) -> Delivery {
        Delivery {
            segments: self.read(offset!(rate_delivered)),
            interval_us: self.read(offset!(rate_interval_us)),
        }
    }

    /// Returns what tells congestion from a full queue of this host.
    #[inline(always)]
    pub fn signs(self) -> Signs {
        Signs {
            lost_segments: self.lost_segments(),
            sacked_segments: self.sacked_segments(),
            delivered_ce_segments: self.delivered_ce_segments(),
        }
    }

    /// Whether the window held the flow back when last it was full.
    #[inline(always)]
    pub fn is_cwnd_limited(self) -> bool {
        let flags: u8 = self.read(offset!(is_cwnd_limited));
        u32::from(flags) & offset!(is_cwnd_limited_mask) != 0
    }

    /// The window that the flow's use of it entitles it to: any, if it was held
    /// back when last its window was full; in slow start, twice what was out;
    /// else none. As `tcp_is_cwnd_limited()`, but for an ACK of many segments,
    /// which takes the kernel's own algorithms past the double.
    #[inline(always)]
    pub fn entitled_segments(self) -> u32 {
        if self.is_cwnd_limited() { u32::MAX } else { self.entitled_by_flight_segments() }
    }

    /// Returns that window where something else than the window held the flow back.
    #[inline(always)]
    pub fn entitled_by_flight_segments(self) -> u32 {
        if self.cwnd_segments() < self.ssthresh_segments() {
            self.read::<u32>(offset!(max_packets_out)).saturating_mul(2)
        } else {
            0
        }
    }

    #[inline(always)]
    pub fn window(self, credit_q16: u64) -> Window {
        Window {
            cwnd_segments: self.cwnd_segments(),
            ssthresh_segments: self.ssthresh_segments(),
            clamp_segments: self.read(offset!(snd_cwnd_clamp)),
            max_ssthresh_segments: u32::MAX,
            credit_q16,
        }
    }

    #[inline(always)]
    pub fn set_cwnd_segments(self, segments: u32) {
        self.write(offset!(snd_cwnd), segments);
    }

    #[inline(always)]
    pub fn set_cwnd_count(self, count: u32) {
        self.write(offset!(snd_cwnd_cnt), count);
    }

    #[inline(always)]
    pub fn set_ssthresh_segments(self, segments: u32) {
        self.write(offset!(snd_ssthresh), segments);
    }

    /// Stores of a window what a law has made another of.
    #[inline(always)]
    pub fn change_window(self, before: Window, after: Window) {
        if after.cwnd_segments != before.cwnd_segments {
            self.set_cwnd_segments(after.cwnd_segments);
        }
        if after.ssthresh_segments != before.ssthresh_segments {
            self.set_ssthresh_segments(after.ssthresh_segments);
        }
    }

    /// Paces the flow from now on, at the rate that the kernel, or a law with
    /// `cong_control`, sets on each ACK.
    #[inline(always)]
    pub fn pace(self) {
        self.change_pacing(SK_PACING_NONE, SK_PACING_NEEDED);
    }

    /// Lets the flow send what the window allows, at once, from now on, unless the
    /// application has set a bound of the rate, which is one that is not `ours`.
    #[inline(always)]
    pub fn stop_pacing(self, ours: u32) {
        let most: u64 = self.read(offset!(sk_max_pacing_rate));
        if most == u64::MAX || most == ours.into() {
            self.change_pacing(SK_PACING_NEEDED, SK_PACING_NONE);
        }
    }

    /// Whether somebody paces the flow: TCP itself or a queueing discipline.
    #[inline(always)]
    pub fn is_paced(self) -> bool {
        self.read::<u32>(offset!(sk_pacing_status)) != SK_PACING_NONE
    }

    #[inline(always)]
    fn change_pacing(self, from: u32, to: u32) {
        if self.read::<u32>(offset!(sk_pacing_status)) == from {
            self.write(offset!(sk_pacing_status), to);
        }
    }

    /// Sets the rate, within the bound that the application or the path's policy has
    /// set.
    #[inline(always)]
    pub fn set_pacing_bytes_per_second(self, rate: u64) {
        let most: u64 = self.read(offset!(sk_max_pacing_rate));
        self.write(offset!(sk_pacing_rate), rate.min(most));
    }

    /// Sets the rate where it is higher.
    #[inline(always)]
    pub fn lower_pacing_bytes_per_second(self, rate: u64) {
        let has: u64 = self.read(offset!(sk_pacing_rate));
        if rate < has {
            self.write(offset!(sk_pacing_rate), rate);
        }
    }

    /// One of the 13 words of `icsk_ca_priv`, which the kernel zeroes before
    /// `init`.
    #[inline(always)]
    pub fn private<T: Copy>(self, place: u32) -> T {
        self.read(offset!(icsk_ca_priv) + place)
    }

    #[inline(always)]
    pub fn set_private<T: Copy>(self, place: u32, value: T) {
        self.write(offset!(icsk_ca_priv) + place, value);
    }

    #[inline(always)]
    fn read<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks the load against the kernel's BTF.
        unsafe { self.at(offset).cast::<T>().read_volatile() }
    }

    #[inline(always)]
    fn at(self, offset: u32) -> *const u8 {
        self.0.wrapping_add(offset as usize)
    }

    #[inline(always)]
    fn write<T: Copy>(self, offset: u32, value: T) {
        // SAFETY: the verifier allows stores to a congestion control's own
        // fields only (`bpf_tcp_ca_btf_struct_access()`).
        unsafe { self.0.add(offset as usize).cast::<T>().write_volatile(value) };
    }
}
