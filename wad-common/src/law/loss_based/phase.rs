//! The phases of a law that answers to losses.

use crate::{
    law::{ShownPhase, Window},
    record,
};

/// A phase says what such a law does with a flow. The numbers are those that are
/// shown.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// RFC 5681's.
    SlowStart = ShownPhase::SlowStart as u8,
    /// RFC 3742's.
    LimitedSlowStart = ShownPhase::LimitedSlowStart as u8,
    /// Growth by the law's own increase.
    CongestionAvoidance = ShownPhase::CongestionAvoidance as u8,
    /// The law has answered to congestion; no ACK has made the window grow since.
    Recovery = ShownPhase::Recovery as u8,
    /// The kernel has asked for a threshold because a queue of this host was full,
    /// and the law has not answered.
    LocalStall = ShownPhase::LocalStall as u8,
}

impl Phase {
    /// The phase of a window that grows.
    #[inline(always)]
    #[must_use]
    pub const fn of_growing(window: &Window) -> Self {
        match ShownPhase::of_growing(window) {
            ShownPhase::SlowStart => Self::SlowStart,
            ShownPhase::LimitedSlowStart => Self::LimitedSlowStart,
            _ => Self::CongestionAvoidance,
        }
    }

    /// The phase of this number, None before there is one.
    #[must_use]
    const fn from_number(number: u8) -> Option<Self> {
        const fn is(number: u8, phase: Phase) -> bool {
            number == phase as u8
        }
        match number {
            _ if is(number, Self::SlowStart) => Some(Self::SlowStart),
            _ if is(number, Self::LimitedSlowStart) => Some(Self::LimitedSlowStart),
            _ if is(number, Self::CongestionAvoidance) => Some(Self::CongestionAvoidance),
            _ if is(number, Self::Recovery) => Some(Self::Recovery),
            _ if is(number, Self::LocalStall) => Some(Self::LocalStall),
            _ => None,
        }
    }

    /// Whether an edge leads to `next`, for this cause.
    const fn leads_to(self, cause: Cause, next: Self) -> bool {
        match cause {
            // By its own growth a flow only goes forward.
            Cause::Growth => match self {
                Self::SlowStart => next.is_growing(),
                Self::LimitedSlowStart => next.is_growing() && !matches!(next, Self::SlowStart),
                Self::CongestionAvoidance => matches!(next, Self::CongestionAvoidance),
                Self::Recovery | Self::LocalStall => false,
            },
            // Recovery and stalls end; idle time, time-outs and what is undone lead back.
            Cause::Window => next.is_growing(),
            Cause::Asked => !next.is_growing(),
        }
    }

    const fn is_growing(self) -> bool {
        matches!(self, Self::SlowStart | Self::LimitedSlowStart | Self::CongestionAvoidance)
    }
}

/// A cause says why a phase changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An ACK came for a window that may grow: it is as the kernel has it now.
    Window,
    /// The law has made the window grow.
    Growth,
    /// The law was asked, or should have been, for a threshold.
    Asked,
}

/// A course says where the law is with a flow: a [`Phase`], or none before the first
/// ACK.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    phase: u8,
}
record!(Course, size = 1);

impl Course {
    /// A flow that begins. The kernel gives it this zero.
    pub const START: Self = Self { phase: 0 };

    /// Returns where it is; None before the first ACK.
    #[must_use]
    pub const fn phase(self) -> Option<Phase> {
        Phase::from_number(self.phase)
    }

    /// An ACK found a window that may grow.
    #[inline(always)]
    pub fn follow(&mut self, window: &Window) {
        self.transition_to(Cause::Window, Phase::of_growing(window));
    }

    /// An ACK found the one window and left the other.
    #[inline(always)]
    pub fn grow(&mut self, before: &Window, after: &Window) {
        self.follow(before);
        self.transition_to(Cause::Growth, Phase::of_growing(after));
    }

    /// The window is to go down to a threshold that the law has given.
    #[inline(always)]
    pub fn reduce(&mut self) {
        self.transition_to(Cause::Asked, Phase::Recovery);
    }

    /// The only way from one phase to another.
    #[inline(always)]
    pub(super) fn transition_to(&mut self, cause: Cause, next: Phase) {
        debug_assert!(
            self.phase().is_none_or(|phase| phase.leads_to(cause, next)),
            "no edge leads from {:?} to {next:?} for the cause {cause:?}",
            self.phase(),
        );
        self.phase = next as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Cause, Course,
        Phase::{self, CongestionAvoidance, LimitedSlowStart, LocalStall, Recovery, SlowStart},
    };

    const ALL: [Phase; 5] =
        [SlowStart, LimitedSlowStart, CongestionAvoidance, Recovery, LocalStall];

    #[test]
    fn growth_leads_forward_and_only_what_the_kernel_does_leads_back() {
        for (n, from) in ALL.into_iter().enumerate() {
            for (m, to) in ALL.into_iter().enumerate() {
                assert_eq!(from.leads_to(Cause::Growth, to), n <= m && m < 3, "{from:?} {to:?}");
                assert_eq!(from.leads_to(Cause::Window, to), m < 3, "{from:?} {to:?}");
                assert_eq!(from.leads_to(Cause::Asked, to), m >= 3, "{from:?} {to:?}");
            }
            assert_eq!(Phase::from_number(from as u8), Some(from));
        }
    }

    #[test]
    #[should_panic(expected = "no edge leads from Some(Recovery) to SlowStart")]
    fn growth_does_not_end_recovery() {
        let mut course = Course::START;
        course.transition_to(Cause::Asked, Recovery);
        course.transition_to(Cause::Growth, SlowStart);
    }
}
