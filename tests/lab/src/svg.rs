//! A picture shows windows and goodput over time: a row per experiment, on the left the
//! congestion window, on the right what arrives. Lengths are in pixels.

use std::fmt::Write;

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
/// The colours are told apart by the colour-blind, too (Okabe and Ito; grey for their
/// yellow).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];
const STYLE: &str = "text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:13px;fill:#333}\
    .title{font-size:20px;font-weight:600;fill:#111}.name{font-size:16px;font-weight:600;fill:#111}\
    .small{font-size:12px;fill:#666;paint-order:stroke;stroke:#fff;stroke-width:4px}.grid{stroke:#e4e4e4}.axis{stroke:#888}\
    .mark{stroke:#666;stroke-dasharray:5 4}.line{fill:none;stroke-width:2;stroke-linejoin:round}";

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
/// one kind of flow share the row of their path; others have one for themselves, with a
/// line for each kind.
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
        let label = format!("{} ({})", variant.name, variant.congestion);
        let line = Line { label, points: &sample.series };
        let name = format!("{}: {}", report.scenario, path.words());
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
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, (LEFT[0], 38.0), "title", title);
    let mut top = MARGIN_TOP;
    for row in rows {
        row.draw(&mut svg, top);
        top += row.height();
    }
    svg.push_str("</svg>\n");
    svg
}

impl Row<'_> {
    /// Returns the height of the labels that do not fit into the first line of them.
    fn more_labels(&self) -> f64 {
        (self.lines.len().saturating_sub(1) / LABELS) as f64 * LABEL.1
    }

    fn height(&self) -> f64 {
        ROW + self.more_labels()
    }

    fn draw(&self, svg: &mut String, top: f64) {
        text(svg, (LEFT[0], top + 18.0), "name", &self.name);
        for (number, line) in self.lines.iter().enumerate() {
            let at = LEFT[0] + LABEL.0 * (number % LABELS) as f64;
            let down = top + 35.0 + LABEL.1 * (number / LABELS) as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{at}\" y=\"{down}\" width=\"22\" height=\"4\" rx=\"2\" fill=\"{}\"/>",
                COLOURS[number % COLOURS.len()]
            );
            text(svg, (at + 30.0, down + 7.0), "", &line.label);
        }
        let last = self.lines.iter().filter_map(|line| line.points.last());
        let seconds = last.map(|point| point.seconds).fold(1.0, f64::max).ceil();
        let top = top + PANEL_TOP + self.more_labels();
        Panel {
            left: LEFT[0],
            top,
            seconds,
            unit: "cwnd (segments)",
            mark: (self.path.bdp_segments(), "bandwidth × RTT"),
            value: |point| f64::from(point.cwnd_segments),
        }
        .draw(svg, &self.lines);
        Panel {
            left: LEFT[1],
            top,
            seconds,
            unit: "goodput (Mb/s)",
            mark: (self.path.carries_bits_per_second / 1e6, "what the path can carry"),
            value: |point| point.goodput_bits_per_second / 1e6,
        }
        .draw(svg, &self.lines);
    }
}

struct Panel {
    left: f64,
    top: f64,
    seconds: f64,
    unit: &'static str,
    /// A level worth knowing, and what it is.
    mark: (f64, &'static str),
    value: fn(&Point) -> f64,
}

impl Panel {
    fn draw(&self, svg: &mut String, lines: &[Line<'_>]) {
        let points = lines.iter().flat_map(|line| line.points);
        let highest = points.map(self.value).fold(self.mark.0, f64::max);
        let step = round_step(highest);
        // Half a step of air, so that no line runs along the frame.
        let limit = ((highest / step + 0.5).ceil() * step).max(step);
        let x = |seconds: f64| self.left + seconds / self.seconds * SIZE.0;
        let y = |value: f64| self.top + (1.0 - value / limit) * SIZE.1;
        let (right, bottom) = (self.left + SIZE.0, self.top + SIZE.1);

        for value in steps(limit, step) {
            line(svg, "grid", (self.left, y(value)), (right, y(value)));
            ending(svg, (self.left - 8.0, y(value) + 4.0), &grouped(value));
        }
        let time_step = round_step(self.seconds);
        for seconds in steps(self.seconds, time_step) {
            line(svg, "axis", (x(seconds), bottom), (x(seconds), bottom + 5.0));
            centred(svg, (x(seconds), bottom + 20.0), &grouped(seconds));
        }
        line(svg, "axis", (self.left, bottom), (right, bottom));
        centred(svg, (self.left + SIZE.0 / 2.0, bottom + 40.0), "time (s)");
        text(svg, (self.left, self.top - 8.0), "small", self.unit);
        line(svg, "mark", (self.left, y(self.mark.0)), (right, y(self.mark.0)));
        for (number, line) in lines.iter().enumerate() {
            let mut path = String::new();
            for point in line.points {
                let _ = write!(path, "{:.1},{:.1} ", x(point.seconds), y((self.value)(point)));
            }
            let _ = writeln!(
                svg,
                "<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>",
                COLOURS[number % COLOURS.len()],
                path.trim_end()
            );
        }
        let note = (right, y(self.mark.0) - 6.0);
        let _ = writeln!(
            svg,
            "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            note.0, note.1, self.mark.1
        );
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten that gives 4 to 10 of them.
fn round_step(limit: f64) -> f64 {
    let power = 10_f64.powf((limit.max(1e-9) / 4.0).log10().floor());
    let fits = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power * 4.0 <= limit);
    fits.unwrap_or(1.0) * power
}

fn steps(limit: f64, step: f64) -> impl Iterator<Item = f64> {
    (0..=(limit / step + 1e-9) as u32).map(move |number| f64::from(number) * step)
}

/// Formats a number with a thin space between groups of three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups = groups.map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join("\u{2009}")
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), class: &str, content: &str) {
    anchored(svg, at, &format!("class=\"{class}\""), content);
}

fn centred(svg: &mut String, at: (f64, f64), content: &str) {
    anchored(svg, at, "text-anchor=\"middle\"", content);
}

fn ending(svg: &mut String, at: (f64, f64), content: &str) {
    anchored(svg, at, "text-anchor=\"end\"", content);
}

fn anchored(svg: &mut String, at: (f64, f64), attributes: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ =
        writeln!(svg, "<text {attributes} x=\"{:.1}\" y=\"{:.1}\">{content}</text>", at.0, at.1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for (limit, step) in [(622.0, 100.0), (15.0, 2.0), (3759.0, 500.0), (4.0, 1.0), (0.9, 0.2)]
        {
            assert!((round_step(limit) - step).abs() < 1e-9, "{limit}: {}", round_step(limit));
        }
        assert_eq!(steps(1.0, 0.2).count(), 6);
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(1_234_567.0), "1\u{2009}234\u{2009}567");
    }

    #[test]
    fn every_variant_has_its_lines_and_label() {
        let report = report::tests::report();
        let svg = render("A title", &rows(&report));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("wad_aimd (reno)") && !svg.contains("NaN"));
    }

    #[test]
    fn text_is_escaped() {
        let mut svg = String::new();
        text(&mut svg, (0.0, 0.0), "", "a<b & c");
        assert!(svg.contains("a&lt;b &amp; c"));
    }
}
