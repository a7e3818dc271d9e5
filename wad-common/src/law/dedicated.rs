//! The law for a path of one's own holds the window at the path's bandwidth-delay product,
//! whatever is lost. Where the path is tuned no more, the standard law has the flow.

use super::{Aimd, MIN_WINDOW_SEGMENTS, ShownPhase};
use crate::record;

/// The law's state of a flow.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dedicated {
    /// A [`Phase`].
    phase: u32,
}
record!(Dedicated, size = 4);

/// A phase says who has the flow.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody has it before the first ACK.
    Begin = 0,
    /// The law holds the window.
    Hold = 1,
    /// The standard law takes a window over that was held.
    Release = 2,
    /// The standard law has it.
    Standard = 3,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Begin, Self::Hold, Self::Release, Self::Standard];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u32 == number)
    }

    /// Whether an edge leads to `next`.
    const fn leads_to(self, next: Self) -> bool {
        match next {
            Self::Begin => false,
            Self::Hold => true,
            // Once, and before anything else becomes of a window that was held.
            Self::Release => matches!(self, Self::Hold),
            Self::Standard => !matches!(self, Self::Hold),
        }
    }
}

impl Dedicated {
    /// A flow that begins. The kernel gives it these zeros.
    pub const START: Self = Self { phase: Phase::Begin as u32 };

    /// Holds the window from now on, and returns what is shown of that.
    #[inline(always)]
    #[must_use]
    pub fn hold(&mut self) -> ShownPhase {
        self.transition_to(Phase::Hold);
        ShownPhase::Hold
    }

    /// Leaves a flow with this window, of which so much is on its way, to the standard law.
    /// Returns the window that it goes on from, which is its threshold, too; None where it has
    /// both. Nothing is known of a window that was held, and the threshold that the kernel has
    /// after a loss is what was held then: the standard law begins as after a loss.
    #[inline(always)]
    #[must_use]
    pub fn fall_back(&mut self, cwnd_segments: u32, in_flight_segments: u32) -> Option<u32> {
        if self.phase != Phase::Hold as u32 {
            self.transition_to(Phase::Standard);
            return None;
        }
        self.transition_to(Phase::Release);
        let used_segments = cwnd_segments.min(in_flight_segments.max(MIN_WINDOW_SEGMENTS));
        Some(Aimd::STANDARD.on_congestion(used_segments))
    }

    /// The only way from one phase to another.
    #[inline(always)]
    fn transition_to(&mut self, next: Phase) {
        debug_assert!(
            Phase::from_number(self.phase).is_some_and(|phase| phase.leads_to(next)),
            "no edge leads from {:?} to {next:?}",
            Phase::from_number(self.phase),
        );
        self.phase = next as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Dedicated,
        Phase::{self, Begin, Hold, Release, Standard},
        ShownPhase,
    };

    #[test]
    fn a_window_that_was_held_is_released_once_and_nothing_leads_back_to_the_begin() {
        for from in Phase::ALL {
            assert!(from.leads_to(Hold) && !from.leads_to(Begin), "{from:?}");
            assert_eq!(from.leads_to(Release), from == Hold, "{from:?}");
            assert_eq!(from.leads_to(Standard), from != Hold, "{from:?}");
            assert_eq!(Phase::from_number(from as u32), Some(from));
        }
        assert_eq!(Phase::from_number(4), None);
    }

    #[test]
    #[should_panic(expected = "no edge leads from Some(Hold) to Standard")]
    fn a_window_that_was_held_does_not_become_the_standard_laws_as_it_is() {
        let mut law = Dedicated::START;
        assert_eq!(law.hold(), ShownPhase::Hold);
        law.transition_to(Standard);
    }

    #[test]
    fn only_what_was_held_is_halved_and_only_at_first() {
        let mut law = Dedicated::START;
        assert_eq!(law.fall_back(1000, 1000), None);
        assert_eq!(law.fall_back(1000, 1000), None);
        for _ in 0..2 {
            assert_eq!(law.hold(), ShownPhase::Hold);
            assert_eq!(law.hold(), ShownPhase::Hold);
            assert_eq!(law.fall_back(1000, 1200), Some(500));
            assert_eq!(law.fall_back(500, 500), None);
            assert_eq!(law.fall_back(500, 500), None);
        }
    }

    #[test]
    fn a_window_that_was_held_and_not_used_is_not_known_to_fit() {
        for (in_flight_segments, expected) in [(600, 300), (0, 2)] {
            let mut law = Dedicated::START;
            assert_eq!(law.hold(), ShownPhase::Hold);
            assert_eq!(law.fall_back(1000, in_flight_segments), Some(expected));
        }
    }
}
