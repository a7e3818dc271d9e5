//! The laws that answer to losses: each a pair a(w), b(w) of the window, under
//! the kernel's own loss recovery.
//!
//! Only `cong_avoid` runs on each ACK. There is no `cong_control`, so the kernel
//! itself does proportional rate reduction (RFC 6937) during recovery. ECN marks
//! reach `ssthresh` as losses do (RFC 3168 section 6.1.2).

use wad_common::{
    control::{IGNORE_LOCAL_STALLS, KEEP_WHEN_IDLE},
    law::{Aimd, INFINITE_SSTHRESH, MIN_WINDOW_SEGMENTS},
};

use crate::{
    context::Context,
    parameters::{LAW_STATE, Parameters},
    tcp::Tcp,
};

// Places in `icsk_ca_priv`.
const CREDIT_Q16: u32 = LAW_STATE;
/// The window after the last ACK; 0 since the last congestion event.
const OPEN_CWND: u32 = LAW_STATE + 8;
/// The threshold before a local stall; 0 if there was none.
const STALLED_SSTHRESH: u32 = LAW_STATE + 12;
/// Segments acknowledged with ECE until the last ACK.
const DELIVERED_CE: u32 = LAW_STATE + 16;
/// When the local stall began, then when it ended, by the flow's clock
/// (`tcp_mstamp`).
const STALLED_US: u32 = LAW_STATE + 24;

// enum tcp_ca_state (include/uapi/linux/tcp.h), of which what is above is LOSS.
const TCP_CA_RECOVERY: u8 = 3;

#[inline(always)]
pub fn init(ctx: Context) -> u64 {
    Parameters::start(Tcp::of(ctx));
    0
}

/// The law: `response` at a window, under these parameters.
#[inline(always)]
pub fn cong_avoid(ctx: Context, response: impl Fn(Parameters, u32) -> Aimd) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::at_ack(tcp);
    if parameters.has_flags() {
        make_good(tcp, parameters, &response);
    }
    let entitled_segments = if is_held_by_host(tcp, parameters) {
        tcp.entitled_by_flight_segments()
    } else {
        tcp.entitled_segments()
    };
    let mut before = parameters.bounded_window(tcp.private(CREDIT_Q16));
    if before.cwnd_segments > before.clamp_segments {
        tcp.set_cwnd_segments(before.clamp_segments);
    } else if before.cwnd_segments < entitled_segments {
        before.clamp_segments = before.clamp_segments.min(entitled_segments);
        let law = response(parameters, before.cwnd_segments);
        let after = law.on_ack(before, ctx.argument(2) as u32);
        if after.cwnd_segments != before.cwnd_segments {
            tcp.set_cwnd_segments(after.cwnd_segments);
        }
        tcp.set_private(CREDIT_Q16, after.credit_q16);
    }
    if parameters.has(KEEP_WHEN_IDLE) {
        tcp.set_private(OPEN_CWND, tcp.cwnd_segments());
    }
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context, response: impl Fn(Parameters, u32) -> Aimd) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::of(tcp);
    let cwnd_segments = if is_unanswered(tcp) {
        // The window has followed it: what is on its way is all that is known.
        tcp.set_ssthresh_segments(INFINITE_SSTHRESH);
        tcp.in_flight_segments().max(MIN_WINDOW_SEGMENTS)
    } else {
        tcp.cwnd_segments()
    };
    if parameters.has(IGNORE_LOCAL_STALLS) && is_local_stall(tcp) {
        if tcp.private::<u32>(STALLED_SSTHRESH) == 0 {
            tcp.set_private(STALLED_SSTHRESH, tcp.ssthresh_segments());
        }
        tcp.set_private(STALLED_US, tcp.now_us());
        // What the kernel's recovery steers to, and ends at.
        return cwnd_segments.into();
    }
    decrease(tcp, parameters, cwnd_segments, response).into()
}

/// A loss while the kernel answers to a local stall is part of that answer for
/// it: it does not ask for a threshold again.
#[inline(always)]
pub fn set_state(ctx: Context, response: impl Fn(Parameters, u32) -> Aimd) -> u64 {
    let tcp = Tcp::of(ctx);
    // The kernel passes one byte; the rest of the register is not defined.
    let state = ctx.argument(1) as u8;
    if is_unanswered(tcp) {
        answer_unasked(tcp, Parameters::of(tcp), response);
    } else if state >= TCP_CA_RECOVERY && tcp.private::<u32>(STALLED_SSTHRESH) != 0 {
        answer_late(tcp, Parameters::of(tcp), response);
    }
    0
}

/// The threshold after a congestion event at this window.
#[inline(always)]
fn decrease(
    tcp: Tcp,
    parameters: Parameters,
    cwnd_segments: u32,
    response: impl Fn(Parameters, u32) -> Aimd,
) -> u32 {
    // To lower what it can't use would lower nothing (RFC 5681 equation 4).
    let used_segments = if is_held_by_host(tcp, parameters) {
        cwnd_segments.min(tcp.used_segments())
    } else {
        cwnd_segments
    };
    tcp.set_private(STALLED_SSTHRESH, 0_u32);
    tcp.set_private(OPEN_CWND, 0_u32);
    tcp.set_private(CREDIT_Q16, 0_u64);
    response(parameters, used_segments).on_congestion(used_segments)
}

