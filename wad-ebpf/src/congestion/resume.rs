//! Careful Resume (RFC 9959) of a flow under a law that answers to losses: its window jumps
//! to half of what is known of its path, once the first one has come back whole.

use core::mem::offset_of;

use wad_common::{
    law::{
        loss_based::LossBased,
        resume::{Ack, Known, Resume, Step, Window},
    },
    saved::Use,
};
use wad_ebpf::{counts, maps};

use crate::{
    parameters::{HANDSHAKE_SEGMENTS, LAW_STATE, Parameters},
    tcp::Tcp,
};

const RESUME: u32 = LAW_STATE + offset_of!(LossBased, resume) as u32;

/// Takes note of what is known to a flow that begins.
#[inline(always)]
pub fn begin(tcp: Tcp) {
    // SAFETY: the kernel gave this program the socket.
    let Some(flow) = (unsafe { maps::flow(tcp.socket()) }).filter(|flow| flow.is_tuned()) else {
        return;
    };
    if flow.resuming.has != Use::Has as u32 || tcp.delivered_segments() > HANDSHAKE_SEGMENTS {
        return;
    }
    let known = Known {
        saved_cwnd_segments: flow.resuming.cwnd_segments,
        saved_rtt_us: flow.resuming.rtt_us,
    };
    // What others send there now is theirs.
    let most_segments = known.saved_cwnd_segments / counts::senders(flow.policy);
    let (delivered, cwnd) = (tcp.delivered_segments(), tcp.cwnd_segments());
    tcp.set_private(RESUME, Resume::begin(known, most_segments, delivered, cwnd));
}

/// Does what an ACK asks for; whether the window is settled with that.
#[inline(always)]
pub fn on_ack(tcp: Tcp, parameters: Parameters) -> bool {
    if tcp.private::<u8>(RESUME) == 0 {
        return false;
    }
    let mut resume: Resume = tcp.private(RESUME);
    let step = resume.on_ack(&Ack {
        now_us: tcp.now_us() as u32,
        latest_rtt_us: tcp.latest_rtt_us(),
        srtt_us: tcp.srtt_us(),
        delivered_segments: tcp.delivered_segments(),
        retransmitted_segments: tcp.retransmitted_segments(),
        in_flight_segments: tcp.in_flight_segments(),
        cwnd_segments: tcp.cwnd_segments(),
        ssthresh_segments: tcp.ssthresh_segments(),
        is_cwnd_limited: tcp.is_cwnd_limited(),
    });
    tcp.set_private(RESUME, resume);
    match step {
        Step::Normal => false,
        Step::Hold => true,
        Step::Jump(window) => {
            set(tcp, parameters, window);
            tcp.pace();
            note(tcp, Use::Jumped);
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

/// Tells the tuner what has become of it.
#[inline(always)]
pub fn note(tcp: Tcp, has: Use) {
    // SAFETY: the kernel gave this program the socket.
    if let Some(flow) = unsafe { maps::flow(tcp.socket()) } {
        flow.resuming.has = has as u32;
    }
}
