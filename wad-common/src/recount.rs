//! The counts of a path are held against the flows that there are. A flow whose end
//! nobody sees would be counted for ever: another program on the cgroup may have taken
//! the callback that tells of it.
//!
//! A walk looks at all flows while others come and go. What is read before it and after
//! it gives bounds that hold all the same: a difference is one only where none of those
//! that came or went meanwhile can have made it.

use crate::record;

/// The counts of a path at one moment, those that only rise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Flows that came to be tuned.
    pub admitted: u64,
    /// Tuned flows that went.
    pub released: u64,
    /// Flows that were established.
    pub opened: u64,
    /// Established flows that ended.
    pub closed: u64,
}
record!(Counted, size = 32);

/// The flows of a path that a walk has seen.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// All of them.
    pub flows: u64,
    /// Tuned ones.
    pub tuned: u64,
    /// Tuned ones that were matched before the walk began.
    pub tuned_before: u64,
    /// Flows that were established before it began.
    pub established_before: u64,
}
record!(Seen, size = 32);

impl Seen {
    /// Adds a flow, which was matched and established at these times, 0 for not yet, to
    /// what a walk has seen that began then.
    #[inline(always)]
    pub const fn add(
        &mut self,
        is_tuned: bool,
        [matched_ns, established_ns]: [u64; 2],
        began_ns: u64,
    ) {
        self.flows = self.flows.saturating_add(1);
        if is_tuned {
            self.tuned = self.tuned.saturating_add(1);
            if matched_ns < began_ns {
                self.tuned_before = self.tuned_before.saturating_add(1);
            }
        }
        if established_ns != 0 && established_ns < began_ns {
            self.established_before = self.established_before.saturating_add(1);
        }
    }
}

/// So far counts are from the flows that there are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// So many tuned flows are counted too many, or too few where it is below zero.
    pub tuned: i64,
    /// So many flows have ended and are not counted as closed.
    pub unseen: i64,
}
record!(Drift, size = 16);

impl Drift {
    /// Returns what is sure to be wrong, with the counts as they were before and after a
    /// walk.
    ///
    /// All flows that were admitted before the walk and are not released by its end are
    /// there all the while, and are seen; what is left over of them is nowhere. All that
    /// are seen were admitted by its end, and are there still if they were not released
    /// since it began; those beyond what is counted are counted too few.
    #[inline(always)]
    #[must_use]
    pub const fn between(before: &Counted, after: &Counted, seen: &Seen) -> Self {
        let least = difference(before.admitted, after.released, seen.tuned_before);
        let most = difference(after.admitted, before.released, seen.tuned);
        let tuned = if least > 0 {
            least
        } else if most < 0 {
            most
        } else {
            0
        };
        let unseen = difference(before.opened, after.closed, seen.established_before);
        Self { tuned, unseen: if unseen > 0 { unseen } else { 0 } }
    }

    /// Returns what two walks have both found: a program that was held up in between two
    /// of its counts is one that a single walk may see so.
    #[inline(always)]
    #[must_use]
    pub const fn agreed(&self, other: &Self) -> Self {
        Self { tuned: lesser(self.tuned, other.tuned), unseen: lesser(self.unseen, other.unseen) }
    }

    /// Returns what is left of it when so much has been put right.
    #[inline(always)]
    #[must_use]
    pub const fn without(&self, corrected: &Self) -> Self {
        Self {
            tuned: self.tuned.wrapping_sub(corrected.tuned),
            unseen: self.unseen.wrapping_sub(corrected.unseen),
        }
    }
}

/// The counts wrap no sooner than the universe ends, but a difference may be below zero.
#[inline(always)]
const fn difference(came: u64, went: u64, seen: u64) -> i64 {
    came.wrapping_sub(went).wrapping_sub(seen) as i64
}

