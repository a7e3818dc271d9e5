//! The paths ask for rules and tables of routes: `reorder`, `delayed_ack = false` and `ecn`
//! are metrics of routes, and rules lead connections to the tables that have them.

mod selection;

use ipnet::IpNet;
use wad_common::ports::Ports;

pub use self::selection::{Selected, Selection};
use super::{
    PathPolicy,
    fault::{Fault, Problems, Span},
};
use crate::switch::Disabled;

/// The tables begin here: one for each set of metrics.
const FIRST_TABLE: u32 = 1_190_000;
/// Distance from a table to the one that has its metrics and ECN. Tables without ECN have
/// the numbers that earlier releases gave them.
const WITH_ECN: u32 = 1_000;

/// The reordering that `net.ipv4.tcp_max_reordering` allows by default.
pub const MAX_REORDER_SEGMENTS: u32 = 300;

/// The highest port that a rule can choose (`fib_rule_port_range_valid()`, Linux 4.17 to
/// 6.18).
pub const LAST_PORT: u16 = u16::MAX - 1;

/// Each look-up of a route goes through all rules.
pub const MAX_RULES: usize = 256;

/// The metrics that a path's routes get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteMetrics {
    /// 0 for none.
    pub reorder_segments: u32,
    pub quickack: bool,
    /// Connections ask for ECN (RFC 3168), and accept it (`RTAX_FEATURE_ECN`).
    pub ecn: bool,
}

impl RouteMetrics {
    /// The metrics of a path's routes, by its policy.
    pub fn of(path: &PathPolicy) -> Self {
        if path.observe {
            return Self::default();
        }
        Self {
            reorder_segments: path.reorder_segments.unwrap_or(0),
            quickack: path.no_delayed_acks,
            ecn: path.origin.ecn,
        }
    }

    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// The number tells the metrics.
    pub fn table(self) -> u32 {
        FIRST_TABLE
            + WITH_ECN * u32::from(self.ecn)
            + 2 * self.reorder_segments
            + u32::from(self.quickack)
    }

    /// Returns the metrics of a table of ours.
    pub fn of_table(table: u32) -> Option<Self> {
        let number = table.checked_sub(FIRST_TABLE)?;
        let (number, ecn) = match number.checked_sub(WITH_ECN) {
            Some(beyond) => (beyond, true),
            None => (number, false),
        };
        let metrics = Self { reorder_segments: number / 2, quickack: number % 2 == 1, ecn };
        (metrics.reorder_segments <= MAX_REORDER_SEGMENTS && !metrics.is_nothing())
            .then_some(metrics)
    }
}

/// The rule is for TCP connections of this host; what it forwards is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    pub remote: IpNet,
    pub local: Option<IpNet>,
    pub ports: Ports,
    pub to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// A table of ours.
    Table(u32),
    /// The rule of the main table, past rules of ours for wider prefixes.
    Main,
}

/// Refuses paths that take too many rules, where `[host] routes` at that place has them made.
pub(super) fn check(paths: &[PathPolicy], at: Span, problems: &mut Problems) {
    let rules = Selection::of(paths).rules(&Disabled::default()).len();
    if rules > MAX_RULES {
        let title = format!("`routes`: the paths need {rules} rules");
        let fault = Fault::new(title, format!("at most {MAX_RULES}"));
        let help = "leave `reorder`, `delayed_ack` or `ecn` out where they matter least, or \
                    join prefixes; each combination of a path's prefixes and ports is a rule";
        problems.push(fault.help(help).at(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_its_metrics() {
        let metrics =
            |reorder_segments, quickack, ecn| RouteMetrics { reorder_segments, quickack, ecn };
        for (metrics, table) in [
            (metrics(0, true, false), 1_190_001),
            (metrics(19, false, false), 1_190_038),
            (metrics(MAX_REORDER_SEGMENTS, true, false), 1_190_601),
            (metrics(0, false, true), 1_191_000),
            (metrics(19, true, true), 1_191_039),
            (metrics(MAX_REORDER_SEGMENTS, true, true), 1_191_601),
        ] {
            assert_eq!(metrics.table(), table);
            assert_eq!(RouteMetrics::of_table(table), Some(metrics));
        }
        for table in [0, 254, 1_189_999, 1_190_000, 1_190_602, 1_190_999, 1_191_602, u32::MAX] {
            assert_eq!(RouteMetrics::of_table(table), None, "{table}");
        }
    }
}
