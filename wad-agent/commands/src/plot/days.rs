//! Results of probes over days, as panels.

use wad_probing::{
    answers::History,
    archive::{Bucket, Spread},
    measurement::Share,
};

use super::curve::{Curve, Panel, RATES, TIMES};

/// Returns the panels that have something to show, over days since the first bucket.
pub fn panels(history: &History) -> Vec<Panel> {
    let spreads = |of: fn(&Bucket) -> Option<Spread>| {
        let curve = |value: fn(Spread) -> f64| curve(history, |bucket| of(bucket).map(value));
        let lines = vec![curve(|spread| spread.mean)];
        (lines, vec![curve(|spread| spread.min), curve(|spread| spread.max)])
    };
    let (rtt, rtt_ends) = spreads(|bucket| {
        let microseconds = |seconds: f64| seconds * 1e6;
        let Spread { min, mean, max } = bucket.rtt_seconds?;
        let [min, mean, max] = [min, mean, max].map(microseconds);
        Some(Spread { min, mean, max })
    });
    let (rate, rate_ends) = spreads(|bucket| bucket.bandwidth_bits_per_second);
    let percent = |share: Option<Share>| Some(share?.fraction()? * 100.0);
    let loss = vec![curve(history, |bucket| percent(bucket.loss))];
    let reordering = vec![curve(history, |bucket| percent(bucket.reordering))];
    let percents = [(1.0, "%")];
    let panels = [
        Panel::new("RTT, dashed: the least and the greatest", &TIMES, rtt, rtt_ends),
        Panel::new("bandwidth, dashed: the least and the greatest", &RATES, rate, rate_ends),
        Panel::new("loss", &percents, loss, Vec::new()),
        Panel::new("reordering", &percents, reordering, Vec::new()),
    ];
    panels.into_iter().filter(Panel::has_points).collect()
}

/// Returns the days that a picture is of.
pub fn days(history: &History) -> f64 {
    let last = history.buckets.last().map_or(0.0, |bucket| since_first(history, bucket));
    last.max(history.bucket_seconds / DAY_SECONDS)
}

const DAY_SECONDS: f64 = 86_400.0;

fn since_first(history: &History, bucket: &Bucket) -> f64 {
    let first = history.buckets.first().map_or(bucket.start, |first| first.start);
    bucket.start.duration_since(first).as_secs_f64() / DAY_SECONDS
}

/// Draws a value. The line has a gap where runs gave none, but not from one run of a task that
/// is run seldom to its next.
fn curve(history: &History, value: impl Fn(&Bucket) -> Option<f64>) -> Curve {
    let point = |bucket: &Bucket| Some((since_first(history, bucket), value(bucket)?));
    history
        .buckets
        .iter()
        .filter_map(|bucket| match point(bucket) {
            // Nothing was measured at all.
            None if bucket.measured == 0 => Some(None),
            None => None,
            known => Some(known),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_measured_is_drawn_and_what_was_not_leaves_a_gap() {
        let start: jiff::Timestamp = "2026-11-26T00:00:00Z".parse().unwrap();
        let bucket = |hour: u64, seconds: Option<f64>, rate: Option<f64>| Bucket {
            start: start + Duration::from_secs(hour * 3_600),
            periods: 12,
            measured: u64::from(seconds.is_some()),
            rtt_seconds: seconds.map(|mean| Spread { min: mean / 2.0, mean, max: mean * 2.0 }),
            loss: None,
            reordering: None,
            path_mtu_bytes: None,
            bandwidth_bits_per_second: rate.map(|mean| Spread { min: mean, mean, max: mean }),
            least: 0,
        };
        let buckets = vec![
            bucket(0, Some(0.1), Some(1e9)),
            bucket(6, Some(0.2), None),
            bucket(12, None, None),
            bucket(24, Some(0.1), Some(2e9)),
        ];
        let history = History { bucket_seconds: 21_600.0, buckets };
        let panels = panels(&history);
        let titles: Vec<_> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "RTT, dashed: the least and the greatest (ms)",
                "bandwidth, dashed: the least and the greatest (Gbit/s)"
            ]
        );
        let points = |curve: &Curve| {
            let point = |(days, value): (f64, f64)| ((days * 4.0) as u32, value as u64);
            curve.iter().map(|it| it.map(point)).collect::<Vec<_>>()
        };
        let rtt = [Some((0, 100_000)), Some((1, 200_000)), None, Some((4, 100_000))];
        assert_eq!(points(&panels[0].lines[0]), rtt);
        assert_eq!(
            points(&panels[1].lines[0]),
            [Some((0, 1_000_000_000)), None, Some((4, 2_000_000_000))]
        );
        assert!((days(&history) - 1.0).abs() < 1e-9);
    }
}
