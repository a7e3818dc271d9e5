//! The laws that answer to losses: each a pair a(w), b(w) of the window, under
//! the kernel's own loss recovery.
//!
//! Only `cong_avoid` runs on each ACK. There is no `cong_control`, so the kernel
//! itself does proportional rate reduction (RFC 6937) during recovery. ECN marks
//! reach `ssthresh` as losses do (RFC 3168 section 6.1.2).

use core::mem::offset_of;

use wad_common::{
    control::{IGNORE_LOCAL_STALLS, KEEP_WHEN_IDLE, RESUME_WHEN_IDLE},
    law::{
        Aimd, INFINITE_SSTHRESH,
        hystart::{self, HyStart},
        idle::Open,
        loss_based::{self, Change, Course, LossBased, Moment},
        resume::Phase,
        skipped::is_unanswered,
        stall::{Ending, Stall},
    },
};

use crate::{
    context::Context,
    parameters::{LOSS_BASED, LOSS_BASED_END, Parameters},
    resume, start,
    tcp::{TCP_CA_LOSS, TCP_CA_RECOVERY, Tcp},
};

// Places in `icsk_ca_priv`. An ACK reads and writes only what it needs of the state.
const CREDIT_Q16: u32 = LOSS_BASED + offset_of!(LossBased, credit_q16) as u32;
const OPEN: u32 = LOSS_BASED + offset_of!(LossBased, open) as u32;
const STALL: u32 = LOSS_BASED + offset_of!(LossBased, stall) as u32;
const _: () = assert!(LOSS_BASED as usize + size_of::<LossBased>() == LOSS_BASED_END as usize);

#[inline(always)]
pub fn init(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    Parameters::start(tcp);
    resume::begin(tcp);
    0
}

/// A law that is a pair of functions of the window.
#[inline(always)]
pub fn cong_avoid_by_pair(ctx: Context, response: impl Fn(Parameters, u32) -> Aimd) -> u64 {
    cong_avoid(ctx, |parameters, cwnd_segments, _| response(parameters, cwnd_segments), &response)
}

/// Handles an ACK that tells of no congestion. `grow` returns the increase at a window, for the
/// segments that the ACK acknowledges; `shrink` returns the decrease, for congestion that is
/// answered late.
#[inline(always)]
pub fn cong_avoid(
    ctx: Context,
    grow: impl Fn(Parameters, u32, u32) -> Aimd,
    shrink: impl Fn(Parameters, u32) -> Aimd,
) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::at_ack(tcp);
    if parameters.has(KEEP_WHEN_IDLE | RESUME_WHEN_IDLE) {
        // Before it is asked whether to jump: one ACK may be for all that the first flight was.
        make_good_idle_time(tcp, parameters);
    }
    if resume::on_ack(tcp, parameters) {
        return 0;
    }
    start::within_path(tcp, parameters);
    answer_late(tcp, parameters, shrink);
    let acked_segments = ctx.argument(2) as u32;
    let entitled_segments = if is_held_by_host(tcp, parameters) {
        tcp.entitled_by_flight_segments()
    } else {
        tcp.entitled_segments()
    };
    let mut before = parameters.bounded_window(tcp.private(CREDIT_Q16));
    let mut after = before;
    if before.cwnd_segments > before.clamp_segments {
        before.cwnd_segments = before.clamp_segments;
        after = before;
        tcp.set_cwnd_segments(before.clamp_segments);
    } else if before.cwnd_segments < entitled_segments {
        before.clamp_segments = before.clamp_segments.min(entitled_segments);
        let hystart = if HyStart::is_for(before.ssthresh_segments) {
            end_slow_start(tcp, parameters, acked_segments)
        } else {
            HyStart::START
        };
        before.ssthresh_segments = tcp.ssthresh_segments();
        after = if hystart.grows_conservatively(&before) {
            hystart::grow(before, acked_segments)
        } else {
            let growth_segments = hystart.growth_segments(&before, acked_segments);
            grow(parameters, before.cwnd_segments, acked_segments).on_ack(before, growth_segments)
        };
        if after.cwnd_segments != before.cwnd_segments {
            tcp.set_cwnd_segments(after.cwnd_segments);
        }
        tcp.set_private(CREDIT_Q16, after.credit_q16);
    }
    let mut course = parameters.course();
    course.grow(&before, &after);
    parameters.set_course(course);
    if parameters.has(KEEP_WHEN_IDLE | RESUME_WHEN_IDLE) {
        // As the socket has it: what the law knows of it the verifier would go on with.
        let mut open = Open::UNKNOWN;
        if parameters.has(KEEP_WHEN_IDLE) {
            open.note(tcp.cwnd_segments(), tcp.mss_bytes());
        } else {
            let (cwnd, ssthresh) = (tcp.cwnd_segments(), tcp.ssthresh_segments());
            open.note_shown(cwnd, ssthresh, tcp.mss_bytes());
        }
        tcp.set_private(OPEN, open);
    }
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context, response: impl Fn(Parameters, u32) -> Aimd) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::of(tcp);
    let answer = with_state(tcp, parameters, |law, course, moment| {
        law.on_asked(course, moment, |segments| response(parameters, segments))
    });
    if answer.had_none {
        tcp.set_ssthresh_segments(INFINITE_SSTHRESH);
    }
    answer.ssthresh_segments.into()
}

