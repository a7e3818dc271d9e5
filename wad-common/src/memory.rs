//! The memory that all TCP flows of the host hold is kept within a bound: growth stops near
//! it, and beyond it the largest buffers shrink.

/// A level says how near the bound is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Buffers grow with need.
    #[default]
    Free,
    /// They grow no more: it is near, or would be if they did.
    Near,
    /// The largest shrink.
    Over,
}

/// From these parts of the bound on, in percent...
const NEAR_PERCENT: u64 = 80;
const OVER_PERCENT: u64 = 95;
/// ...and until so much less is held again.
const BACK_PERCENT: u64 = 5;

/// A cut is given this time to show: a few round trips, in which data leaves.
const CUT_MS: u64 = 500;
/// A cap rises by a quarter in this time.
const RISE_MS: u64 = 1_000;
/// No cap is lower: about what the kernel gives to a new connection (tcp(7)).
pub const LEAST_CAP_BYTES: u32 = 128 << 10;
/// No buffer is larger (socket(7)).
const LARGEST_BYTES: u32 = 1 << 31;

impl Level {
    /// Returns the level that follows. Growth stops before it is too much: with what
    /// flows would get now, and are sure to fill.
    #[must_use]
    pub const fn next(self, look: &Look) -> Self {
        let held = look.percent(look.held_bytes);
        let soon = look.percent(look.held_bytes.saturating_add(look.wants_bytes));
        let (near, over) = match self {
            Self::Free => (NEAR_PERCENT, OVER_PERCENT),
            Self::Near => (NEAR_PERCENT - BACK_PERCENT, OVER_PERCENT),
            Self::Over => (NEAR_PERCENT - BACK_PERCENT, OVER_PERCENT - BACK_PERCENT),
        };
        if held >= over {
            Self::Over
        } else if soon >= near {
            Self::Near
        } else {
            Self::Free
        }
    }
}

/// Keeps watch over the memory, with the cap on each buffer that follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryWatch {
    /// The level at the last look.
    pub level: Level,
    /// Most that a buffer may have, as the kernel keeps it; None for what its path
    /// says.
    pub cap_bytes: Option<u32>,
    /// The cap was changed last at this time.
    changed_ms: u64,
}

/// A look at the memory of all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The kernel's own count of what is held.
    pub held_bytes: u64,
    /// Bytes that buffers would grow by now.
    pub wants_bytes: u64,
    /// It is to be no more.
    pub limit_bytes: u64,
    /// The largest buffer of a flow, of those that are to shrink, holds so much; 0 where
    /// there is none.
    pub largest_bytes: u32,
    /// The time of the look, by any clock that only goes forward.
    pub now_ms: u64,
}

impl Look {
    /// Returns what there is for tuned flows, which hold so much of all that is held, before
    /// memory is short, or is so no more: while it is, they hold or want more than this.
    #[must_use]
    pub const fn room_bytes(&self, tuned_bytes: u64) -> u64 {
        let others_bytes = self.held_bytes.saturating_sub(tuned_bytes);
        let free_bytes = (self.limit_bytes / 100).saturating_mul(NEAR_PERCENT - BACK_PERCENT);
        free_bytes.saturating_sub(others_bytes)
    }

    const fn percent(&self, bytes: u64) -> u64 {
        match bytes.saturating_mul(100).checked_div(self.limit_bytes) {
            Some(percent) => percent,
            None => 100,
        }
    }
}

impl MemoryWatch {
    /// Returns the watch after this look. Over the bound the cap halves what the largest
    /// buffer holds, again and again until it fits; when there is room it rises slowly,
    /// and goes. It does not fall where nothing is there to shrink: what comes to that
    /// later begins with its own half.
    #[must_use]
    pub const fn after(self, look: &Look) -> Self {
        let level = self.level.next(look);
        let waited_ms = look.now_ms.saturating_sub(self.changed_ms);
        let cap_bytes = match (level, self.cap_bytes) {
            (Level::Over, cap) if look.largest_bytes == 0 => cap,
            (Level::Over, None) => Some(half(look.largest_bytes)),
            (Level::Over, Some(cap)) if waited_ms >= CUT_MS => {
                let largest = look.largest_bytes;
                Some(half(if largest < cap { largest } else { cap }))
            }
            (Level::Free, Some(cap)) if waited_ms >= RISE_MS => {
                let more = cap.saturating_add(cap / 4);
                if more < LARGEST_BYTES { Some(more) } else { None }
            }
            (_, cap) => cap,
        };
        let is_same = match (cap_bytes, self.cap_bytes) {
            (Some(after), Some(before)) => after == before,
            (None, None) => true,
            _ => false,
        };
        let changed_ms = if is_same { self.changed_ms } else { look.now_ms };
        Self { level, cap_bytes, changed_ms }
    }
}

