//! Each flow is drawn as points by seconds, in panels one under the other.

use wad_common::law::ShownPhase;
use wad_instruments::name;

use super::flows::{Flow, Point};

/// The instruments that are drawn, where they were traced.
pub const INSTRUMENTS: [&str; 7] = [
    name::CUR_CWND,
    name::CUR_SSTHRESH,
    name::HC_THRU_OCTETS_ACKED,
    name::HC_THRU_OCTETS_RECEIVED,
    name::SMOOTHED_RTT,
    name::SEGS_RETRANS,
    name::PHASE,
];

/// Units of rates, in bit/s, the largest first.
pub const RATES: [(f64, &str); 4] =
    [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
/// Units of times, in microseconds.
pub const TIMES: [(f64, &str); 2] = [(1e3, "ms"), (1.0, "µs")];

/// A time and a value; none where the line is broken.
pub type Curve = Vec<Option<(f64, f64)>>;

#[derive(Debug)]
pub struct Panel {
    /// The title: what is drawn, and its unit.
    pub title: String,
    /// Values are divided by this.
    pub unit: f64,
    /// Between two lines of the grid: there is no half of what is counted.
    pub least_step: f64,
    /// The line of each flow.
    pub lines: Vec<Curve>,
    /// Dashed lines of each flow, if there are any, in the same units.
    pub dashed: Vec<Curve>,
    /// Names that the values 1, 2 and so on stand for, where they are no amounts.
    pub names: Vec<&'static str>,
}

/// Returns the panels that have something to show.
pub fn panels(flows: &[Flow]) -> Vec<Panel> {
    let all = |curve: fn(&Flow) -> Curve| flows.iter().map(curve).collect::<Vec<_>>();
    let octets = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    let segments = [(1.0, "segments")];
    let cwnd = all(|flow| flow.values(|point| point.cwnd_octets));
    let ssthresh = all(|flow| flow.values(|point| point.ssthresh_octets));
    let has_ssthresh = ssthresh.iter().flatten().any(Option::is_some);
    let window = match has_ssthresh {
        true => "congestion window, dashed: slow start threshold",
        false => "congestion window",
    };
    let rate = all(Flow::bits_per_second);
    let rtt = all(|flow| flow.values(|point| point.rtt_us));
    let retransmitted = all(|flow| flow.values(|point| point.retransmitted));
    let panels = [
        Panel::new(window, &octets, cwnd, ssthresh),
        Panel::new("goodput", &RATES, rate, Vec::new()),
        Panel::new("smoothed RTT", &TIMES, rtt, Vec::new()),
        Panel {
            least_step: 1.0,
            ..Panel::new("retransmitted since the start", &segments, retransmitted, Vec::new())
        },
        Panel::of_phases(all(|flow| flow.values(|point| point.phase))),
    ];
    panels.into_iter().filter(|panel| panel.has_points()).collect()
}

impl Panel {
    /// Makes a panel in the largest unit that its values reach.
    pub fn new(title: &str, units: &[(f64, &str)], lines: Vec<Curve>, dashed: Vec<Curve>) -> Self {
        let values = || lines.iter().chain(&dashed).flatten().flatten().map(|(_, value)| *value);
        let highest = values().fold(0.0, f64::max);
        let fits = units.iter().find(|(unit, _)| highest >= *unit);
        let (unit, name) = fits.or(units.last()).copied().unwrap_or((1.0, ""));
        let title = format!("{title} ({name})");
        Self { title, unit, least_step: 0.0, lines, dashed, names: Vec::new() }
    }

    /// The phases that occur, one above the other in the order of their numbers.
    fn of_phases(lines: Vec<Curve>) -> Self {
        let is_there = |phase: &ShownPhase| {
            let mut values = lines.iter().flatten().flatten().map(|(_, value)| *value);
            values.any(|value| wad_instruments::phase(value) == Some(*phase))
        };
        let there: Vec<ShownPhase> = ShownPhase::ALL.into_iter().filter(is_there).collect();
        let rank = |value| {
            let phase = wad_instruments::phase(value)?;
            there.iter().position(|own| *own == phase).map(|place| (place + 1) as f64)
        };
        Self {
            title: "phase of the law".to_owned(),
            unit: 1.0,
            least_step: 1.0,
            lines: lines.into_iter().map(|line| stepped(line, rank)).collect(),
            dashed: Vec::new(),
            names: there.into_iter().map(ShownPhase::name).collect(),
        }
    }

    pub fn has_points(&self) -> bool {
        self.lines.iter().chain(&self.dashed).flatten().any(Option::is_some)
    }

    /// The highest value that has to be shown. A threshold far above all windows would
    /// press these to the ground.
    pub fn highest(&self) -> f64 {
        let highest = |curves: &[Curve], most: f64| {
            let values = curves.iter().flatten().flatten().map(|(_, value)| *value);
            values.filter(|value| *value <= most).fold(0.0, f64::max)
        };
        let line = highest(&self.lines, f64::MAX);
        let most = if line > 0.0 { 2.0 * line } else { f64::MAX };
        line.max(highest(&self.dashed, most))
    }
}

impl Flow {
    fn values(&self, value: impl Fn(&Point) -> Option<f64>) -> Curve {
        let gap = self.gap_seconds();
        let mut curve = Curve::new();
        let mut last = None;
        for (seconds, point) in &self.points {
            if last.is_some_and(|last| seconds - last > gap) {
                curve.push(None);
            }
            last = Some(*seconds);
            curve.push(value(point).map(|value| (*seconds, value)));
        }
        curve
    }

    /// Returns the rate of what the other end acknowledged, or of what it sent where
    /// that is more, over at least a tenth of a second, a hundred and fiftieth of all,
    /// and four RTTs: what goes out in a burst is acknowledged in a burst, an RTT after
    /// the one before.
    fn bits_per_second(&self) -> Curve {
        let span = self.points.last().map_or(0.0, |(last, _)| last - self.points[0].0);
        let rtts = self.points.iter().filter_map(|(_, point)| point.rtt_us);
        let rtt = median(rtts).unwrap_or_default() / 1e6;
        let window = [0.1, span / 150.0, 4.0 * rtt].into_iter().fold(0.0, f64::max);
        let end = |octets: fn(&Point) -> Option<f64>| {
            self.points.iter().rev().find_map(|(_, point)| octets(point)).unwrap_or_default()
        };
        let is_receiver = end(|point| point.received_octets) > end(|point| point.acked_octets);
        let counts = self.values(|point| match is_receiver {
            true => point.received_octets,
            false => point.acked_octets,
        });
        let mut curve = Curve::new();
        let mut first = 0;
        for (number, count) in counts.iter().enumerate() {
            let Some((seconds, octets)) = count else {
                first = number + 1;
                curve.push(None);
                continue;
            };
            // The latest that is old enough, of those since the line was broken.
            let is_old =
                |at: usize| matches!(counts[at], Some((then, _)) if seconds - then >= window);
            while first + 1 < number && is_old(first + 1) {
                first += 1;
            }
            if let Some((then, before)) = counts[first]
                && is_old(first)
                && *octets >= before
            {
                curve.push(Some((*seconds, 8.0 * (octets - before) / (seconds - then))));
            }
        }
        curve
    }

    /// Longer than this without a point breaks a line: a second, or five times what is
    /// usual.
    fn gap_seconds(&self) -> f64 {
        let steps = self.points.windows(2).map(|pair| pair[1].0 - pair[0].0);
        median(steps).map_or(1.0, |usual| f64::max(1.0, 5.0 * usual))
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The line of values that stay until there is another one.
fn stepped(line: Curve, value: impl Fn(f64) -> Option<f64>) -> Curve {
    let mut steps = Curve::new();
    for point in line {
        let next = point.and_then(|(seconds, raw)| Some((seconds, value(raw)?)));
        if let (Some(Some((_, before))), Some((seconds, _))) = (steps.last().copied(), next) {
            steps.push(Some((seconds, before)));
        }
        steps.push(next);
    }
    steps
}

/// Returns the line with at most four points for each step on the axis of time: the
/// first and last there, the least and the most.
pub fn thinned(curve: &Curve, step_seconds: f64) -> Curve {
    let mut thin = Curve::new();
    let step = |(seconds, _): (f64, f64)| (seconds / step_seconds).floor();
    let same = |a: &Option<(f64, f64)>, b: &Option<(f64, f64)>| a.map(step) == b.map(step);
    for points in curve.chunk_by(same) {
        let numbered =
            || points.iter().enumerate().filter_map(|(n, point)| Some((n, point.as_ref()?.1)));
        let by_value = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let (least, most) = (numbered().min_by(by_value), numbered().max_by(by_value));
        let mut kept: Vec<usize> =
            [Some(0), least.map(|least| least.0), most.map(|most| most.0), Some(points.len() - 1)]
                .into_iter()
                .flatten()
                .collect();
        kept.sort_unstable();
        kept.dedup();
        thin.extend(kept.into_iter().map(|at| points[at]));
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(points: impl IntoIterator<Item = (f64, f64)>) -> Flow {
        let point =
            |(seconds, octets)| (seconds, Point { acked_octets: Some(octets), ..Point::default() });
        Flow { label: String::new(), points: points.into_iter().map(point).collect() }
    }

    #[test]
    fn the_rate_is_of_a_window_of_time() {
        // 1 MB/s in steps of 10 ms.
        let flow = flow((0..200).map(|n| (f64::from(n) / 100.0, f64::from(n) * 10_000.0)));
        let curve = flow.bits_per_second();
        assert!(curve.len() > 180, "{}", curve.len());
        for (seconds, rate) in curve.into_iter().flatten() {
            assert!(seconds >= 0.1 - 1e-9 && (rate - 8e6).abs() < 1.0, "{seconds} {rate}");
        }
    }

    #[test]
    fn the_rate_is_that_of_several_rounds() {
        // A burst of 100 kB is acknowledged every 80 ms, which a trace meets now and then.
        let rounds = (0..100).map(|n| (f64::from(n) / 10.0, 1e5 * (f64::from(n) / 0.8).floor()));
        let mut flow = flow(rounds);
        let highest = |flow: &Flow| {
            flow.bits_per_second().into_iter().flatten().map(|(_, rate)| rate).fold(0.0, f64::max)
        };
        assert!((highest(&flow) - 16e6).abs() < 1.0, "{}", highest(&flow));
        flow.points.iter_mut().for_each(|(_, point)| point.rtt_us = Some(80_000.0));
        assert!((highest(&flow) - 10e6).abs() < 1.0, "{}", highest(&flow));
    }

    #[test]
    fn a_rate_does_not_cross_a_gap() {
        let before = (0..20).map(|n| (f64::from(n) / 10.0, 1000.0 * f64::from(n)));
        let after = (0..20).map(|n| (60.0 + f64::from(n) / 10.0, 9e9 + 1000.0 * f64::from(n)));
        let curve = flow(before.chain(after)).bits_per_second();
        assert!(curve.contains(&None));
        let highest = curve.into_iter().flatten().map(|(_, rate)| rate).fold(0.0, f64::max);
        assert!((highest - 80_000.0).abs() < 1.0, "{highest}");
    }

    #[test]
    fn a_thin_line_has_the_same_peaks() {
        let curve: Curve =
            (0..1000).map(|n| Some((f64::from(n) / 1000.0, f64::from(n % 97)))).collect();
        let thin = thinned(&curve, 0.1);
        assert!(thin.len() <= 40 && thin.is_sorted_by_key(|point| point.map(|point| point.0)));
        let highest =
            |curve: &Curve| curve.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
        assert!((highest(&thin) - highest(&curve)).abs() < 1e-9);
        let broken = vec![Some((0.0, 1.0)), None, Some((0.01, 1.0))];
        assert_eq!(thinned(&broken, 1.0), broken);
    }

    #[test]
    fn a_threshold_far_above_does_not_flatten_the_window() {
        let panel = |threshold| Panel {
            title: String::new(),
            unit: 1.0,
            least_step: 0.0,
            lines: vec![vec![Some((0.0, 10.0))]],
            dashed: vec![vec![Some((0.0, threshold))]],
            names: Vec::new(),
        };
        assert!((panel(15.0).highest() - 15.0).abs() < 1e-9);
        assert!((panel(1e9).highest() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn phases_are_steps_between_those_that_occur() {
        let phases = [(0.0, 1.0), (1.0, 1.0), (2.0, 3.0), (3.0, 99.0)];
        let point = |(seconds, phase)| (seconds, Point { phase: Some(phase), ..Point::default() });
        let flow = Flow { label: String::new(), points: phases.map(point).to_vec() };
        let [panel] = &panels(&[flow])[..] else { panic!("not one panel") };
        assert_eq!(panel.names, ["slow_start", "congestion_avoidance"]);
        let (last, expected) = (&panel.lines[0][2..], [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0)]);
        assert_eq!(last[..3], expected.map(Some));
        // What is no phase is a gap.
        assert_eq!(last[3..], [None]);
    }
}
