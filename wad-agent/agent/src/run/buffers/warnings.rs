//! Which paths are to be named where the bound on memory is met: each that has its part of
//! it, and each seldom.

use std::{cmp::Reverse, collections::HashMap, time::Instant};

use wad_common::{
    growth::{Holder, Holding, Room},
    memory::Level,
};
use wad_toolbox::seldom::Seldom;

/// Remembers when each path was named last.
#[derive(Debug, Default)]
pub struct Warnings(HashMap<Option<u32>, Seldom>);

/// A path that is to be named now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warning {
    /// Index of its policy; None where the bound is met and no path has its part.
    pub policy: Option<u32>,
    /// Memory of its flows that have their part.
    pub holds_bytes: u64,
    /// Their buffers would grow by so much now.
    pub wants_bytes: u64,
    /// The largest of their buffers shrink. Else none of them grows.
    pub shrinks: bool,
}

impl Warnings {
    /// Returns whom to name at this time, whoever holds the most first. From then on they
    /// count as named.
    pub fn due(
        &mut self,
        level: Level,
        holdings: &[Holding],
        held: &HashMap<Holder, Room>,
        now: Instant,
    ) -> Vec<Warning> {
        let mut short: HashMap<Option<u32>, Warning> = HashMap::new();
        for flow in holdings {
            let Some(room) = held.get(&flow.holder) else { continue };
            let policy = Some(flow.holder.policy);
            let warning = short.entry(policy).or_insert(Warning { policy, ..Warning::default() });
            warning.holds_bytes += flow.holds_bytes();
            warning.wants_bytes += u64::from(flow.wants_bytes);
            warning.shrinks |= level == Level::Over && *room == Room::Cut;
        }
        if short.is_empty() {
            short.insert(None, Warning::default());
        }
        let mut due: Vec<_> = short.into_values().collect();
        // Buffers that are full would double at most: others are not full yet.
        due.retain(|path| level == Level::Over || path.holds_bytes >= path.wants_bytes);
        due.retain(|path| self.0.entry(path.policy).or_default().may_say_at(now));
        due.sort_unstable_by_key(|path| Reverse(path.holds_bytes));
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn flow(policy: u32, cgroup: u64, holds_bytes: u32, wants_bytes: u32) -> Holding {
        let holder = Holder { cgroup, policy, reserved: 0 };
        Holding { holder, sends_bytes: holds_bytes, wants_bytes, ..Holding::default() }
    }

    fn held<const N: usize>(rooms: [(u32, u64, Room); N]) -> HashMap<Holder, Room> {
        let of = |(policy, cgroup, room)| (Holder { cgroup, policy, reserved: 0 }, room);
        rooms.map(of).into()
    }

    #[test]
    fn each_path_that_has_its_part_is_named_every_ten_minutes() {
        let (mut warnings, begun) = (Warnings::default(), Instant::now());
        let flows = [flow(1, 0, 100, 10), flow(2, 0, 300, 10), flow(3, 0, 500, 10)];
        let mut named = |after_s, short: &[u32]| -> Vec<u32> {
            let kept = |policy: &u32| (Holder { policy: *policy, ..Holder::default() }, Room::Kept);
            let held = short.iter().map(kept).collect();
            let now = begun + Duration::from_secs(after_s);
            let due = warnings.due(Level::Near, &flows, &held, now);
            due.iter().filter_map(|path| path.policy).collect()
        };
        assert_eq!(named(0, &[1, 2]), [2, 1]);
        assert_eq!(named(1, &[1, 2]), [0; 0]);
        // Another one is news whenever it comes, and has a time of its own.
        assert_eq!(named(300, &[1, 2, 3]), [3]);
        assert_eq!(named(599, &[1, 2, 3]), [0; 0]);
        assert_eq!(named(600, &[1, 2, 3]), [2, 1]);
        assert_eq!(named(899, &[1, 2, 3]), [0; 0]);
        assert_eq!(named(900, &[1, 3]), [3]);
        assert_eq!(named(1_200, &[1]), [1]);
    }

    #[test]
    fn a_path_is_its_cgroups_that_have_their_part() {
        let flows = [flow(1, 7, 100, 1), flow(1, 7, 50, 1), flow(1, 8, 30, 1), flow(1, 9, 9, 1)];
        let held = held([(1, 7, Room::Cut), (1, 8, Room::Kept)]);
        let due = |level| Warnings::default().due(level, &flows, &held, Instant::now());
        let path =
            |shrinks| vec![Warning { policy: Some(1), holds_bytes: 180, wants_bytes: 3, shrinks }];
        assert_eq!(due(Level::Over), path(true));
        // The cap stays for a while, and falls no more.
        assert_eq!(due(Level::Near), path(false));
    }

    #[test]
    fn empty_buffers_are_named_where_it_is_too_much_only() {
        let flows = [flow(1, 0, 100, 101), flow(2, 0, 100, 100)];
        let held = held([(1, 0, Room::Kept), (2, 0, Room::Kept)]);
        let mut warnings = Warnings::default();
        let mut named = |level| {
            let due = warnings.due(level, &flows, &held, Instant::now());
            due.iter().map(|path| path.policy).collect::<Vec<_>>()
        };
        assert_eq!(named(Level::Near), [Some(2)]);
        assert_eq!(named(Level::Over), [Some(1)]);
    }

    #[test]
    fn a_bound_that_others_meet_is_said_too() {
        let mut warnings = Warnings::default();
        let mut due = || warnings.due(Level::Near, &[], &HashMap::new(), Instant::now());
        assert_eq!((due(), due()), (vec![Warning::default()], vec![]));
    }
}
