//! Whether a path is known to leak.

use crate::record;

/// Spans of the base RTT, 16.8 s each and the first one begun, for which a loss
/// without a queue is remembered.
const SPANS: u8 = 2;
/// Rounds after a cut, the end of slow start, or the first such loss, in which
/// another one tells nothing new.
const SETTLING_ROUNDS: u8 = 3;

/// This is remembered of losses without a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Spans that are left.
    spans: u8,
    /// Rounds that are left.
    settling_rounds: u8,
    /// This speaks for a leak, with [`DRAINED`] and [`COUNTED`].
    evidence: u8,
}
record!(Leak, size = 3);

/// A loss without a queue adds this to the evidence, and a cut takes that from it: a
/// leak does not wait for a queue, as nearly all losses of a queue do that is now and
/// then not seen.
const ADDED: u8 = 2;
const TAKEN: u8 = 1;
const MOST: u8 = 3 * ADDED;
/// More than one such loss leaves.
const KNOWN: u8 = ADDED + 1;
/// The queue was drained when all that is in it had settled, and has not been seen
/// empty since.
const DRAINED: u8 = 0x80;
/// A loss of this round is in the evidence: others are of the same event, or say as
/// much.
const COUNTED: u8 = 0x40;

/// A sign is what a loss without a queue says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Nothing yet.
    None,
    /// Now the path is known to leak.
    New,
    /// It was known.
    Known,
}

impl Leak {
    pub const NONE: Self = Self { spans: 0, settling_rounds: 0, evidence: 0 };

    #[inline(always)]
    pub const fn is_known(&self) -> bool {
        self.weight() >= KNOWN
    }

    /// Returns the weight of what speaks for a leak.
    #[inline(always)]
    const fn weight(&self) -> u8 {
        self.evidence & !(DRAINED | COUNTED)
    }

    /// A loss without a queue. The first one alone may be of a queue that came and
    /// went, as with another flow's slow start.
    #[inline(always)]
    pub fn seen(&mut self) -> Sign {
        if self.settling_rounds > 0 {
            return Sign::None;
        }
        let was_known = self.is_known();
        if self.evidence & COUNTED == 0 {
            self.evidence = (self.weight() + ADDED).min(MOST) | COUNTED;
        }
        self.spans = SPANS;
        if was_known {
            return Sign::Known;
        }
        if self.is_known() {
            return Sign::New;
        }
        self.settling_rounds = SETTLING_ROUNDS;
        Sign::None
    }

    /// The window was cut, by what the queue takes or to 0.7.
    #[inline(always)]
    pub fn cut(&mut self, is_drain: bool) {
        let left = self.weight().saturating_sub(TAKEN);
        let is_drained = is_drain && (self.settling_rounds == 0 || self.evidence & DRAINED != 0);
        self.evidence = left | if is_drained { DRAINED } else { 0 };
        self.settling_rounds = SETTLING_ROUNDS;
    }

    /// Slow start came upon a queue: what it sent in the last RTT is still to come
    /// into it.
    #[inline(always)]
    pub const fn slow_start_ends(&mut self) {
        self.settling_rounds = SETTLING_ROUNDS;
    }

    #[inline(always)]
    pub fn queue_is_empty(&mut self) {
        self.evidence &= !DRAINED;
    }

    #[inline(always)]
    pub fn span_ends(&mut self) {
        self.spans = self.spans.saturating_sub(1);
        if self.spans == 0 {
            self.evidence &= DRAINED;
        }
    }

    #[inline(always)]
    pub fn round_ends(&mut self) {
        self.evidence &= !COUNTED;
        self.settling_rounds = self.settling_rounds.saturating_sub(1);
        if self.settling_rounds == 0 && self.evidence & DRAINED != 0 {
            // Whatever is in the queue is of others.
            *self = Self::NONE;
        }
    }
}
