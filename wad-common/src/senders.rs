//! How many flows of a path send at a time: counted while the agent looks at them.

use crate::record;

/// Counts the flows of a path that have something on its way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Senders {
    /// The look in which they are counted now: a number that no other has.
    pub look: u64,
    /// They were looked at then, by the monotonic clock.
    pub looked_ns: u64,
    /// So many were found in the look before, if that is not long ago.
    pub before: u32,
    /// So many are found in this look, so far.
    pub found: u32,
}
record!(Senders, size = 24);

/// A count that is older says nothing: no agent looks any more.
const FRESH_NS: u64 = 5_000_000_000;

/// A look in which none sends leaves no trace: one that is longer ago than all but the rarest looks
/// was not the one before.
const LOOKS_WITHIN_NS: u64 = 2_000_000_000;

impl Senders {
    /// Counts one more, in this look.
    #[inline(always)]
    pub const fn count(&mut self, look: u64, now_ns: u64) {
        if self.look != look {
            let is_recent = now_ns.saturating_sub(self.looked_ns) <= LOOKS_WITHIN_NS;
            self.before = if is_recent { self.found } else { 0 };
            self.found = 0;
            self.look = look;
        }
        self.looked_ns = now_ns;
        self.found += 1;
    }

    /// Returns how many send; 1 where that is not known. In the midst of a look the
    /// count is that of the last one: more show at once, fewer a look later.
    #[inline(always)]
    #[must_use]
    pub const fn flows(&self, now_ns: u64) -> u32 {
        let most = if self.found > self.before { self.found } else { self.before };
        if most == 0 || now_ns.saturating_sub(self.looked_ns) > FRESH_NS { 1 } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::{FRESH_NS, LOOKS_WITHIN_NS, Senders};

    fn look(senders: &mut Senders, look: u64, flows: u32) {
        (0..flows).for_each(|_| senders.count(look, look * 1_000));
    }

    #[test]
    fn more_show_at_once_and_fewer_a_look_later() {
        let mut senders = Senders::default();
        assert_eq!(senders.flows(0), 1);
        look(&mut senders, 1, 3);
        assert_eq!(senders.flows(1_000), 3);
        look(&mut senders, 2, 2);
        assert_eq!(senders.flows(2_000), 3);
        look(&mut senders, 2, 8);
        assert_eq!(senders.flows(2_000), 10);
        look(&mut senders, 3, 1);
        assert_eq!(senders.flows(3_000), 10);
        look(&mut senders, 4, 1);
        assert_eq!(senders.flows(4_000), 1);
    }

    #[test]
    fn an_old_count_says_nothing() {
        let mut senders = Senders::default();
        look(&mut senders, 1, 64);
        assert_eq!(senders.flows(1_000 + FRESH_NS), 64);
        assert_eq!(senders.flows(1_001 + FRESH_NS), 1);
    }

    #[test]
    fn one_that_sends_after_many_had_stopped_is_alone() {
        let mut senders = Senders::default();
        look(&mut senders, 1, 64);
        let later_ns = 1_001 + LOOKS_WITHIN_NS;
        senders.count(2, later_ns);
        assert_eq!(senders.flows(later_ns), 1);
    }
}
