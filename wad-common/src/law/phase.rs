//! A phase says where a law is with a flow, in the words that users see.
//!
//! Each law has phases of its own, which it changes by a `transition_to` that asserts
//! that an edge leads from the one to the other. What is here is what they have in
//! common: a name and a number for each, and the place where it is kept for readers.

use super::Window;

/// The place of the byte that holds a [`ShownPhase`] in `icsk_ca_priv` of a flow under
/// a law of ours: 0 before the first ACK for what it sent.
pub const PLACE: u32 = 26;

/// The place of the greatest RTT that the law has seen, in microseconds, in 32 bits there: 0
/// before the first.
pub const MAX_RTT_PLACE: u32 = 28;

/// The names of the laws that keep it there begin with this.
pub const LAW_PREFIX: &[u8] = b"wad_";

/// A law does this with a flow, as an instrument shows it.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownPhase {
    /// The window doubles in an RTT, or as fast as the law's slow start goes.
    SlowStart = 1,
    /// Slow start is limited as RFC 3742 has it.
    LimitedSlowStart = 2,
    /// The window grows, or follows the queue, by the law's own rule.
    CongestionAvoidance = 3,
    /// The window goes down, or stays down for a round, after congestion.
    Recovery = 4,
    /// A full queue of this host is waited for, without an answer to it.
    LocalStall = 5,
    /// Slow start goes on, slower, because a queue shows.
    GentleSlowStart = 6,
    /// Slow start came again, to find what losses took that no congestion caused.
    Search = 7,
    /// The window is below what it was, so that the queue runs empty.
    Drain = 8,
    /// The window is what it was before a drain, whose ACKs come in.
    Refill = 9,
    /// The ACKs are of another window: nothing follows from them.
    Settle = 10,
    /// The window is held, whatever is lost.
    Hold = 11,
}

impl ShownPhase {
    /// All of them, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 11] = [
        Self::SlowStart,
        Self::LimitedSlowStart,
        Self::CongestionAvoidance,
        Self::Recovery,
        Self::LocalStall,
        Self::GentleSlowStart,
        Self::Search,
        Self::Drain,
        Self::Refill,
        Self::Settle,
        Self::Hold,
    ];

    /// The phase of this number; None of 0 and what is no phase.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u8 == number)
    }

    /// Returns its name, for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::LimitedSlowStart => "limited_slow_start",
            Self::CongestionAvoidance => "congestion_avoidance",
            Self::Recovery => "recovery",
            Self::LocalStall => "local_stall",
            Self::GentleSlowStart => "gentle_slow_start",
            Self::Search => "search",
            Self::Drain => "drain",
            Self::Refill => "refill",
            Self::Settle => "settle",
            Self::Hold => "hold",
        }
    }

    /// Returns what it is, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::SlowStart => "the window grows as fast as slow start goes",
            Self::LimitedSlowStart => "slow start is limited by max_ssthresh (RFC 3742)",
            Self::CongestionAvoidance => "the window follows the law's own rule",
            Self::Recovery => "the window was cut, or is being cut, for congestion",
            Self::LocalStall => "a full queue of this host is waited for, unanswered",
            Self::GentleSlowStart => "slow start goes on, slower, because a queue shows",
            Self::Search => "slow start again, for what losses without congestion took",
            Self::Drain => "the window is smaller, so that the queue runs empty",
            Self::Refill => "the window is back; the ACKs of a drain come in",
            Self::Settle => "the ACKs are of another window: the law waits for a round",
            Self::Hold => "the window is held, whatever is lost",
        }
    }

    /// The phase of a window that grows as RFC 5681 and RFC 3742 have it.
    #[inline(always)]
    #[must_use]
    pub const fn of_growing(window: &Window) -> Self {
        if !window.in_slow_start() {
            Self::CongestionAvoidance
        } else if window.is_limited() {
            Self::LimitedSlowStart
        } else {
            Self::SlowStart
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ShownPhase, Window};

    #[test]
    fn numbers_and_names_tell_them_apart() {
        for (n, phase) in ShownPhase::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(phase as u8), n + 1);
            assert_eq!(ShownPhase::from_number(phase as u8), Some(phase));
            let namesakes = ShownPhase::ALL.into_iter().filter(|own| own.name() == phase.name());
            assert_eq!(namesakes.count(), 1);
        }
        assert_eq!(ShownPhase::from_number(0), None);
        assert_eq!(ShownPhase::from_number(12), None);
    }

    #[test]
    fn slow_start_is_limited_between_the_limit_and_the_threshold() {
        let at = |cwnd_segments, ssthresh_segments, max_ssthresh_segments| {
            ShownPhase::of_growing(&Window {
                cwnd_segments,
                ssthresh_segments,
                clamp_segments: u32::MAX,
                max_ssthresh_segments,
                credit_q16: 0,
            })
        };
        assert_eq!(at(99, 1000, 100), ShownPhase::SlowStart);
        assert_eq!(at(100, 1000, 100), ShownPhase::LimitedSlowStart);
        assert_eq!(at(1000, 1000, 100), ShownPhase::CongestionAvoidance);
        assert_eq!(at(99, 100, 100), ShownPhase::SlowStart);
        assert_eq!(at(999, 1000, u32::MAX), ShownPhase::SlowStart);
    }
}