/// What was taken for a local stall alone was congestion, too: the answer to the
/// window of then.
#[inline(always)]
fn answer_late(tcp: Tcp, parameters: Parameters, response: impl Fn(Parameters, u32) -> Aimd) {
    let stalled_segments = tcp.prior_cwnd_segments();
    reduce_to(tcp, decrease(tcp, parameters, stalled_segments, response));
}

/// The answer that no program gave when the kernel asked, to the window of then.
#[inline(always)]
fn answer_unasked(tcp: Tcp, parameters: Parameters, response: impl Fn(Parameters, u32) -> Aimd) {
    let cwnd_segments = tcp.prior_cwnd_segments();
    let is_ignored = parameters.has(IGNORE_LOCAL_STALLS) && tcp.is_in_cwr() && is_local_stall(tcp);
    let ssthresh_segments =
        if is_ignored { cwnd_segments } else { decrease(tcp, parameters, cwnd_segments, response) };
    reduce_to(tcp, ssthresh_segments);
}

#[inline(always)]
fn reduce_to(tcp: Tcp, ssthresh_segments: u32) {
    tcp.set_ssthresh_segments(ssthresh_segments);
    if tcp.cwnd_segments() > ssthresh_segments {
        tcp.set_cwnd_segments(ssthresh_segments);
    }
}

/// Whether the kernel took for a threshold what no program has returned; the window
/// follows it, to 980 million segments within an RTT (seen). A kernel that is
/// hardened to run no BPF program while init (PID 1) has the processor skips them for
/// packets that an interrupt brings meanwhile, too, and finds in place of the result
/// what else was on its stack: half a return address, which is above all thresholds
/// (Linux 6.18 of a cloud's virtual machines, where `__bpf_prog_enter()` compares
/// `current->tgid` with 1).
#[inline(always)]
fn is_unanswered(tcp: Tcp) -> bool {
    tcp.ssthresh_segments() > INFINITE_SSTHRESH
}

/// Whether the kernel reports a full queue of this host (`tcp_enter_cwr()` from
/// `__tcp_transmit_skb()`): nothing is lost or acknowledged selectively, as
/// after a drop or a time-out, and the ACK before this had no ECE, as after a
/// mark. A drop that the tail loss probe has repaired looks the same here
/// (`tcp_process_tlp_ack()`); the next ACK tells.
#[inline(always)]
fn is_local_stall(tcp: Tcp) -> bool {
    tcp.lost_segments() == 0
        && tcp.sacked_segments() == 0
        && tcp.delivered_ce_segments() == tcp.private::<u32>(DELIVERED_CE)
}

/// Whether within the last RTT it was a full queue of this host that held the flow
/// back, and not its window: the kernel's note that the window did is of the one
/// that it had reduced meanwhile. A window that grew by it would grow without end.
#[inline(always)]
fn is_held_by_host(tcp: Tcp, parameters: Parameters) -> bool {
    if !parameters.has(IGNORE_LOCAL_STALLS) {
        return false;
    }
    let since_us = tcp.now_us().wrapping_sub(tcp.private(STALLED_US));
    tcp.private::<u32>(STALLED_SSTHRESH) != 0 || since_us < u64::from(tcp.srtt_us())
}

/// Takes back what the kernel did to a flow for reasons that its path tells us
/// not to heed.
#[inline(always)]
fn make_good(tcp: Tcp, parameters: Parameters, response: impl Fn(Parameters, u32) -> Aimd) {
    if parameters.has(IGNORE_LOCAL_STALLS) {
        let stalled_segments: u32 = tcp.private(STALLED_SSTHRESH);
        if stalled_segments != 0 {
            if has_proved_congestion(tcp) {
                answer_late(tcp, parameters, response);
            } else {
                tcp.set_ssthresh_segments(stalled_segments);
                tcp.set_private(STALLED_SSTHRESH, 0_u32);
                tcp.set_private(STALLED_US, tcp.now_us());
            }
        }
        tcp.set_private(DELIVERED_CE, tcp.delivered_ce_segments());
    }
    // After idle time (`tcp_cwnd_restart()`) and while the application sends less
    // (`tcp_cwnd_application_limited()`) the kernel takes the window back without
    // asking the law. This comes an RTT later: the first flight is the kernel's.
    if parameters.has(KEEP_WHEN_IDLE) {
        let open_segments: u32 = tcp.private(OPEN_CWND);
        if open_segments > tcp.cwnd_segments() {
            tcp.set_cwnd_segments(open_segments);
        }
    }
}

/// Whether what looked like a local stall was more: its end came with the very
/// ACK that reported it, as when a probe repairs a loss, or a mark came in the
/// meantime, to which the kernel does not answer then.
#[inline(always)]
fn has_proved_congestion(tcp: Tcp) -> bool {
    tcp.now_us() == tcp.private::<u64>(STALLED_US)
        || tcp.delivered_ce_segments() != tcp.private::<u32>(DELIVERED_CE)
}
