//! Whether a path is known to leak.

use crate::record;

/// Spans of the base RTT, 16.8 s each and the first one begun, for which a loss
/// without a queue is remembered.
const SPANS: u8 = 2;
/// Rounds after a cut, or after the first such loss, in which another one tells
/// nothing new.
const SETTLING_ROUNDS: u8 = 3;

/// What is remembered of losses without a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Spans that are left.
    spans: u8,
    /// Rounds that are left.
    settling_rounds: u8,
    /// A set of these.
    flags: u8,
}
record!(Leak, size = 3);

/// There was such a loss more than once.
const KNOWN: u8 = 1;
/// The queue was drained, and has not been seen empty since.
const DRAINED: u8 = 2;

/// What a loss without a queue says.
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
    pub const NONE: Self = Self { spans: 0, settling_rounds: 0, flags: 0 };

    #[inline(always)]
    pub const fn is_known(&self) -> bool {
        self.spans > 0 && self.flags & KNOWN != 0
    }

    /// A loss without a queue. The first one alone may be of a queue that came and
    /// went, as with another flow's slow start.
    #[inline(always)]
    pub fn seen(&mut self) -> Sign {
        if self.settling_rounds > 0 {
            return Sign::None;
        }
        let sign = match (self.spans > 0, self.is_known()) {
            (false, _) => {
                self.flags &= !KNOWN;
                self.settling_rounds = SETTLING_ROUNDS;
                Sign::None
            }
            (true, false) => {
                self.flags |= KNOWN;
                Sign::New
            }
            (true, true) => Sign::Known,
        };
        self.spans = SPANS;
        sign
    }

    /// The window was cut, by what the queue takes or to 0.7.
    #[inline(always)]
    pub fn cut(&mut self, is_drain: bool) {
        self.settling_rounds = SETTLING_ROUNDS;
        self.flags = self.flags & KNOWN | if is_drain { DRAINED } else { 0 };
    }

    #[inline(always)]
    pub fn queue_is_empty(&mut self) {
        self.flags &= !DRAINED;
    }

    #[inline(always)]
    pub fn span_ends(&mut self) {
        self.spans = self.spans.saturating_sub(1);
    }

    #[inline(always)]
    pub fn round_ends(&mut self) {
        self.settling_rounds = self.settling_rounds.saturating_sub(1);
        if self.settling_rounds == 0 && self.flags & DRAINED != 0 {
            // Whatever is in the queue is of others.
            *self = Self::NONE;
        }
    }
}