const fn half(bytes: u32) -> u32 {
    if bytes / 2 > LEAST_CAP_BYTES { bytes / 2 } else { LEAST_CAP_BYTES }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u32 = 1 << 20;

    #[test]
    fn a_level_is_left_later_than_it_is_entered() {
        fn along<const N: usize>(held: [u64; N]) -> [Level; N] {
            let mut level = Free;
            held.map(|held| {
                level = level.next(&Look { held_bytes: held, limit_bytes: 100, ..Look::default() });
                level
            })
        }
        use Level::{Free, Near, Over};
        assert_eq!(along([0, 79, 80, 79, 75, 74]), [Free, Free, Near, Near, Near, Free]);
        assert_eq!(along([95, 94, 90, 89, 76, 74]), [Over, Over, Over, Near, Near, Free]);
        assert_eq!(along([94, 95, 0, 200]), [Near, Over, Free, Over]);
        let of = |held_bytes, limit_bytes| Look { held_bytes, limit_bytes, ..Look::default() };
        assert_eq!([of(1, 0), of(u64::MAX, u64::MAX)].map(|look| Free.next(&look)), [Over, Free]);
    }

    #[test]
    fn room_is_what_others_leave() {
        let look = Look { held_bytes: 500, limit_bytes: 1_000, ..Look::default() };
        assert_eq!([500, 300, 0].map(|tuned| look.room_bytes(tuned)), [750, 550, 250]);
        let full = Look { held_bytes: 900, ..look };
        assert_eq!([950, 900, 0].map(|tuned| full.room_bytes(tuned)), [750, 750, 0]);
    }

    #[test]
    fn what_flows_would_get_now_stops_growth_and_shrinks_nothing() {
        let wanting =
            |wants_bytes| Look { held_bytes: 40, wants_bytes, limit_bytes: 100, ..Look::default() };
        assert_eq!(Level::Free.next(&wanting(39)), Level::Free);
        assert_eq!(Level::Free.next(&wanting(40)), Level::Near);
        assert_eq!(Level::Near.next(&wanting(1_000)), Level::Near);
        assert_eq!(Level::Near.next(&wanting(0)), Level::Free);
    }

    #[test]
    fn the_largest_is_halved_until_it_fits_and_then_rises() {
        let mut watch = MemoryWatch::default();
        let mut look = |held_bytes, largest_bytes, now_ms| {
            let look = Look { held_bytes, wants_bytes: 0, limit_bytes: 100, largest_bytes, now_ms };
            watch = watch.after(&look);
            watch.cap_bytes
        };
        assert_eq!(look(90, 64 * MIB, 0), None);
        assert_eq!(look(96, 64 * MIB, 100), Some(32 * MIB));
        // It takes effect first.
        assert_eq!(look(99, 60 * MIB, 500), Some(32 * MIB));
        assert_eq!(look(99, 20 * MIB, 600), Some(10 * MIB));
        // Near the bound it stays.
        assert_eq!(look(89, 9 * MIB, 5_000), Some(10 * MIB));
        assert_eq!(look(70, 9 * MIB, 5_100), Some(12 * MIB + MIB / 2));
        assert_eq!(look(70, 9 * MIB, 6_000), Some(12 * MIB + MIB / 2));
        let mut now_ms = 6_000;
        while look(70, 9 * MIB, now_ms).is_some() {
            now_ms += 1_000;
        }
        assert!((25_000..60_000).contains(&now_ms), "{now_ms}");
    }

    #[test]
    fn where_nothing_is_there_to_shrink_the_cap_stays() {
        let over = Look { held_bytes: 99, limit_bytes: 100, ..Look::default() };
        let watch = MemoryWatch::default().after(&over);
        assert_eq!((watch.level, watch.cap_bytes), (Level::Over, None));
        let large = watch.after(&Look { largest_bytes: 64 * MIB, now_ms: 1_000, ..over });
        assert_eq!(large.cap_bytes, Some(32 * MIB));
        assert_eq!(large.after(&Look { now_ms: 9_000, ..over }).cap_bytes, Some(32 * MIB));
    }

    proptest! {
        #[test]
        fn a_cap_is_never_too_low_and_falls_only_beyond_the_bound(
            looks in prop::collection::vec((0_u64..200, 0_u32.., 0_u64..2_000), 1..100)
        ) {
            let mut watch = MemoryWatch::default();
            let mut now_ms = 0;
            for (held_bytes, largest_bytes, passed_ms) in looks {
                now_ms += passed_ms;
                let look = Look {
                    held_bytes,
                    wants_bytes: 0,
                    limit_bytes: 100,
                    largest_bytes,
                    now_ms,
                };
                let after = watch.after(&look);
                prop_assert!(after.cap_bytes.is_none_or(|cap| cap >= LEAST_CAP_BYTES));
                prop_assert_eq!(held_bytes >= 95, held_bytes >= 95 && after.level == Level::Over);
                let cap = |watch: MemoryWatch| watch.cap_bytes.unwrap_or(u32::MAX);
                if cap(after) < cap(watch) {
                    prop_assert!(after.level == Level::Over && largest_bytes != 0);
                }
                if cap(after) > cap(watch) {
                    prop_assert_eq!(after.level, Level::Free);
                }
                watch = after;
            }
        }
    }
}
