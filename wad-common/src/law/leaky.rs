//! Control for leaky paths: those that lose packets though no queue is full.
//!
//! CUBIC (RFC 9438), so that beside CUBIC it gets what CUBIC gets; but it asks at
//! each loss whether there is a queue at all. The answer depends on the RTT, the
//! least of the last 8 to 16 samples, and of a sixteenth of an RTT more if that is
//! high:
//!
//! * No queue: the window stays as it is, in slow start, too. When that happens
//!   again, and not at once, the path is known to leak, for the next 17 to 34 s. Two
//!   cuts weigh as much against it as one such loss for it.
//! * A queue, on a path that is not known to leak: congestion. The window is cut
//!   to 0.7, as CUBIC's.
//! * A queue, on a path known to leak: it may be either. The window is cut by what
//!   the queue takes, to base RTT / RTT of it as H-TCP's (Leith and Shorten, 2004),
//!   and to 0.7 at least.
//!
//! What it assumes: the queue drops what comes last, and nearly always is well above
//! noise (`Queue::noise_us`) when it does. Then a path without leaks never becomes
//! known to leak, and there the law is CUBIC's. Guards, after which it is so on any
//! path:
//!
//! * More losses in a round than 1/64 of the window, and a few, are congestion. So
//!   it serves paths that lose up to about 1 packet in 100.
//! * A cut by what the queue takes has to empty it, but for one just after slow start
//!   or another cut, when more is still to come. A queue that stands all through the
//!   next rounds is of others, and the path is not known to leak any more.
//! * A loss in the three rounds after a cut, or after slow start, says nothing about
//!   a leak: it may be of the queue that there was.
//! * Marks (RFC 3168) and timeouts are congestion, always.
//!
//! Where it fails: a queue that overflows before it is above noise looks like a
//! leak, until the losses are too many. That is a queue of less than 1/32 of the RTT
//! (1 ms at least, 4 ms at most), and twice that if what comes in bursts; a policer;
//! or a queue discipline that drops as early. Other flows there get down to a tenth of
//! what they would get beside CUBIC.
//!
//! Slow start ends with delay, because losses do not end it: HyStart++ (RFC 9406)
//! with other numbers. It doubles until there is a queue, then grows by a quarter in
//! an RTT until that takes a quarter of the base RTT. That is soon enough to end
//! within a queue of half the path, and late enough to get a share beside flows that
//! keep a queue. It goes on after a first cut that took few packets, because then
//! others' packets made the queue overflow. And it comes again, up to the first sign
//! of a queue, after losses on a path that is known to leak, to give back what
//! earlier ones took: once without a bound, when that becomes known; later up to the
//! window before the last cut.

use super::{
    INFINITE_SSTHRESH, MIN_WINDOW_SEGMENTS, Sample, ShownPhase, Window,
    aimd::ONE_Q16,
    cubic::LEAST_INCREASE_Q16,
    curve::{Curve, KEEP_Q10},
    rtt::Rounds,
    slow_start,
};
use crate::record;

mod leak;
mod phase;
mod queue;
#[cfg(test)]
mod tests;
mod watch;

use leak::{Leak, Sign};
use phase::{Cut, Phase, Start};
use queue::Queue;
use watch::Watch;

/// Losses of a round that may be a leak's: this part of the window, and a few more,
/// though of a small window no more than that part.
const LEAK_SHIFT: u32 = 6;
const FEW_SEGMENTS: u32 = 4;
const FEW_SHIFT: u32 = 5;
/// A cut by the queue leaves this besides, in 1/1024: 1% less, so that the base RTT
/// shows again.
const DRAINED_Q10: u64 = 1014;
/// Slow start slows down only from here on, as HyStart.
const START_SEGMENTS: u32 = 16;
/// Its end: a queue of a quarter of the base RTT, and of 4 ms at least.
const START_QUEUE_SHIFT: u32 = 2;
const START_QUEUE_US: u32 = 4000;
/// Until then, with a queue, each RTT adds a quarter of the window.
const GENTLE_SHIFT: u32 = 2;
/// On a path known to leak it may find this beyond its end the next time: an eighth.
/// So an end that was no queue but a stall is not the last word.
const BEYOND_SHIFT: u32 = 3;

