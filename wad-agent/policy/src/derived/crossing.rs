//! Thresholds: which flows have crossed them for long enough, told once until they
//! come back.

use std::collections::HashMap;

use jiff::Timestamp;
use wad_instruments::{Flow, Reading};

use super::{Definition, Derived, Limit};

/// Holds what is remembered between two looks.
#[derive(Debug, Default)]
pub struct Crossings {
    /// Crossings that are open, by the flow's cookie, and the name of what crossed.
    open: HashMap<(u64, String), Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Timestamp,
    is_told: bool,
}

/// A flow beyond a threshold.
#[derive(Debug, PartialEq)]
pub struct Crossed<'a> {
    pub flow: &'a Flow,
    pub definition: &'a Definition,
    pub value: f64,
    pub limit: Limit,
    pub since: Timestamp,
}

impl Crossings {
    /// Returns the crossings of this reading, whose flows have the derived values,
    /// that are news.
    pub fn look<'a>(&mut self, derived: &'a Derived, reading: &'a Reading) -> Vec<Crossed<'a>> {
        let mut before = std::mem::take(&mut self.open);
        let mut news = Vec::new();
        for definition in &derived.0 {
            let Some(threshold) = &definition.threshold else { continue };
            let paths = &threshold.paths;
            let is_meant =
                |flow: &&Flow| paths.is_empty() || paths.iter().any(|path| **path == *flow.path);
            for flow in reading.flows.iter().filter(is_meant) {
                let value = flow.instruments.get(&definition.name);
                let Some(value) = value.filter(|value| threshold.limit.is_crossed(*value)) else {
                    continue;
                };
                let key = (flow.cookie, definition.name.clone());
                let new = Open { since: reading.time, is_told: false };
                let mut open = before.remove(&key).unwrap_or(new);
                let lasted = reading.time.duration_since(open.since).unsigned_abs();
                if !open.is_told && lasted >= threshold.lasting {
                    open.is_told = true;
                    let (limit, since) = (threshold.limit, open.since);
                    news.push(Crossed { flow, definition, value, limit, since });
                }
                self.open.insert(key, open);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::derived::{
        Threshold,
        testing::{extend, flow},
    };

    fn derived(paths: &[&str]) -> Derived {
        let mut definition =
            Definition::parse("Sent", "HCDataOctetsOut", &Derived::default()).unwrap();
        definition.threshold = Some(Threshold {
            limit: Limit::Above(100.0),
            lasting: Duration::from_secs(5),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        });
        Derived(vec![definition])
    }

    /// The times at which it is told, of values at one second each.
    fn told(derived: &Derived, values: &[f64]) -> Vec<usize> {
        let mut crossings = Crossings::default();
        let at = |(second, value): (usize, &f64)| {
            let mut flow = flow(&[("HCDataOctetsOut", *value)]);
            extend(derived, &mut flow, None);
            let time = Timestamp::from_second(second as i64).unwrap();
            let reading = Reading { time, flows: vec![flow] };
            (!crossings.look(derived, &reading).is_empty()).then_some(second)
        };
        values.iter().enumerate().filter_map(at).collect()
    }

    #[test]
    fn a_crossing_that_lasts_is_told_once_until_the_flow_comes_back() {
        let derived = derived(&[]);
        let mut values = [101.0; 20];
        assert_eq!(told(&derived, &values), [5]);
        // Never for five seconds, at first.
        values[4] = 100.0;
        assert_eq!(told(&derived, &values), [10]);
        values[12] = 0.0;
        assert_eq!(told(&derived, &values), [10, 18]);
    }

    #[test]
    fn other_paths_and_flows_without_a_value_cross_nothing() {
        assert_eq!(told(&derived(&["eve"]), &[101.0; 20]), [0; 0]);
        assert_eq!(told(&derived(&["eve", "bob"]), &[101.0; 20]), [5]);
        let mut crossings = Crossings::default();
        let reading = Reading { time: Timestamp::UNIX_EPOCH, flows: vec![flow(&[])] };
        assert_eq!(crossings.look(&derived(&[]), &reading), []);
    }

    #[test]
    fn flows_that_are_gone_are_forgotten() {
        let derived = derived(&[]);
        let mut crossings = Crossings::default();
        let mut gone = flow(&[("HCDataOctetsOut", 200.0)]);
        extend(&derived, &mut gone, None);
        crossings.look(&derived, &Reading { time: Timestamp::UNIX_EPOCH, flows: vec![gone] });
        assert_eq!(crossings.open.len(), 1);
        crossings.look(&derived, &Reading { time: Timestamp::UNIX_EPOCH, flows: vec![] });
        assert_eq!(crossings.open.len(), 0);
    }
}