#[inline(always)]
pub fn set_state(ctx: Context, response: impl Fn(Parameters, u32) -> Aimd) -> u64 {
    let tcp = Tcp::of(ctx);
    let is_of_loss = matches!(ctx.new_state(), TCP_CA_RECOVERY | TCP_CA_LOSS);
    let change = match (tcp.is_in_cwr(), is_of_loss) {
        (true, true) => Change::LossFoundInCwr,
        (true, false) => Change::CwrEnds,
        (false, true) => Change::LossFound,
        (false, false) => Change::Other,
    };
    if !LossBased::heeds(change, tcp.ssthresh_segments()) {
        return 0;
    }
    let parameters = Parameters::of(tcp);
    let ssthresh_segments = with_state(tcp, parameters, |law, course, moment| {
        law.on_change(course, moment, change, |segments| response(parameters, segments))
    });
    if let Some(ssthresh_segments) = ssthresh_segments {
        reduce_to(tcp, ssthresh_segments);
    }
    0
}

#[inline(always)]
fn reduce_to(tcp: Tcp, ssthresh_segments: u32) {
    tcp.set_ssthresh_segments(ssthresh_segments);
    tcp.set_cwnd_segments(loss_based::reduced_segments(tcp.cwnd_segments(), ssthresh_segments));
}

/// Returns the number, of which the verifier has forgotten how it came about: it would follow each
/// way to it with each way on. The place is that of the credit, which is stored after this.
#[inline(always)]
pub fn forgotten(tcp: Tcp, number: u32) -> u32 {
    tcp.set_private(CREDIT_Q16, u64::from(number));
    tcp.private(CREDIT_Q16)
}

/// Ends slow start that has no threshold where the path shows a queue. Returns how the window is to
/// grow until then. It is called for ACKs that let the window grow.
#[inline(always)]
fn end_slow_start(tcp: Tcp, parameters: Parameters, acked_segments: u32) -> HyStart {
    let mut state: HyStart = tcp.private(LOSS_BASED_END);
    let is_over = state.ends_with(&hystart::Ack {
        latest_rtt_us: tcp.latest_rtt_us(),
        acked_segments,
        // A flow that ignores local stalls would overflow the host's own queues by more.
        rapid_start_allowed: tcp.is_paced()
            && tcp.prior_cwnd_segments() == 0
            && !parameters.has(IGNORE_LOCAL_STALLS),
    });
    tcp.set_private(LOSS_BASED_END, state);
    if is_over {
        tcp.set_ssthresh_segments(tcp.cwnd_segments());
        return HyStart::START;
    }
    state
}