/// The law's state of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaky {
    /// It is as [`Window::credit_q16`].
    credit_q16: u64,
    queue: Queue,
    curve: Curve,
    rounds: Rounds,
    /// Segments acknowledged with ECE so far; wraps around.
    marked_segments: u32,
    watch: Watch,
    /// Losses of this round.
    lost_segments: u16,
    leak: Leak,
    /// 1 if the kernel has asked for a threshold since the last ACK, or its timer went off.
    asked: u8,
    /// A [`Cut`].
    cut: u8,
    /// A [`Start`].
    start: u8,
}
record!(Leaky, size = 64);

/// A verdict says what follows from an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Nothing,
    /// There was a loss without a queue.
    Leak(Sign),
    /// There was congestion; a queue took so much at least, if one was watched.
    Cut(Cut, u32),
}

/// An ACK says this besides a [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// Segments found lost on this ACK.
    pub lost_segments: u32,
    /// Segments that are deemed lost, and have not come yet (`lost_out`).
    pub missing_segments: u32,
    /// Segments acknowledged with ECE so far, this ACK's included; wraps around.
    pub marked_segments: u32,
    /// The window when the kernel last asked for a threshold.
    pub prior_segments: u32,
}

impl Leaky {
    /// Returns the state of a flow that begins, or is taken over after so many
    /// segments were delivered, and so many acknowledged with ECE.
    #[must_use]
    pub const fn start(delivered_segments: u32, marked_segments: u32) -> Self {
        Self {
            credit_q16: 0,
            queue: Queue::UNKNOWN,
            curve: Curve::NONE,
            rounds: Rounds::first(delivered_segments),
            marked_segments,
            watch: Watch::NONE,
            lost_segments: 0,
            leak: Leak::NONE,
            asked: 0,
            cut: Cut::None as u8,
            start: Start::Fast as u8,
        }
    }

    /// The window after an ACK, its threshold included: the three steps below.
    #[inline(always)]
    #[must_use]
    pub fn on_ack(&mut self, window: Window, sample: &Sample, losses: &Losses) -> Window {
        self.see(sample);
        let window = self.respond(window, sample, losses);
        self.grow(window, sample)
    }

    /// First step: what the ACK tells of the queue.
    #[inline(always)]
    pub fn see(&mut self, sample: &Sample) {
        if self.queue.add(sample) {
            self.leak.span_ends();
        }
        if !self.queue.is_standing() {
            self.leak.queue_is_empty();
        }
        if self.rounds.ends(sample) {
            self.leak.round_ends();
            self.lost_segments = 0;
            self.transition_to(None, Some(Cut::None));
        }
    }

    /// Second step: the window after losses, if there were any.
    #[inline(always)]
    #[must_use]
    pub fn respond(&mut self, window: Window, sample: &Sample, losses: &Losses) -> Window {
        let window = match self.judge(window, sample, losses) {
            Verdict::Nothing => window,
            Verdict::Leak(sign) => self.search(window, sign),
            Verdict::Cut(cut, queue_us) => {
                let from_segments =
                    if cut == Cut::Timeout { losses.prior_segments } else { window.cwnd_segments };
                self.cut(cut, queue_us, from_segments, window, sample)
            }
        };
        if self.is_cut(Cut::Others) && self.is_too_many(window) {
            // The queue overflowed with its own packets after all.
            self.transition_to(Some(Start::Over), Some(Cut::Congestion));
            let ssthresh_segments = window.cwnd_segments.max(MIN_WINDOW_SEGMENTS);
            return Window { ssthresh_segments, ..window };
        }
        window
    }

