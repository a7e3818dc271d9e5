//! Careful Resume (RFC 9959) of a flow under a law that answers to losses: its window jumps
//! to half of what is known of its path, once the first one has come back whole.

use core::mem::offset_of;

use wad_common::{
    flow::Flow,
    law::{
        hystart::HyStart,
        loss_based::LossBased,
        resume::{Ack, Known, NEVER, Phase, Resume, Step, Window},
    },
    saved::Use,
};
use wad_ebpf::counts::{self, Shared};

use crate::{
    parameters::{HANDSHAKE_SEGMENTS, LOSS_BASED, LOSS_BASED_END, Parameters},
    tcp::Tcp,
};

const RESUME: u32 = LOSS_BASED + offset_of!(LossBased, resume) as u32;

/// Takes note of what is known to a flow that begins.
#[inline(always)]
pub fn begin(tcp: Tcp) {
    let Some(flow) = tcp.flow().filter(|flow| flow.is_tuned()) else {
        return;
    };
    if flow.resuming.has != Use::Has as u32 || tcp.delivered_segments() > HANDSHAKE_SEGMENTS {
        return;
    }
    let (known, most_segments) = known_to(flow, tcp);
    let cwnd_segments = tcp.cwnd_segments();
    let end_segments = tcp.delivered_segments().wrapping_add(cwnd_segments);
    tcp.set_private(RESUME, Resume::begin(known, most_segments, cwnd_segments, end_segments));
}

/// Begins anew with the first ACK after a pause, for which the kernel took the window back: by
/// what is known to the flow, or by what it had shown of the path if that is more.
#[inline(always)]
pub fn begin_again(tcp: Tcp, shown_segments: u32) {
    let Some(flow) = tcp.flow().filter(|flow| flow.is_tuned()) else {
        return;
    };
    let (mut known, mut most_segments) = known_to(flow, tcp);
    if known.saved_cwnd_segments < shown_segments {
        known = Known {
            saved_cwnd_segments: shown_segments,
            saved_rtt_us: tcp.srtt_us(),
            until_s: NEVER,
        };
        most_segments = shown_segments;
    }
    if let Some(stats) = counts::stats(flow.policy) {
        flow.resuming.admitted = Shared::new(&mut stats.admitted).load() as u32;
    }
    let end_segments = tcp.delivered_segments().wrapping_add(tcp.in_flight_segments());
    let resume = Resume::begin(known, most_segments, tcp.cwnd_segments(), end_segments);
    tcp.set_private(RESUME, resume);
}

/// Returns what a flow was given to know of its path, which others may have deleted since; and how
/// far it may jump: what others send there now is theirs.
#[inline(always)]
fn known_to(flow: &Flow, tcp: Tcp) -> (Known, u32) {
    let known = flow.resuming.known(tcp.mss_bytes());
    (known, known.saved_cwnd_segments / counts::senders(flow.policy))
}

/// Does what an ACK asks for; whether the window is settled with that.
#[inline(always)]
pub fn on_ack(tcp: Tcp, parameters: Parameters) -> bool {
    if tcp.private::<u8>(RESUME) == 0 {
        return false;
    }
    let Some(flow) = tcp.flow() else { return false };
    let Some(stats) = counts::stats(flow.policy) else { return false };
    let admitted = Shared::new(&mut stats.admitted).load();
    let mut resume: Resume = tcp.private(RESUME);
    let before = resume.phase();
    let step = resume.on_ack(&Ack {
        now_us: tcp.now_us(),
        latest_rtt_us: tcp.latest_rtt_us(),
        srtt_us: tcp.srtt_us(),
        delivered_segments: tcp.delivered_segments(),
        retransmitted_segments: tcp.retransmitted_segments(),
        in_flight_segments: tcp.in_flight_segments(),
        cwnd_segments: tcp.cwnd_segments(),
        ssthresh_segments: tcp.ssthresh_segments(),
        is_cwnd_limited: tcp.is_cwnd_limited(),
        // Those that have come meanwhile were not there when it was said how far it may jump. To ask
        // for the phase first would have the verifier follow all that comes after it twice.
        sharing_flows: flow.resuming.sharing_flows(admitted),
    });
    tcp.set_private(RESUME, resume);
    if resume.phase() != before {
        note(tcp, resume.phase());
    }
    match step {
        Step::Normal => false,
        Step::Hold => true,
        Step::Jump(window) => {
            if HyStart::is_for(tcp.ssthresh_segments()) {
                tcp.set_private(LOSS_BASED_END, HyStart::RESUMED);
            }
            set(tcp, parameters, window);
            tcp.pace();
            true
        }
        Step::Settle(window) => {
            set(tcp, parameters, window);
            true
        }
    }
}

#[inline(always)]
fn set(tcp: Tcp, parameters: Parameters, window: Window) {
    let clamp_segments = parameters.bounded_window(0).clamp_segments;
    tcp.set_cwnd_segments(window.cwnd_segments.min(clamp_segments));
    tcp.set_ssthresh_segments(window.ssthresh_segments);
}

/// Counts a jump that the flow made use of, or that was too far, as its phase begins. And tells the
/// tuner how it ended, where the flow knew of the path from others: what it has found out itself is
/// its own.
#[inline(never)]
pub fn note(tcp: Tcp, phase: Phase) {
    let Some(flow) = tcp.flow() else { return };
    let Some(stats) = counts::stats(flow.policy) else { return };
    let ending = match phase {
        Phase::Validating => return Shared::new(&mut stats.jumps).add(1),
        Phase::Confirming => Use::Jumped,
        Phase::SafeRetreat => {
            Shared::new(&mut stats.retreats).add(1);
            Use::Failed
        }
        _ => return,
    };
    let has = flow.resuming.has;
    if has == Use::Has as u32 || has == Use::Jumped as u32 {
        flow.resuming.has = ending as u32;
    }
}

/// The flow has met congestion: what it was told of the path is not so now.
#[inline(never)]
pub fn disprove(tcp: Tcp) {
    if let Some(flow) = tcp.flow() {
        flow.resuming.bytes = 0;
    }
}
