//! `[host] routes`: `reorder` and `delayed_ack = false` as metrics of routes, which
//! are the only way in for the first, and the only one to no delay at all for the
//! second.
//!
//! Routes that others made are never touched. The paths' prefixes get rules, right
//! before that of the main table, which lead to tables with copies of what the main
//! table has for them, plus metrics. A copy is made only of what is simple enough to
//! be copied; for the rest there is nothing, or a `throw`, and the main table decides
//! as before. The copies follow the main table as it changes. They must not outlive
//! who does that: see `guard`.
//!
//! All of it is in the agent's own network namespace.

mod copies;
mod follow;
mod guard;
mod pass;
mod remove;
mod route;
mod rule;
mod selection;
mod standing;

use netlink_packet_route::route::RouteProtocol;

pub use self::{
    follow::Follower,
    guard::{COMMAND as GUARD, run as run_guard},
    remove::{are_there, remove},
    selection::Selection,
    standing::{Counts, Report, Standing, State, means},
};

/// Whose the rules and routes are, in a column that others leave alone.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(119);

/// Right before the rule of the main table: whatever rules others have come first.
const PRIORITY: u32 = 32_765;
/// That rule's, as the kernel makes it (`fib_default_rules_init()`), and its table.
const MAIN_PRIORITY: u32 = 32_766;
const MAIN_TABLE: u32 = 254;

/// The tables begin here: one for each pair of metrics.
const FIRST_TABLE: u32 = 1_190_000;

/// What `net.ipv4.tcp_max_reordering` allows by default.
pub const MAX_REORDER_SEGMENTS: u32 = 300;

/// Each look-up of a route goes through all rules.
pub const MAX_RULES: usize = 256;

/// What a path wants of its routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Metrics {
    /// 0 for none.
    pub reorder_segments: u32,
    pub quickack: bool,
}

impl Metrics {
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// The number tells the metrics.
    pub fn table(self) -> u32 {
        FIRST_TABLE + 2 * self.reorder_segments + u32::from(self.quickack)
    }

    /// Those of a table of ours.
    pub fn of_table(table: u32) -> Option<Self> {
        let number = table.checked_sub(FIRST_TABLE)?;
        let metrics = Self { reorder_segments: number / 2, quickack: number % 2 == 1 };
        (metrics.reorder_segments <= MAX_REORDER_SEGMENTS && !metrics.is_nothing())
            .then_some(metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_its_metrics() {
        for metrics in [
            Metrics { reorder_segments: 0, quickack: true },
            Metrics { reorder_segments: 19, quickack: false },
            Metrics { reorder_segments: MAX_REORDER_SEGMENTS, quickack: true },
        ] {
            assert_eq!(Metrics::of_table(metrics.table()), Some(metrics));
        }
        let last = Metrics { reorder_segments: MAX_REORDER_SEGMENTS, quickack: true }.table();
        for table in [0, MAIN_TABLE, FIRST_TABLE - 1, FIRST_TABLE, last + 1, u32::MAX] {
            assert_eq!(Metrics::of_table(table), None, "{table}");
        }
    }
}