    /// Third step: the window grown, unless it was cut in this round.
    #[inline(always)]
    #[must_use]
    pub fn grow(&mut self, window: Window, sample: &Sample) -> Window {
        let window = window.at_most_clamped(window.cwnd_segments);
        let may_grow = self.is_cut(Cut::None) || self.is_cut(Cut::Timeout);
        let entitled_segments = sample.entitled_segments.min(window.clamp_segments);
        if !may_grow || window.cwnd_segments >= entitled_segments {
            return window;
        }
        let bounded =
            Window { clamp_segments: entitled_segments, credit_q16: self.credit_q16, ..window };
        let grown = if window.in_slow_start() {
            self.start_up(bounded, sample)
        } else {
            self.transition_to(Some(Start::Over), None);
            let increase_q16 = self.increase_q16(bounded, sample);
            earned(bounded, increase_q16, sample)
        };
        self.credit_q16 = grown.credit_q16;
        Window { clamp_segments: window.clamp_segments, ..grown }
    }

    /// The kernel asks for a threshold: it keeps the one it has. With the ACK that
    /// tells why, or the next one, comes the answer.
    #[inline(always)]
    #[must_use]
    pub fn on_congestion(&mut self, window: Window) -> u32 {
        self.asked = 1;
        window.ssthresh_segments.max(MIN_WINDOW_SEGMENTS)
    }

    /// The kernel's timer has taken all that is out for lost (`tcp_enter_loss()`). It does not ask
    /// for a threshold then where it has asked in the same window, of a loss that was taken for
    /// a leak, say.
    #[inline(always)]
    pub const fn on_timeout(&mut self) {
        self.asked = 1;
    }

    /// Whether the window is to double: for the pacing rate.
    #[inline(always)]
    #[must_use]
    pub fn is_starting(&self, window: &Window) -> bool {
        window.in_slow_start() && (self.is_start(Start::Fast) || self.is_start(Start::Over))
    }

    /// Returns where the law is with a flow of this window.
    #[inline(always)]
    #[must_use]
    pub const fn phase(&self, window: &Window) -> ShownPhase {
        if self.is_cut(Cut::Drain) {
            ShownPhase::Drain
        } else if self.is_cut(Cut::Others) || self.is_cut(Cut::Congestion) {
            ShownPhase::Recovery
        } else if self.is_start(Start::Gentle) && window.in_slow_start() {
            ShownPhase::GentleSlowStart
        } else if self.is_start(Start::Again) && window.in_slow_start() {
            if self.leak.is_known() { ShownPhase::Search } else { ShownPhase::GentleSlowStart }
        } else {
            ShownPhase::of_growing(window)
        }
    }

    /// Returns what follows from losses, marks and timeouts.
    #[inline(always)]
    fn judge(&mut self, window: Window, sample: &Sample, losses: &Losses) -> Verdict {
        let is_asked = self.asked != 0;
        let is_marked = losses.marked_segments != self.marked_segments;
        if !is_asked && !is_marked && losses.lost_segments == 0 && !self.watch.is_on() {
            return Verdict::Nothing;
        }
        self.asked = 0;
        self.marked_segments = losses.marked_segments;
        // A timer finds some between two ACKs, and the kernel asks then (`tcp_rack_reo_timeout()`).
        let found_segments = match losses.lost_segments {
            0 if is_asked => losses.missing_segments,
            lost_segments => lost_segments,
        };
        let lost_segments = found_segments.min(u16::MAX.into()) as u16;
        self.lost_segments = self.lost_segments.saturating_add(lost_segments);
        // The kernel cut the window; it does so for nothing else. Where it is as
        // large as before, that was undone.
        if is_asked && !sample.is_reducing && window.cwnd_segments < losses.prior_segments {
            return Verdict::Cut(Cut::Timeout, 0);
        }
        if self.cut > Cut::Drain as u8 {
            return Verdict::Nothing;
        }
        if is_marked || self.is_too_many(window) {
            return Verdict::Cut(Cut::Congestion, 0);
        }
        if self.is_cut(Cut::Drain) {
            return Verdict::Nothing;
        }
        if !self.queue.is_standing() {
            self.watch = Watch::NONE;
            // Asked without a loss: a queue of this host was full.
            let is_lost = self.lost_segments > 0;
            return if is_lost { Verdict::Leak(self.leak.seen()) } else { Verdict::Nothing };
        }
        let (standing_us, base_us) = (self.queue.standing_us(), self.queue.base_us());
        let Some(queue_us) = self.watch.see(sample.now_us, standing_us, base_us) else {
            return Verdict::Nothing;
        };
        let is_first = self.is_start(Start::Fast) || self.is_start(Start::Gentle);
        if self.leak.is_known() {
            Verdict::Cut(Cut::Drain, queue_us)
        } else if is_first && window.in_slow_start() {
            Verdict::Cut(Cut::Others, 0)
        } else {
            Verdict::Cut(Cut::Congestion, 0)
        }
    }

