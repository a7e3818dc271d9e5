//! The log says of measured paths: each thing once, and of many paths at once a few
//! names and a number.

use std::{fmt, sync::Arc};

use tracing::{info, warn};
use wad_policy::{
    config::Metric,
    tuning_plan::{Conditions, Refusal},
};

use super::Untrusted;

/// Paths that are named in a line.
const NAMED: usize = 5;

/// Lines for paths that changed at the same time.
const LINES: usize = 10;

#[derive(Debug, Default)]
pub struct Changes {
    /// Bandwidth and RTT.
    lost: [Vec<Arc<str>>; 2],
    found: [Vec<Arc<str>>; 2],
    conditions: Vec<(Arc<str>, Conditions)>,
    /// Whether what they do to packets is among that.
    are_traits: bool,
    refused: Vec<(Arc<str>, Untrusted)>,
}

/// A change says what has to be put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    /// Other values of the paths' policies.
    Values,
    /// More than the policies' values: algorithms and routes, too.
    Traits,
}

impl Changes {
    pub fn lost(&mut self, metric: Metric, path: &Arc<str>) {
        self.lost[metric as usize].push(Arc::clone(path));
    }

    pub fn found(&mut self, metric: Metric, path: &Arc<str>) {
        self.found[metric as usize].push(Arc::clone(path));
    }

    pub fn conditions(&mut self, path: &Arc<str>, before: Conditions, now: Conditions) {
        self.are_traits |= before.traits != now.traits;
        self.conditions.push((Arc::clone(path), now));
    }

    pub fn refused(&mut self, path: &Arc<str>, value: Untrusted) {
        self.refused.push((Arc::clone(path), value));
    }

    pub const fn kind(&self) -> Change {
        match (self.conditions.is_empty(), self.are_traits) {
            (true, _) => Change::Nothing,
            (false, false) => Change::Values,
            (false, true) => Change::Traits,
        }
    }

    pub fn log(&self) {
        for (metric, what) in [(Metric::Bandwidth, "bandwidth"), (Metric::Rtt, "RTT")] {
            let (lost, found) = (&self.lost[metric as usize], &self.found[metric as usize]);
            if !lost.is_empty() {
                warn!("the {what} measured is too old: the file's holds on {}", Names(lost));
            }
            if !found.is_empty() {
                info!("the {what} is measured on {}", Names(found));
            }
        }
        for (path, value) in self.refused.iter().take(LINES) {
            match value.refusal {
                // A change of the route is one, too.
                Refusal::Jump => info!(path = &**path, "{value}"),
                Refusal::Band | Refusal::Future => warn!(path = &**path, "{value}"),
            }
        }
        match self.refused.len().saturating_sub(LINES) {
            0 => {}
            more => warn!("and {more} more values do not count; `wad paths` has them"),
        }
        for (path, conditions) in self.conditions.iter().take(LINES) {
            info!(path = &**path, "its policy now is for {}", Shown(*conditions));
        }
        match self.conditions.len().saturating_sub(LINES) {
            0 => {}
            more => info!("and that of {more} more paths is as measured"),
        }
    }
}

struct Names<'a>(&'a [Arc<str>]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<_> =
            self.0.iter().take(NAMED).map(|name| name.escape_debug().to_string()).collect();
        let s = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "path{s} {}", named.join(", "))?;
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct Shown(Conditions);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions { capacity, traits } = self.0;
        match capacity.bits_per_second {
            Some(rate) => write!(f, "{:.1} Mbit/s", rate / 1e6)?,
            None => f.write_str("an unknown rate")?,
        }
        match capacity.rtt_seconds {
            Some(rtt) => write!(f, ", {:.2} ms", rtt * 1e3)?,
            None => f.write_str(", an unknown RTT")?,
        }
        if let Some(segments) = traits.reorder_segments {
            write!(f, ", reordering by {segments} segments")?;
        }
        if traits.is_leaky {
            f.write_str(", losses without a queue")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::{capacity::Capacity, tuning_plan::Traits};

    use super::*;

    #[test]
    fn many_paths_are_counted() {
        let names: Vec<Arc<str>> = (0..7).map(|n| n.to_string().into()).collect();
        assert_eq!(Names(&names[..1]).to_string(), "path 0");
        assert_eq!(Names(&names).to_string(), "paths 0, 1, 2, 3, 4 and 2 more");
    }

    #[test]
    fn a_capacity_is_shown_as_far_as_it_is_known() {
        let shown = |bits_per_second, rtt_seconds| {
            let capacity = Capacity { bits_per_second, rtt_seconds, is_least: false };
            Shown(capacity.into()).to_string()
        };
        assert_eq!(shown(Some(622e6), Some(0.07)), "622.0 Mbit/s, 70.00 ms");
        assert_eq!(shown(None, None), "an unknown rate, an unknown RTT");
        let traits = Traits { reorder_segments: Some(19), is_leaky: true };
        let shown = Shown(Conditions { traits, ..Conditions::default() }).to_string();
        assert!(shown.ends_with(", reordering by 19 segments, losses without a queue"), "{shown}");
    }

    #[test]
    fn what_has_to_be_put_in_force_is_no_more_than_what_changed() {
        let (path, before) = (Arc::from("a"), Conditions::default());
        let mut changes = Changes::default();
        assert_eq!(changes.kind(), Change::Nothing);
        let capacity = Capacity { bits_per_second: Some(1e9), ..Capacity::default() };
        changes.conditions(&path, before, capacity.into());
        assert_eq!(changes.kind(), Change::Values);
        let traits = Traits { is_leaky: true, ..Traits::default() };
        changes.conditions(&path, before, Conditions { traits, ..before });
        assert_eq!(changes.kind(), Change::Traits);
    }
}