/// Whether the flow is in rapid start.
#[inline(always)]
pub fn is_rapid(tcp: Tcp) -> bool {
    HyStart::is_for(tcp.ssthresh_segments()) && tcp.private::<HyStart>(LOSS_BASED_END).is_rapid()
}

/// Whether a full queue of this host held the flow back, where the path tells us not
/// to heed one.
#[inline(always)]
fn is_held_by_host(tcp: Tcp, parameters: Parameters) -> bool {
    parameters.has(IGNORE_LOCAL_STALLS)
        && tcp.private::<Stall>(STALL).holds_back(tcp.now_us(), tcp.srtt_us())
}

/// Answers to congestion that the law was not asked about, or took for a local stall.
#[inline(always)]
fn answer_late(tcp: Tcp, parameters: Parameters, response: impl Fn(Parameters, u32) -> Aimd) {
    let is_congestion = is_unanswered(tcp.ssthresh_segments())
        || parameters.has(IGNORE_LOCAL_STALLS) && is_more_than_stall(tcp);
    if is_congestion {
        let ssthresh_segments = with_state(tcp, parameters, |law, course, moment| {
            law.answer_late(course, moment, |segments| response(parameters, segments))
        });
        reduce_to(tcp, ssthresh_segments);
    }
}

/// Whether there was congestion in a local stall; one in which there was none is taken back.
#[inline(always)]
fn is_more_than_stall(tcp: Tcp) -> bool {
    let mut stall: Stall = tcp.private(STALL);
    let ending = stall.on_ack(tcp.now_us(), tcp.delivered_ce_segments());
    tcp.set_private(STALL, stall);
    if let Ending::MadeGood(ssthresh_segments) = ending {
        tcp.set_ssthresh_segments(ssthresh_segments);
    }
    matches!(ending, Ending::Congestion)
}

/// A function of its own: the verifier would follow the law with each way through it.
#[inline(never)]
fn make_good_idle_time(tcp: Tcp, parameters: Parameters) {
    let open: Open = tcp.private(OPEN);
    let Some(segments) = open.lost_segments(tcp.cwnd_segments(), tcp.mss_bytes()) else { return };
    if parameters.has(KEEP_WHEN_IDLE) {
        tcp.set_cwnd_segments(segments);
    } else {
        resume::begin_again(tcp, segments);
    }
}

/// Lets the law act on its whole state, at this moment.
#[inline(always)]
fn with_state<T>(
    tcp: Tcp,
    parameters: Parameters,
    act: impl FnOnce(&mut LossBased, &mut Course, &Moment) -> T,
) -> T {
    let moment = Moment {
        now_us: tcp.now_us(),
        srtt_us: tcp.srtt_us(),
        cwnd_segments: tcp.cwnd_segments(),
        ssthresh_segments: tcp.ssthresh_segments(),
        prior_cwnd_segments: tcp.prior_cwnd_segments(),
        in_flight_segments: tcp.in_flight_segments(),
        delivered_segments: tcp.delivered_segments(),
        retransmitted_segments: tcp.retransmitted_segments(),
        delivery: tcp.delivery(),
        signs: tcp.signs(),
        ignores_stalls: parameters.has(IGNORE_LOCAL_STALLS),
    };
    let mut law: LossBased = tcp.private(LOSS_BASED);
    let mut course = parameters.course();
    let before = law.resume.phase();
    let result = act(&mut law, &mut course, &moment);
    if law.resume.phase() == Phase::SafeRetreat && before != Phase::SafeRetreat {
        if before == Phase::Unvalidated {
            resume::note(tcp, Phase::Validating);
        }
        resume::note(tcp, Phase::SafeRetreat);
    }
    let has_decreased = course.phase() == Some(loss_based::Phase::Recovery);
    if has_decreased && parameters.has(RESUME_WHEN_IDLE) {
        resume::disprove(tcp);
    }
    tcp.set_private(LOSS_BASED, law);
    parameters.set_course(course);
    result
}
