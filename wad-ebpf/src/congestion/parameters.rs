//! A flow keeps this of its policy in `icsk_ca_priv`: read again when the policy set
//! has changed, so that a change holds from the flow's next ACK on.

use core::hint::black_box;

use wad_common::{
    control::{
        Control, IGNORE_LOCAL_STALLS, IIAD, KEEP_WHEN_IDLE, LONG_PATH_US, Pacing,
        RESPOND_AS_STANDARD, RESUME_WHEN_IDLE,
    },
    division::{part_of_rate, part_of_window},
    flow::option::CONGESTION,
    law::{
        Aimd, INFINITE_SSTHRESH, ShownPhase, Window, cubic, loss_based::Course,
        pacing::burst_segments, phase, skipped,
    },
    policy::{self, GROWS_SNDBUF, Policy},
};
use wad_ebpf::{counts, policies};

use crate::{sndbuf, tcp::Tcp};

// Places in `icsk_ca_priv`.
const AIMD: u32 = 0;
/// The policy was taken for this: see [`taken_for`].
const TAKEN_FOR: u32 = 8;
const MOST_SNDBUF: u32 = 12;
const MAX_SSTHRESH: u32 = 16;
const MAX_CWND: u32 = 20;
/// The flags have eight bits.
const FLAGS: u32 = 24;
/// The burst has eight bits; the phase is behind it.
const BURST: u32 = 25;
const _: () = assert!(phase::PLACE == BURST + 1);
const _: () = assert!(phase::MAX_RTT_PLACE == 28);
const DEDICATED_RATE: u32 = 32;
/// It has that place, which only a path of one's own has a rate in.
const STANDING_QUEUE: u32 = DEDICATED_RATE;
/// It has that place where a law is to respond as the standard one.
const STANDARD_CREDIT_Q16: u32 = DEDICATED_RATE;

/// All that the path has is divided among its flows: a flag beside [`Control::flags`].
const DIVIDES: u32 = 1 << 7;
/// The policy says what the path carries: a flag beside [`Control::flags`], too.
pub const KNOWS_PATH: u32 = 1 << 6;
const _: () = {
    let flags =
        IGNORE_LOCAL_STALLS | KEEP_WHEN_IDLE | RESPOND_AS_STANDARD | IIAD | RESUME_WHEN_IDLE;
    assert!(flags >> KNOWS_PATH.ilog2() == 0);
};

/// From here on it is the law's own, 64 bytes.
pub const LAW_STATE: u32 = 40;
/// Laws that answer to losses have no rate there, and begin with what may be zeroed when the path
/// is not tuned any more: the window to give back after idle time, which is of no use then.
pub const LOSS_BASED: u32 = DEDICATED_RATE;
/// Behind what they have in common, 16 bytes are left.
pub const LOSS_BASED_END: u32 = LOSS_BASED + 56;

/// Segments that the handshake may deliver: the SYN, and data with it.
pub const HANDSHAKE_SEGMENTS: u32 = 2;

/// A flow's parameters.
#[derive(Clone, Copy)]
pub struct Parameters(Tcp);

impl Parameters {
    /// Takes the policy at `init`, and sets what only a flow's start sets.
    #[inline(always)]
    pub fn start(tcp: Tcp) -> Self {
        let control = take_policy(tcp, policies::generation());
        // A flow that runs already keeps what it has found out.
        if tcp.delivered_segments() <= HANDSHAKE_SEGMENTS {
            // Whatever an earlier flow left in the kernel's cache of destinations
            // (`tcp_init_metrics()`).
            let ssthresh_segments = control.initial_ssthresh.in_segments(tcp.mss_bytes());
            tcp.set_ssthresh_segments(match ssthresh_segments {
                0 => INFINITE_SSTHRESH,
                segments => segments,
            });
        }
        Self(tcp)
    }

    /// Returns those in force at an ACK, which the flow's send buffer follows, too.
    #[inline(always)]
    pub fn at_ack(tcp: Tcp) -> Self {
        let parameters = Self::of(tcp);
        replace_garbage_window(tcp);
        note_rtt(tcp);
        let divides = parameters.has(DIVIDES);
        if divides {
            divide(tcp);
        }
        if divides || tcp.sndbuf_bytes() < tcp.private(MOST_SNDBUF) {
            sndbuf::follow(tcp, divides);
        }
        parameters
    }

    /// Returns those in force now.
    #[inline(always)]
    pub fn of(tcp: Tcp) -> Self {
        let generation = policies::generation();
        if taken_for(tcp, generation) != tcp.private::<u32>(TAKEN_FOR) {
            take_policy(tcp, generation);
        }
        Self(tcp)
    }