/// Returns what both are beyond zero, on the same side of it.
#[inline(always)]
const fn lesser(a: i64, b: i64) -> i64 {
    if a > 0 && b > 0 {
        if a < b { a } else { b }
    } else if a < 0 && b < 0 {
        if a > b { a } else { b }
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// A path with its flows, by the time at which each came, and whether the walk has
    /// looked at its place.
    #[derive(Default)]
    struct Path {
        counted: Counted,
        flows: Vec<Option<u64>>,
        clock: u64,
        lost: u64,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Come,
        Go(usize),
        /// A flow ends, and nobody sees it.
        Vanish(usize),
        /// The walk looks at the next flow.
        Look,
    }

    impl Path {
        fn take(&mut self, step: Step) {
            self.clock += 1;
            match step {
                Step::Come => {
                    // The place of one that is gone may be before or behind the walk.
                    let place = self.flows.iter().position(Option::is_none);
                    let flow = Some(self.clock);
                    match place {
                        Some(place) if self.clock.is_multiple_of(2) => self.flows[place] = flow,
                        _ => self.flows.push(flow),
                    }
                    self.counted.admitted += 1;
                    self.counted.opened += 1;
                }
                Step::Go(n) if self.end(n) => {
                    self.counted.released += 1;
                    self.counted.closed += 1;
                }
                Step::Vanish(n) if self.end(n) => self.lost += 1,
                Step::Go(_) | Step::Vanish(_) | Step::Look => {}
            }
        }

        fn end(&mut self, n: usize) -> bool {
            let live: Vec<_> = (0..self.flows.len()).filter(|n| self.flows[*n].is_some()).collect();
            let Some(place) = live.get(n % live.len().max(1)) else { return false };
            self.flows[*place] = None;
            true
        }

        /// Walks over all flows, while these steps are taken.
        fn walk(&mut self, meanwhile: &[Step]) -> (Counted, Seen) {
            let (before, began) = (self.counted, self.clock + 1);
            let (mut seen, mut place) = (Seen::default(), 0);
            let mut look = |flows: &[Option<u64>]| {
                let Some(flow) = flows.get(place) else { return false };
                if let Some(came) = flow {
                    seen.add(true, [*came; 2], began);
                }
                place += 1;
                true
            };
            self.clock += 1;
            for step in meanwhile {
                match step {
                    Step::Look => _ = look(&self.flows),
                    other => self.take(*other),
                }
            }
            while look(&self.flows) {}
            (before, seen)
        }

        fn drift(&mut self, meanwhile: &[Step]) -> Drift {
            let (before, seen) = self.walk(meanwhile);
            Drift::between(&before, &self.counted, &seen)
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Come),
            (0_usize..50).prop_map(Step::Go),
            (0_usize..50).prop_map(Step::Vanish),
            Just(Step::Look),
        ]
    }

    proptest! {
        /// Whatever comes and goes, no flow that is there is counted out, and what is
        /// missed is no more than went while the walk was on its way.
        #[test]
        fn a_walk_finds_what_is_lost_but_for_what_goes_meanwhile(
            first in prop::collection::vec(step(), 0..200),
            meanwhile in prop::collection::vec(step(), 0..100),
        ) {
            let mut path = Path::default();
            first.into_iter().for_each(|step| path.take(step));
            let (lost_before, went_before) = (path.lost as i64, path.counted.released as i64);
            let drift = path.drift(&meanwhile);
            let went = path.counted.released as i64 - went_before;
            prop_assert!(drift.tuned <= path.lost as i64, "{drift:?}");
            prop_assert!(drift.tuned >= lost_before - went, "{drift:?}, lost {lost_before}");
            prop_assert_eq!(drift.tuned, drift.unseen);
            // Nothing moves: it is exact.
            let quiet = path.drift(&[]);
            prop_assert_eq!(quiet.tuned, path.lost as i64);
        }

        /// Counts that are too low are found as well.
        #[test]
        fn what_is_counted_too_few_is_found(live in 0_u64..100, too_few in 0_u64..200) {
            let counted = Counted { admitted: 1000, released: 1000 - live + too_few, ..Counted::default() };
            let seen = Seen { flows: live, tuned: live, tuned_before: live, ..Seen::default() };
            prop_assert_eq!(Drift::between(&counted, &counted, &seen).tuned, -(too_few as i64));
        }
    }

    #[test]
    fn two_walks_agree_on_the_lesser() {
        let drift = |tuned, unseen| Drift { tuned, unseen };
        assert_eq!(drift(5, 2).agreed(&drift(3, 4)), drift(3, 2));
        assert_eq!(drift(-5, 0).agreed(&drift(-3, 4)), drift(-3, 0));
        assert_eq!(drift(5, 1).agreed(&drift(-5, 0)), drift(0, 0));
        assert_eq!(drift(5, 2).without(&drift(3, 2)), drift(2, 0));
    }
}
