//! A law with window and pacing rate to itself does this for a flow whose path is not
//! tuned any more: as the standard one (RFC 5681), without its own state, which stays
//! for when the path is tuned again.

use wad_common::law::{Aimd, MIN_WINDOW_SEGMENTS};

use crate::{context::Context, pacing, parameters::Parameters, rate_sample::RateSample, tcp::Tcp};

/// Stands for the credit between the kernel's question for a threshold and the next ACK.
const ASKED: u64 = u64::MAX;

#[inline(always)]
pub fn cong_control(ctx: Context, tcp: Tcp, parameters: Parameters) -> u64 {
    let credit_q16 = parameters.standard_credit_q16();
    let is_asked = credit_q16 == ASKED;
    let mut before = parameters.bounded_window(if is_asked { 0 } else { credit_q16 });
    let mut course = parameters.course();
    if tcp.is_reducing() || is_asked {
        course.reduce();
        parameters.set_standard_credit_q16(0);
        // At once, not spread over the recovery (RFC 5681 section 3.2, step 2), but for what was
        // lost, which goes out first (step 3).
        let first_segments = if is_asked && tcp.is_reducing() {
            tcp.in_flight_segments() + 1
        } else {
            MIN_WINDOW_SEGMENTS
        };
        let most_segments = before.ssthresh_segments.max(first_segments);
        if before.cwnd_segments > most_segments {
            tcp.set_cwnd_segments(most_segments);
        }
    } else {
        course.follow(&before);
        let entitled_segments = tcp.entitled_segments();
        if before.cwnd_segments < entitled_segments {
            before.clamp_segments = before.clamp_segments.min(entitled_segments);
            let after = Aimd::STANDARD.on_ack(before, RateSample::of(ctx).acked_segments());
            tcp.change_window(before, after);
            parameters.set_standard_credit_q16(after.credit_q16);
        }
    }
    parameters.set_course(course);
    pacing::follow_window(tcp, &parameters.bounded_window(0), before.in_slow_start());
    0
}

#[inline(always)]
pub fn ssthresh(tcp: Tcp, parameters: Parameters) -> u64 {
    // The kernel may be done with its part before the next ACK is told of: a loss that a probe has
    // repaired (`tcp_process_tlp_ack()`).
    parameters.set_standard_credit_q16(ASKED);
    Aimd::STANDARD.on_congestion(tcp.cwnd_segments()).into()
}

/// The window before the decrease: RFC 4015's response.
#[inline(always)]
pub fn undo_cwnd(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    Aimd::on_undo(tcp.cwnd_segments(), tcp.prior_cwnd_segments()).into()
}
