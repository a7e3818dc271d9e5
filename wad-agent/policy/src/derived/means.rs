//! Derived values of a path: the means over its flows.

use std::collections::HashMap;

use wad_instruments::Reading;

use super::Derived;

/// Returns the means by path, in the order of the definitions that have a metric.
/// None where no flow of the path has a value.
pub fn means(derived: &Derived, reading: &Reading) -> HashMap<String, Vec<Option<f64>>> {
    let names: Vec<_> = derived.metrics().map(|metric| metric.name.as_str()).collect();
    if names.is_empty() {
        return HashMap::new();
    }
    let mut sums: HashMap<&str, Vec<(f64, u32)>> = HashMap::new();
    for flow in &reading.flows {
        let sums = sums.entry(&flow.path).or_insert_with(|| vec![(0.0, 0); names.len()]);
        for ((sum, count), name) in sums.iter_mut().zip(&names) {
            if let Some(value) = flow.instruments.get(name) {
                *sum += value;
                *count += 1;
            }
        }
    }
    let mean = |(sum, count): (f64, u32)| {
        (count > 0).then(|| sum / f64::from(count)).filter(|mean| mean.is_finite())
    };
    let means = |sums: Vec<_>| sums.into_iter().map(mean).collect();
    sums.into_iter().map(|(path, sums)| (path.to_owned(), means(sums))).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::derived::{
        Definition,
        testing::{extend, flow},
    };

    #[test]
    fn a_path_has_the_mean_of_the_flows_that_have_a_value() {
        let mut sent = Definition::parse("Sent", "HCDataOctetsOut", &Derived::default()).unwrap();
        sent.has_metric = true;
        let derived = Derived(vec![sent]);
        let flows = [Some(10.0), Some(20.0), None].map(|value| {
            let mut flow = flow(&[]);
            flow.instruments = [("HCDataOctetsOut", value)].into_iter().collect();
            extend(&derived, &mut flow, None);
            flow
        });
        let mut other = flow(&[]);
        other.path = "eve".into();
        let flows = flows.into_iter().chain([other]).collect();
        let reading = Reading { time: Timestamp::UNIX_EPOCH, flows };
        let expected =
            HashMap::from([("bob".to_owned(), vec![Some(15.0)]), ("eve".to_owned(), vec![None])]);
        assert_eq!(means(&derived, &reading), expected);
    }

    #[test]
    fn a_mean_beyond_all_numbers_is_none() {
        let mut sent = Definition::parse("Sent", "HCDataOctetsOut", &Derived::default()).unwrap();
        sent.has_metric = true;
        let derived = Derived(vec![sent]);
        let mut large = flow(&[("HCDataOctetsOut", f64::MAX)]);
        extend(&derived, &mut large, None);
        let reading = Reading { time: Timestamp::UNIX_EPOCH, flows: vec![large.clone(), large] };
        assert_eq!(means(&derived, &reading)["bob"], [None]);
    }
}
