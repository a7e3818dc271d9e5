//! A picture shows windows and goodput over time: a row per experiment, on the left the
//! congestion window, on the right what arrives. Lengths are in pixels.

use wad_svg::{Picture, Scale, colour};

use crate::report::{self, Point, Report, Variant};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 382.0;
const MARGIN_TOP: f64 = 70.0;
/// A panel's plotting area has these left edges, this size, and this distance from the
/// row's top.
const LEFT: [f64; 2] = [90.0, 690.0];
const SIZE: (f64, f64) = (470.0, 230.0);
const PANEL_TOP: f64 = 78.0;
/// So many labels of lines are beside each other, at these distances.
const LABELS: usize = 5;
const LABEL: (f64, f64) = (215.0, 18.0);
const STYLE: &str = ".title{font-size:20px;font-weight:600;fill:#111}.name{font-size:16px;font-weight:600;fill:#111}\
    .small{font-size:12px;fill:#666;paint-order:stroke;stroke:#fff;stroke-width:4px}\
    .mark{stroke:#666;stroke-dasharray:5 4}.line{fill:none;stroke-width:2;stroke-linejoin:round}";

/// The most points of a line, and of all lines of a picture: some 40 kB of them, as each is in two
/// panels. A panel has 470 pixels.
const POINTS: (usize, usize) = (240, 1300);

/// Lines over one path.
pub struct Row<'a> {
    pub name: String,
    pub path: &'a report::Path,
    /// The variant that it is of, where it is of one only.
    pub only: Option<&'a Variant>,
    pub lines: Vec<Line<'a>>,
}

/// Some flows over time.
pub struct Line<'a> {
    pub label: String,
    pub points: &'a [Point],
}

/// Returns the rows of a scenario, of the first sample of each variant: variants with
/// one kind of flow share the row of their path and place in the grid; others have one for
/// themselves, with a line for each kind.
#[must_use]
pub fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for variant in &report.variants {
        let Some(sample) = variant.samples.first() else { continue };
        let path = &variant.path;
        if sample.flows.len() > 1 {
            let lines = sample.flows.iter().map(|flows| Line {
                label: format!("{} ({})", flows.name, flows.congestion),
                points: &flows.series,
            });
            let name = format!("{}: {}", variant.name, path.words());
            rows.push(Row { name, path, only: Some(variant), lines: lines.collect() });
            continue;
        }
        let label = format!("{} ({})", variant.base, variant.congestion);
        let line = Line { label, points: &sample.series };
        let name = format!("{}{}: {}", report.scenario, variant.path_suffix(), path.words());
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.lines.push(line),
            None => rows.push(Row { name, path, only: None, lines: vec![line] }),
        }
    }
    rows
}

/// Returns the picture of some rows, one under the other.
#[must_use]
pub fn render(title: &str, rows: &[Row<'_>]) -> String {
    let height = MARGIN_TOP + rows.iter().map(Row::height).sum::<f64>();
    let mut picture = Picture::new((WIDTH, height), STYLE);
    picture.text((LEFT[0], 38.0), "class=\"title\"", title);
    let lines: usize = rows.iter().map(|row| row.lines.len()).sum();
    let most_points = POINTS.0.min(POINTS.1 / lines.max(1));
    let mut top = MARGIN_TOP;
    for row in rows {
        row.draw(&mut picture, top, most_points);
        top += row.height();
    }
    picture.finish()
}

impl Row<'_> {
    /// Returns the height of the labels that do not fit into the first line of them.
    fn more_labels(&self) -> f64 {
        (self.lines.len().saturating_sub(1) / LABELS) as f64 * LABEL.1
    }

    fn height(&self) -> f64 {
        ROW + self.more_labels()
    }

    fn draw(&self, picture: &mut Picture, top: f64, most_points: usize) {
        picture.text((LEFT[0], top + 18.0), "class=\"name\"", &self.name);
        for (number, line) in self.lines.iter().enumerate() {
            let at = LEFT[0] + LABEL.0 * (number % LABELS) as f64;
            let down = top + 35.0 + LABEL.1 * (number / LABELS) as f64;
            picture.label(number, (at, down), &line.label);
        }
        let last = self.lines.iter().filter_map(|line| line.points.last());
        let time = Scale::up_to(last.map(|point| point.seconds).fold(1.0, f64::max).ceil());
        let top = top + PANEL_TOP + self.more_labels();
        Panel {
            left: LEFT[0],
            top,
            time,
            unit: "cwnd (segments)",
            mark: (self.path.bdp_segments(), "bandwidth × RTT"),
            value: |point| f64::from(point.cwnd_segments),
        }
        .draw(picture, &self.lines, most_points);
        Panel {
            left: LEFT[1],
            top,
            time,
            unit: "goodput (Mb/s)",
            mark: (self.path.carries_bits_per_second / 1e6, "what the path can carry"),
            value: |point| point.goodput_bits_per_second / 1e6,
        }
        .draw(picture, &self.lines, most_points);
    }
}