    /// Begins slow start again after a loss without a queue, on a path known to leak.
    #[inline(always)]
    fn search(&mut self, window: Window, sign: Sign) -> Window {
        let ssthresh_segments = match sign {
            Sign::None => return window,
            Sign::New => INFINITE_SSTHRESH,
            Sign::Known => self.curve.plateau_segments(),
        };
        if !self.is_start(Start::Over) || window.cwnd_segments >= ssthresh_segments {
            return window;
        }
        self.transition_to(Some(Start::Again), None);
        Window { ssthresh_segments, ..window }
    }

    #[inline(always)]
    fn cut(
        &mut self,
        cut: Cut,
        queue_us: u32,
        from_segments: u32,
        window: Window,
        sample: &Sample,
    ) -> Window {
        let is_drain = cut == Cut::Drain;
        let is_timeout = cut == Cut::Timeout;
        let keep_q10 =
            if is_drain { drained_q10(self.queue.base_us(), queue_us) } else { KEEP_Q10 };
        let kept_segments = ((u64::from(from_segments) * keep_q10) >> 10) as u32;
        let kept_segments = kept_segments.max(MIN_WINDOW_SEGMENTS);
        let plateau_segments =
            if is_drain { from_segments } else { self.curve.converged(from_segments, KEEP_Q10) };
        self.curve.rise(sample.now_us, kept_segments, plateau_segments, 1);
        self.credit_q16 = 0;
        self.watch = Watch::NONE;
        self.leak.cut(is_drain);
        let start = if cut == Cut::Others { Start::Again } else { Start::Over };
        self.transition_to(Some(start), Some(cut));
        // After a timeout nearly nothing is out, but what was is still to be heard of.
        let out_segments = if is_timeout { from_segments } else { sample.in_flight_segments };
        // And one more: what was out is acknowledged with ECE to the last segment, as
        // the one that says that the window was cut comes after it.
        let in_flight_segments = out_segments.saturating_add(1);
        self.rounds.begin(&Sample { in_flight_segments, ..*sample });
        let cwnd_segments =
            if is_timeout { window.cwnd_segments } else { kept_segments.min(window.cwnd_segments) };
        if cut == Cut::Others {
            return Window { cwnd_segments, ..window };
        }
        Window { cwnd_segments, ssthresh_segments: kept_segments, ..window }
    }

    /// Segments to grow in an RTT from now on, in 1/65536: to where the curve is then, though as
    /// fast as a standard flow. That is at most a little more than RFC 9438 asks for, which
    /// compares windows, not growth, with those of a standard flow.
    #[inline(always)]
    fn increase_q16(&mut self, window: Window, sample: &Sample) -> u32 {
        if self.curve.plateau_segments() == 0 {
            self.curve.rise(sample.now_us, window.cwnd_segments, window.cwnd_segments, 1);
        }
        let growth_q16 =
            self.curve.growth_q16(window.cwnd_segments, sample.now_us, self.queue.rtt_us(), 1);
        growth_q16.max(LEAST_INCREASE_Q16) as u32
    }

