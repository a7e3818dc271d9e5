//! The log says of measured paths: each thing once, and of many paths at once a few
//! names and a number.

use std::{fmt, sync::Arc};

use tracing::{info, warn};
use wad_policy::{capacity::Capacity, config::Metric, tuning_plan::Refusal};

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
    capacities: Vec<(Arc<str>, Capacity)>,
    refused: Vec<(Arc<str>, Untrusted)>,
}

impl Changes {
    pub fn lost(&mut self, metric: Metric, path: &Arc<str>) {
        self.lost[metric as usize].push(Arc::clone(path));
    }

    pub fn found(&mut self, metric: Metric, path: &Arc<str>) {
        self.found[metric as usize].push(Arc::clone(path));
    }

    pub fn capacity(&mut self, path: &Arc<str>, capacity: Capacity) {
        self.capacities.push((Arc::clone(path), capacity));
    }

    pub fn refused(&mut self, path: &Arc<str>, value: Untrusted) {
        self.refused.push((Arc::clone(path), value));
    }

    /// Whether a policy changes.
    pub const fn are_any(&self) -> bool {
        !self.capacities.is_empty()
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
        for (path, capacity) in self.capacities.iter().take(LINES) {
            info!(path = &**path, "its policy now is for {}", Shown(*capacity));
        }
        match self.capacities.len().saturating_sub(LINES) {
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

struct Shown(Capacity);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.bits_per_second {
            Some(rate) => write!(f, "{:.1} Mbit/s", rate / 1e6)?,
            None => f.write_str("an unknown rate")?,
        }
        match self.0.rtt_seconds {
            Some(rtt) => write!(f, ", {:.2} ms", rtt * 1e3),
            None => f.write_str(", an unknown RTT"),
        }
    }
}

#[cfg(test)]
mod tests {
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
            Shown(Capacity { bits_per_second, rtt_seconds, is_least: false }).to_string()
        };
        assert_eq!(shown(Some(622e6), Some(0.07)), "622.0 Mbit/s, 70.00 ms");
        assert_eq!(shown(None, None), "an unknown rate, an unknown RTT");
    }
}