struct Panel {
    left: f64,
    top: f64,
    /// The axis of time, in seconds.
    time: Scale,
    unit: &'static str,
    /// A level worth knowing, and what it is.
    mark: (f64, &'static str),
    value: fn(&Point) -> f64,
}

impl Panel {
    fn draw(&self, picture: &mut Picture, lines: &[Line<'_>], most_points: usize) {
        let points = lines.iter().flat_map(|line| line.points);
        let scale = Scale::above(points.map(self.value).fold(self.mark.0, f64::max), 0.0);
        let x = |seconds: f64| self.left + seconds / self.time.limit * SIZE.0;
        let y = |value: f64| self.top + (1.0 - value / scale.limit) * SIZE.1;
        let (right, bottom) = (self.left + SIZE.0, self.top + SIZE.1);
        let (middle, end) = ("text-anchor=\"middle\"", "text-anchor=\"end\"");

        for value in scale.numbers() {
            picture.line("grid", (self.left, y(value)), (right, y(value)));
            picture.text((self.left - 8.0, y(value) + 4.0), end, &scale.written(value));
        }
        for seconds in self.time.numbers() {
            picture.line("axis", (x(seconds), bottom), (x(seconds), bottom + 5.0));
            picture.text((x(seconds), bottom + 20.0), middle, &self.time.written(seconds));
        }
        picture.line("axis", (self.left, bottom), (right, bottom));
        picture.text((self.left + SIZE.0 / 2.0, bottom + 40.0), middle, "time (s)");
        picture.text((self.left, self.top - 8.0), "class=\"small\"", self.unit);
        picture.line("mark", (self.left, y(self.mark.0)), (right, y(self.mark.0)));
        for (number, line) in lines.iter().enumerate() {
            let at = |point: &Point| (x(point.seconds), y((self.value)(point)));
            let attributes = format!("class=\"line\" stroke=\"{}\"", colour(number));
            let points = thinned(line.points, self.value, most_points);
            picture.curve(attributes, points.into_iter().map(|point| Some(at(point))));
        }
        let note = (right, y(self.mark.0) - 6.0);
        picture.text(note, "class=\"small\" text-anchor=\"end\"", self.mark.1);
    }
}

/// Returns so many of the points at most: of each stretch those with the least and the greatest
/// value, so that peaks and drops stay, and the first and the last of all.
fn thinned(points: &[Point], value: fn(&Point) -> f64, most: usize) -> Vec<&Point> {
    if points.len() <= most.max(4) {
        return points.iter().collect();
    }
    let [first, inner @ .., last] = points else { return Vec::new() };
    let stretches = (most.max(4) - 2) / 2;
    let mut kept = vec![first];
    for number in 0..stretches {
        let at = |number: usize| number * inner.len() / stretches;
        let stretch = &inner[at(number)..at(number + 1)];
        let by_value = |a: &(usize, &Point), b: &(usize, &Point)| value(a.1).total_cmp(&value(b.1));
        let all = || stretch.iter().enumerate();
        let (Some(least), Some(greatest)) = (all().min_by(by_value), all().max_by(by_value)) else {
            continue;
        };
        let (begin, end) = (least.0.min(greatest.0), least.0.max(greatest.0));
        kept.push(&stretch[begin]);
        kept.extend((end > begin).then(|| &stretch[end]));
    }
    kept.push(last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_its_lines_and_label() {
        let report = report::tests::report();
        let svg = render("A title", &rows(&report));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<path class=\"line\"").count(), 4);
        assert!(svg.contains("wad_aimd (reno)") && !svg.contains("NaN"));
    }

    #[test]
    fn a_long_line_is_cut_to_few_points_and_keeps_its_peaks() {
        let point = |number: u32| Point {
            seconds: f64::from(number),
            cwnd_segments: if number == 777 { 9000 } else { number % 7 },
            rtt_milliseconds: 1.0,
            goodput_bits_per_second: 0.0,
        };
        let points: Vec<Point> = (0..5000).map(point).collect();
        let cwnd = |point: &Point| f64::from(point.cwnd_segments);
        for most in [0, 4, 50, 51, 240] {
            let kept = thinned(&points, cwnd, most);
            assert!(kept.len() <= most.max(4), "{most}: {}", kept.len());
            assert!(kept.windows(2).all(|pair| pair[0].seconds < pair[1].seconds), "{most}");
            assert_eq!((kept[0].seconds, kept[kept.len() - 1].seconds), (0.0, 4999.0));
            assert!(kept.iter().any(|point| point.cwnd_segments == 9000), "{most}");
        }
        assert_eq!(thinned(&points[..50], cwnd, 50).len(), 50);
        assert_eq!(thinned(&points[..1], cwnd, 0).len(), 1);
    }
}