    /// Slow start, to a known threshold or to the queue that shows its end.
    #[inline(always)]
    fn start_up(&mut self, window: Window, sample: &Sample) -> Window {
        let cwnd_segments = window.cwnd_segments;
        if self.is_start(Start::Over) && window.ssthresh_segments >= INFINITE_SSTHRESH {
            // A cut was undone that had ended slow start.
            self.transition_to(Some(Start::Again), None);
        }
        if self.is_start(Start::Fast) && cwnd_segments >= START_SEGMENTS && self.queue.is_standing()
        {
            self.transition_to(Some(Start::Gentle), None);
        }
        if self.is_start(Start::Fast) || self.is_start(Start::Over) {
            return slow_start::on_ack(window, sample.acked_segments).0;
        }
        let is_search = self.is_start(Start::Again) && self.leak.is_known();
        let end_us = if is_search {
            self.queue.noise_us()
        } else {
            (self.queue.base_us() >> START_QUEUE_SHIFT).max(START_QUEUE_US)
        };
        if self.queue.standing_us() < end_us {
            let limit_segments =
                slow_start::limited_increase_segments(window.max_ssthresh_segments);
            let most_segments = (cwnd_segments >> GENTLE_SHIFT).min(limit_segments).max(1);
            return earned(window, most_segments * ONE_Q16, sample);
        }
        let plateau_segments = if is_search {
            cwnd_segments.saturating_add(cwnd_segments >> BEYOND_SHIFT)
        } else {
            // As if this were what a cut had left: from here it grows fast at first.
            ((u64::from(cwnd_segments) << 10) / KEEP_Q10).min(u32::MAX.into()) as u32
        };
        self.curve.rise(sample.now_us, cwnd_segments, plateau_segments, 1);
        self.leak.slow_start_ends();
        self.transition_to(Some(Start::Over), None);
        let ssthresh_segments = cwnd_segments.max(MIN_WINDOW_SEGMENTS);
        Window { ssthresh_segments, credit_q16: 0, ..window }
    }

    /// Whether the losses of this round are more than a leak's.
    #[inline(always)]
    fn is_too_many(&self, window: Window) -> bool {
        let few_segments = (window.cwnd_segments >> FEW_SHIFT).clamp(1, FEW_SEGMENTS);
        u32::from(self.lost_segments) > few_segments + (window.cwnd_segments >> LEAK_SHIFT)
    }

    /// The only way from one phase to another: what slow start does next, the answer to
    /// a loss of this round, or both; None leaves the one as it is.
    #[inline(always)]
    fn transition_to(&mut self, start: Option<Start>, cut: Option<Cut>) {
        let before = Phase::from_numbers(self.start, self.cut);
        if let Some(start) = start {
            self.start = start as u8;
        }
        if let Some(cut) = cut {
            self.cut = cut as u8;
        }
        let after = Phase::from_numbers(self.start, self.cut);
        debug_assert!(
            before.zip(after).is_some_and(|(before, after)| before.leads_to(after)),
            "no edge leads from {before:?} to {after:?}",
        );
    }

    #[inline(always)]
    const fn is_start(&self, start: Start) -> bool {
        self.start == start as u8
    }

    #[inline(always)]
    const fn is_cut(&self, cut: Cut) -> bool {
        self.cut == cut as u8
    }
}

/// Base RTT / RTT, 0.7 at least, in 1/1024.
#[inline(always)]
fn drained_q10(base_us: u32, queue_us: u32) -> u64 {
    let rtt_us = u64::from(base_us) + u64::from(queue_us);
    (u64::from(base_us) * DRAINED_Q10 / rtt_us.max(1)).max(KEEP_Q10)
}

/// The window grown by an ACK's part of the increase for each RTT.
#[inline(always)]
fn earned(window: Window, increase_q16: u32, sample: &Sample) -> Window {
    let (segments, credit_q16) = window.earn(increase_q16, sample.acked_segments);
    let cwnd_segments = window.cwnd_segments.saturating_add(segments);
    Window { credit_q16, ..window.at_most_clamped(cwnd_segments) }
}
