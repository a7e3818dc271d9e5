//! The parts that paths have in the memory of tuned flows while that is short, and cgroups
//! in each path's: all alike, but what one does not want is the others'.

use std::collections::{HashMap, HashSet};

use wad_common::growth::{Holder, Holding, Room};

/// Remembers who gives back what it has beyond its part.
#[derive(Debug, Default)]
pub struct Parts {
    cut: HashSet<Holder>,
}

/// The flows of a holder hold so much, and would get so much more if there were memory.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    holds_bytes: u64,
    wants_bytes: u64,
}

impl Demand {
    const fn bytes(self) -> u64 {
        self.holds_bytes.saturating_add(self.wants_bytes)
    }
}

impl Parts {
    /// Returns those who have their part of this room. One that would have more grows no
    /// further. One that holds an eighth more than that gives back: one that is alone does
    /// so from 84% of the bound on, and the largest shrink until less than 90% is held (see
    /// `Level`), so that there is one then. It has the cap on its buffers until that is
    /// gone, or until others keep memory short and it has come to want no more than half of
    /// its part.
    pub fn held(
        &mut self,
        room_bytes: u64,
        holdings: &[Holding],
        is_short: bool,
    ) -> HashMap<Holder, Room> {
        let mut demands: HashMap<Holder, Demand> = HashMap::new();
        for flow in holdings {
            let demand = demands.entry(flow.holder).or_default();
            demand.holds_bytes += flow.holds_bytes();
            demand.wants_bytes += u64::from(flow.wants_bytes);
        }
        let part_bytes = part_bytes(room_bytes, demands.values().map(|demand| demand.bytes()));
        let was_cut = std::mem::take(&mut self.cut);
        let mut held = HashMap::new();
        for (holder, demand) in demands {
            let is_done = is_short && demand.bytes() <= part_bytes / 2;
            let stays_cut = was_cut.contains(&holder) && !is_done;
            if stays_cut || demand.holds_bytes > part_bytes.saturating_add(part_bytes / 8) {
                self.cut.insert(holder);
                held.insert(holder, Room::Cut);
            } else if demand.bytes() > part_bytes {
                held.insert(holder, Room::Kept);
            }
        }
        held
    }

    /// Forgets who had to give back: there is memory enough.
    pub fn forget(&mut self) {
        self.cut = HashSet::new();
    }
}

/// Returns the part of each of those who want more than their part. The others have what
/// they want, and leave the rest (max-min fairness).
fn part_bytes(room_bytes: u64, demands: impl ExactSizeIterator<Item = u64>) -> u64 {
    let mut demands: Vec<u64> = demands.collect();
    demands.sort_unstable();
    let mut left_bytes = room_bytes;
    for (satisfied, demand_bytes) in demands.iter().enumerate() {
        let part_bytes = left_bytes / (demands.len() - satisfied) as u64;
        if *demand_bytes > part_bytes {
            return part_bytes;
        }
        left_bytes -= demand_bytes;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holder(policy: u32) -> Holder {
        Holder { policy, ..Holder::default() }
    }

    fn flow(policy: u32, holds_bytes: u32, wants_bytes: u32) -> Holding {
        Holding {
            holder: holder(policy),
            sends_bytes: holds_bytes / 2,
            receives_bytes: holds_bytes - holds_bytes / 2,
            wants_bytes,
            ..Holding::default()
        }
    }

    #[test]
    fn one_may_have_all_that_nobody_else_wants() {
        let mut parts = Parts::default();
        let mut held = |large: [u32; 2], small: [u32; 2]| {
            let flows = [flow(1, large[0], large[1]), flow(2, small[0], small[1])];
            let held = parts.held(800, &flows, true);
            [1, 2].map(|policy| held.get(&holder(policy)).copied())
        };
        use Room::{Cut, Kept};
        assert_eq!(held([500, 200], [50, 50]), [None, None]);
        assert_eq!(held([700, 100], [0, 0]), [None, None]);
        assert_eq!(held([700, 200], [50, 50]), [Some(Kept), None]);
        // As the other wants more, the first one's part falls, and it gives back.
        assert_eq!(held([700, 200], [100, 100]), [Some(Cut), None]);
        assert_eq!(held([500, 0], [200, 200]), [Some(Cut), None]);
        // Both want more than half.
        assert_eq!(held([300, 200], [390, 200]), [Some(Cut), Some(Kept)]);
        assert_eq!(held([200, 300], [390, 200]), [Some(Cut), Some(Kept)]);
        assert_eq!(held([150, 30], [390, 300]), [None, Some(Kept)]);
    }

    #[test]
    fn where_there_is_memory_again_the_cap_rises_with_those_who_have_it() {
        let mut parts = Parts::default();
        let cut = HashMap::from([(holder(1), Room::Cut)]);
        assert_eq!(parts.held(800, &[flow(1, 950, 0)], true), cut);
        assert_eq!(parts.held(800, &[flow(1, 300, 50)], false), cut);
        parts.forget();
        assert_eq!(parts.held(800, &[flow(1, 300, 50)], false), HashMap::new());
    }

    #[test]
    fn it_is_the_same_for_the_cgroups_of_a_path() {
        let of = |cgroup, holds_bytes| Holding {
            holder: Holder { cgroup, ..holder(1) },
            ..flow(1, holds_bytes, 100)
        };
        let flows: Vec<_> = (0..64).map(|_| of(7, 20)).chain([of(8, 100)]).collect();
        let held = Parts::default().held(1_000, &flows, true);
        assert_eq!(held, HashMap::from([(Holder { cgroup: 7, ..holder(1) }, Room::Cut)]));
    }

    #[test]
    fn where_others_leave_nothing_all_give_back() {
        let flows = [flow(1, 10, 0), flow(2, 1, 1), flow(3, 0, 0)];
        let held = Parts::default().held(0, &flows, true);
        assert_eq!(held, HashMap::from([1, 2].map(|policy| (holder(policy), Room::Cut))));
    }

    proptest! {
        #[test]
        fn whoever_grows_fits_and_near_the_bound_somebody_is_held(
            holds in prop::collection::vec((0_u32..1_000, 0_u32..1_000), 1..20),
            room_bytes in 0_u64..10_000,
        ) {
            let flows: Vec<_> =
                holds.iter().zip(1..).map(|((holds, wants), n)| flow(n, *holds, *wants)).collect();
            let held = Parts::default().held(room_bytes, &flows, true);
            let demand = |flow: &Holding| flow.holds_bytes() + u64::from(flow.wants_bytes);
            let all: u64 = flows.iter().map(demand).sum();
            prop_assert_eq!(all > room_bytes, !held.is_empty());
            let growing = flows.iter().filter(|flow| !held.contains_key(&flow.holder));
            prop_assert!(growing.map(demand).sum::<u64>() <= room_bytes);
            // Over it by an eighth, somebody shrinks.
            let holds: u64 = flows.iter().map(Holding::holds_bytes).sum();
            if holds > room_bytes + room_bytes / 8 {
                prop_assert!(held.values().any(|room| *room == Room::Cut));
            }
        }
    }
}