    /// Returns those of the flow's latest ACK.
    #[inline(always)]
    pub fn as_kept(tcp: Tcp) -> Self {
        Self(tcp)
    }

    #[inline(always)]
    pub fn tcp(self) -> Tcp {
        self.0
    }

    /// As so many flows one of `wad_cubic` behaves.
    #[inline(always)]
    pub fn flows(self) -> u32 {
        cubic::flows(self.aimd())
    }

    #[inline(always)]
    pub fn aimd(self) -> Aimd {
        let both: u64 = self.0.private(AIMD);
        Aimd { increase_q16: both as u32, keep_q16: (both >> 32) as u32 }
    }

    /// The flow's window, within the path's bounds.
    #[inline(always)]
    pub fn bounded_window(self, credit_q16: u64) -> Window {
        let mut window = self.0.window(credit_q16);
        window.clamp_segments = window.clamp_segments.min(self.max_cwnd_segments());
        // `u32::MAX` for none.
        window.max_ssthresh_segments = self.0.private(MAX_SSTHRESH);
        window
    }

    /// `u32::MAX` for none.
    #[inline(always)]
    pub fn max_cwnd_segments(self) -> u32 {
        self.0.private(MAX_CWND)
    }

    #[inline(always)]
    pub fn has(self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    #[inline(always)]
    fn flags(self) -> u32 {
        self.0.private::<u8>(FLAGS).into()
    }

    /// Whether the law's own response is not wanted any more.
    #[inline(always)]
    pub fn is_standard(self) -> bool {
        self.has(RESPOND_AS_STANDARD)
    }

    /// Returns what a law of the window alone says of it, or the standard one in its
    /// place.
    #[inline(always)]
    pub fn unless_standard(self, response: impl Fn(u32) -> Aimd, cwnd_segments: u32) -> Aimd {
        if self.is_standard() { Aimd::STANDARD } else { response(cwnd_segments) }
    }

    /// Returns growth earned but not yet granted, where [`Self::is_standard`].
    #[inline(always)]
    pub fn standard_credit_q16(self) -> u64 {
        self.0.private(STANDARD_CREDIT_Q16)
    }

    #[inline(always)]
    pub fn set_standard_credit_q16(self, credit_q16: u64) {
        self.0.set_private(STANDARD_CREDIT_Q16, credit_q16);
    }

    /// 0 for the law's own choice.
    #[inline(always)]
    pub fn standing_queue_segments(self) -> u32 {
        self.0.private(STANDING_QUEUE)
    }

    #[inline(always)]
    pub fn dedicated_bytes_per_second(self) -> u64 {
        self.0.private(DEDICATED_RATE)
    }

    /// Returns the burst that the flow's path takes for nothing; 0 where its rate is not
    /// known.
    #[inline(always)]
    pub fn burst_segments(self) -> u8 {
        self.0.private(BURST)
    }

    /// Returns where a law that answers to losses is with the flow.
    #[inline(always)]
    pub fn course(self) -> Course {
        self.0.private(phase::PLACE)
    }

    #[inline(always)]
    pub fn set_course(self, course: Course) {
        self.0.set_private(phase::PLACE, course);
    }

    /// Shows where any other law is with the flow.
    #[inline(always)]
    pub fn show(self, phase: ShownPhase) {
        self.0.set_private(phase::PLACE, phase as u8);
    }
}

/// Reads the flow's parameters from its policy. A flow that has its law from elsewhere is
/// a standard one: an application chose it, or the socket had it of a path whose flow is
/// over. One whose path is gone keeps what it had.
#[inline(always)]
fn take_policy(tcp: Tcp, generation: u64) -> Control {
    let mut flow = tcp.flow().filter(|flow| flow.is_tuned());
    let policy = flow.as_ref().and_then(|flow| policies::policy(generation, flow.policy));
    let is_gone = flow.is_some() && policy.is_none();
    let is_new = tcp.private::<u64>(AIMD) == 0;
    let given = u32::from(flow.as_ref().map_or(0, |flow| flow.given));
    let control = match policy {
        Some(policy) if given & CONGESTION != 0 && tcp.has_law(&policy.congestion) => {
            policy.control
        }
        _ => Control::AS_STANDARD,
    };
    if !is_gone || is_new {
        let Aimd { increase_q16, keep_q16 } = control.aimd;
        let or_none = |segments: u32| if segments == 0 { u32::MAX } else { segments };
        tcp.set_private(AIMD, u64::from(keep_q16) << 32 | u64::from(increase_q16));
        tcp.set_private(MAX_SSTHRESH, or_none(control.max_ssthresh_segments));
        let divides = policy.is_some_and(|policy| policy.flags & policy::DIVIDES != 0);
        let mut flows = 0;
        if divides && let Some(flow) = flow.as_mut() {
            flows = counts::tuned_flows(flow.policy);
            flow.division.law_flows = flows;
        }
        let max_cwnd_segments = control.max_cwnd.in_segments(tcp.mss_bytes());
        tcp.set_private(MAX_CWND, or_none(part_of_window(max_cwnd_segments, flows)));
        let path_bytes = policy.map_or(0, |policy| policy.path_bytes);
        let flags = control.flags
            | if divides { DIVIDES } else { 0 }
            | if path_bytes > 0 { KNOWS_PATH } else { 0 };
        tcp.set_private(FLAGS, flags as u8);
        let burst_segments = burst_segments(path_bytes, tcp.srtt_us(), tcp.mss_bytes());
        tcp.set_private(BURST, burst_segments);
        let most_bytes = policy.map_or(0, |policy| most_sndbuf_bytes(tcp, policy));
        tcp.set_private(MOST_SNDBUF, most_bytes);
        let rate = part_of_rate(control.dedicated_bytes_per_second, flows);
        // Without a branch, or the verifier would follow both ways through all that comes after it.
        let is_for_it = rate != 0 || control.flags & RESPOND_AS_STANDARD != 0;
        let mask = black_box(u64::from(is_for_it).wrapping_neg());
        let before: u64 = tcp.private(DEDICATED_RATE);
        tcp.set_private(DEDICATED_RATE, rate & mask | before & !mask);
        if control.standing_queue_segments != 0 {
            tcp.set_private(STANDING_QUEUE, control.standing_queue_segments);
        }
        // As what the path asked for before is taken back only after this.
        let our_bound = flow.map_or(0, |flow| flow.max_pacing_bytes_per_second());
        follow_pacing(tcp, control.pacing, our_bound);
    }
    let taken_for = taken_for(tcp, generation);
    // A flow accepted with the data of its SYN has no RTT yet: once more when it has.
    tcp.set_private(TAKEN_FOR, if tcp.srtt_us() == 0 { !taken_for } else { taken_for });
    control
}

/// Returns one number for all that a policy is taken anew for: its generation, and the MSS, in
/// which windows are that a policy has in bytes.
#[inline(always)]
fn taken_for(tcp: Tcp, generation: u64) -> u32 {
    generation as u32 ^ tcp.mss_bytes() << 16
}

/// Replaces a window that is garbage, since the kernel skipped a program.
#[inline(always)]
fn replace_garbage_window(tcp: Tcp) {
    let cwnd_segments = tcp.cwnd_segments();
    let window_segments = skipped::window_segments(cwnd_segments, tcp.prior_cwnd_segments());
    if window_segments != cwnd_segments {
        tcp.set_cwnd_segments(window_segments);
    }
}

/// Keeps the greatest RTT for readers.
#[inline(always)]
fn note_rtt(tcp: Tcp) {
    let rtt_us = tcp.latest_rtt_us();
    if rtt_us > tcp.private::<u32>(phase::MAX_RTT_PLACE) {
        tcp.set_private(phase::MAX_RTT_PLACE, rtt_us);
    }
}

/// Has the law take its part anew, where others have come or gone.
#[inline(always)]
fn divide(tcp: Tcp) {
    let Some(flow) = tcp.flow() else { return };
    if flow.is_tuned() && counts::tuned_flows(flow.policy) != flow.division.law_flows {
        take_policy(tcp, policies::generation());
    }
}

/// Returns what the send buffer may grow to, as the kernel keeps it; 0 where it does not
/// grow, or the kernel gives as much by itself.
#[inline(always)]
fn most_sndbuf_bytes(tcp: Tcp, policy: &Policy) -> u32 {
    let most_bytes = policy.sndbuf_bytes.saturating_mul(2);
    if policy.flags & GROWS_SNDBUF == 0 || tcp.autotuned_sndbuf_bytes() >= most_bytes {
        return 0;
    }
    most_bytes
}

/// Paces as [`Pacing`] says; a law that has to be paced sees to it on each ACK.
#[inline(always)]
fn follow_pacing(tcp: Tcp, pacing: u32, our_bound: u32) {
    let is_paced = pacing == Pacing::On as u32
        || pacing == Pacing::LongPaths as u32 && tcp.srtt_us() >= LONG_PATH_US;
    if is_paced {
        tcp.pace();
    } else {
        tcp.stop_pacing(our_bound);
    }
}
