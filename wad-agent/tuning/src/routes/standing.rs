//! Says how it stands with the routes, for whoever asks: explanations, metrics, the
//! log.

use std::sync::{Arc, Mutex};

use wad_policy::config::route_rules::RouteMetrics;
use wad_toolbox::mutex::locked;

/// Shared by who follows the routes and who tells of them.
#[derive(Clone, Debug, Default)]
pub struct Standing(Arc<Mutex<RoutesState>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RoutesState {
    /// `[host] routes` is off.
    #[default]
    Off,
    /// Nothing is in force, for this reason.
    Failed(String),
    InForce(Report),
}

/// Says what came of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub copies: usize,
    /// Refusals: what is left as it is.
    pub refused: Vec<Refused>,
    /// There are rules of others before ours.
    pub others_come_first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub path: Arc<str>,
    pub what: String,
}

/// Counts for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub copies: u64,
    pub refused: u64,
}

impl Standing {
    pub fn get(&self) -> RoutesState {
        locked(&self.0).clone()
    }

    /// Returns what it was.
    pub fn set(&self, state: RoutesState) -> RoutesState {
        std::mem::replace(&mut *locked(&self.0), state)
    }

    pub fn counts(&self) -> Counts {
        match &*locked(&self.0) {
            RoutesState::InForce(report) => {
                Counts { copies: report.copies as u64, refused: report.refused.len() as u64 }
            }
            _ => Counts::default(),
        }
    }
}

impl RoutesState {
    /// Returns what is left alone of a path's routes, and what may come before them.
    pub fn left_alone(&self, path: &str) -> Vec<String> {
        let Self::InForce(report) = self else { return Vec::new() };
        let refused = report.refused.iter().filter(|refused| *refused.path == *path);
        let mut left: Vec<_> = refused.map(|refused| refused.what.clone()).collect();
        if report.others_come_first {
            left.push(
                "other rules of this host come before wad's, and may decide in their place \
                 (`ip rule`)"
                    .to_owned(),
            );
        }
        left
    }
}

/// Returns by what means a path's metrics come to its connections, in sentences.
/// `undoes` is for the laws that take back a decrease for what was no loss.
pub fn means(path: &str, metrics: RouteMetrics, undoes: bool, state: &RoutesState) -> Vec<String> {
    let mut means = Vec::new();
    let is_on = matches!(state, RoutesState::InForce(_));
    let table = metrics.table();
    if metrics.reorder_segments > 0 {
        means.push(match (is_on, undoes) {
            (true, _) => format!(
                "reorder is a metric of routes, in table {table}; the kernel takes it from the \
                 second connection to an address on"
            ),
            (false, true) => "reorder is not given to the kernel without [host] routes; where \
                              reordering was taken for a loss, the law takes its decrease back"
                .to_owned(),
            (false, false) => "reorder has no effect without [host] routes".to_owned(),
        });
        if is_on && undoes {
            means.push(
                "on the first, where reordering was taken for a loss, the law takes its decrease \
                 back"
                    .to_owned(),
            );
        }
    }
    if metrics.quickack {
        means.push(if is_on {
            format!("acknowledgements are not delayed: a metric of routes, in table {table}")
        } else {
            "acknowledgements are delayed by two ticks of the kernel's clock at most".to_owned()
        });
    }
    if metrics.ecn {
        means.push(if is_on {
            format!("connections ask for ECN: a feature of routes, in table {table}")
        } else {
            "ecn has no effect without [host] routes".to_owned()
        });
    }
    if means.is_empty() {
        return means;
    }
    if let RoutesState::Failed(reason) = state {
        means.push(format!("its routes are left alone: {reason}"));
    }
    means.extend(state.left_alone(path));
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: RouteMetrics = RouteMetrics { reorder_segments: 19, quickack: true, ecn: false };

    #[test]
    fn the_means_depend_on_the_routes_and_on_the_law() {
        let off = means("p", METRICS, true, &RoutesState::Off);
        assert!(off[0].contains("takes its decrease back"), "{off:?}");
        assert!(off[1].contains("two ticks"), "{off:?}");
        assert_eq!(
            means("p", METRICS, false, &RoutesState::Off)[0],
            "reorder has no effect without [host] routes"
        );
        let failed = means("p", METRICS, false, &RoutesState::Failed("no rules here".to_owned()));
        assert_eq!(failed[2], "its routes are left alone: no rules here");

        let refused = |path| Refused { path: Arc::from(path), what: format!("{path}'s") };
        let report = Report {
            copies: 1,
            refused: vec![refused("p"), refused("q")],
            others_come_first: true,
        };
        let on = means("p", METRICS, false, &RoutesState::InForce(report));
        assert!(on[0].contains("table 1190039"), "{on:?}");
        assert!(on[1].contains("not delayed"), "{on:?}");
        assert_eq!(on[2], "p's");
        assert!(on[3].contains("ip rule") && on.len() == 4, "{on:?}");
    }

    #[test]
    fn of_a_path_without_metrics_there_is_nothing_to_tell() {
        let failed = RoutesState::Failed("no rules here".to_owned());
        assert_eq!(means("p", RouteMetrics::default(), true, &failed), [""; 0]);
    }
}
