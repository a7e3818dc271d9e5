//! A picture shows what was simulated: windows, rates, RTT and what was sent again, over time.

use wad_toolbox::amounts::{Bytes, Rate, Time};

use super::{CoursePoint, Simulated};
use crate::plot::{
    curve::{Curve, Panel, RATES, TIMES},
    svg::{self, Frame},
};

/// Points of a line, at most: more would not be seen.
const POINTS: usize = 250;

/// Returns the picture, an SVG.
pub fn render(all: &Simulated) -> String {
    let lines = |value: &dyn Fn(&CoursePoint) -> f64| -> Vec<Curve> {
        let line = |course: &Vec<CoursePoint>| {
            let together = course.len().div_ceil(POINTS).max(1);
            course.chunks(together).map(|points| mean(points, value)).collect()
        };
        all.laws.iter().map(|law| line(&law.course)).collect()
    };
    let counted = [(1e6, "million segments"), (1e3, "thousand segments"), (1.0, "segments")];
    let sum = if all.flows > 1 { "windows, all together" } else { "congestion window" };
    let panels = [
        Panel::new(sum, &counted, lines(&|point| point.cwnd_segments as f64), Vec::new()),
        Panel::new("goodput", &RATES, lines(&|point| point.bits_per_second), Vec::new()),
        Panel::new("smoothed RTT", &TIMES, lines(&|point| point.rtt_seconds * 1e6), Vec::new()),
        Panel {
            least_step: 1.0,
            ..Panel::new(
                "retransmitted since the start",
                &counted[2..],
                lines(&|point| point.retransmitted_segments as f64),
                Vec::new(),
            )
        },
    ];
    let s = if all.flows == 1 { "" } else { "s" };
    let title = format!(
        "Simulated: {}, {}, queue of {}; {} connection{s}, seed {}",
        Rate(all.rate_bits_per_second),
        Time(all.rtt_seconds),
        Bytes(all.queue_bytes),
        all.flows,
        all.seed,
    );
    let frame = Frame {
        title: &title,
        labels: all.laws.iter().map(|law| law.law.as_str()).collect(),
        end: all.seconds,
        counted: "time (s)",
    };
    svg::render(&frame, &panels)
}

/// The mean of some points, at the time of the last.
fn mean(points: &[CoursePoint], value: &dyn Fn(&CoursePoint) -> f64) -> Option<(f64, f64)> {
    let sum: f64 = points.iter().map(value).sum();
    points.last().map(|last| (last.seconds, sum / points.len() as f64))
}
