//! Panels one under the other, over one axis of time. Lengths are in pixels.

use std::fmt::{Display, Write as _};

use super::{
    curve::{Curve, Panel, thinned},
    flows::{Flow, MOST},
};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 970.0;
const TOP: f64 = 56.0;
/// Height of a label of a flow.
const LABEL: f64 = 20.0;
/// Height of a panel's plotting area, and between two.
const HEIGHT: f64 = 170.0;
const BETWEEN: f64 = 46.0;
const BOTTOM: f64 = 56.0;
/// Told apart by the colour-blind, too (Okabe and Ito; grey for their yellow).
const COLOURS: [&str; MOST] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];
/// Width of the line of the first flow and of the last: where lines run on one another,
/// those below show at the edges.
const WIDEST: f64 = 3.2;
const NARROWEST: f64 = 1.6;
const STYLE: &str = "text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:13px;fill:#333}\
    .title{font-size:18px;font-weight:600;fill:#111}.grid{stroke:#e4e4e4}.axis{stroke:#888}\
    .line,.dashed,.phase{fill:none;stroke-linejoin:round;stroke-linecap:round}\
    .dashed{stroke-width:1.3;stroke-dasharray:5 4;stroke-opacity:.8}";

/// The picture.
pub fn render(title: &str, flows: &[Flow], panels: &[Panel]) -> String {
    let first = TOP + LABEL * flows.len() as f64 + BETWEEN / 2.0;
    let height = first + (HEIGHT + BETWEEN) * panels.len() as f64 - BETWEEN + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, (LEFT, 34.0), "class=\"title\"", title);
    for (number, flow) in flows.iter().enumerate() {
        let down = TOP + LABEL * number as f64;
        let colour = COLOURS[number % COLOURS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{down}\" width=\"22\" height=\"4\" rx=\"2\" fill=\"{colour}\"/>"
        );
        text(&mut svg, (LEFT + 30.0, down + 6.0), "", &flow.label);
    }
    let ends = flows.iter().filter_map(|flow| flow.points.last()).map(|(seconds, _)| *seconds);
    let seconds = ends.fold(0.1, f64::max);
    for (number, panel) in panels.iter().enumerate() {
        let top = first + (HEIGHT + BETWEEN) * number as f64;
        Area { top, seconds, is_last: number + 1 == panels.len() }.draw(&mut svg, panel);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Says where a panel is drawn.
struct Area {
    top: f64,
    /// Seconds that the axis of time has.
    seconds: f64,
    is_last: bool,
}

impl Area {
    fn draw(&self, svg: &mut String, panel: &Panel) {
        let highest = panel.highest() / panel.unit;
        let is_named = !panel.names.is_empty();
        let step = if is_named { 1.0 } else { round_step(highest).max(panel.least_step) };
        // Half a step of air, so that no line runs along the frame.
        let limit = ((highest / step + 0.5).ceil() * step).max(step);
        let bottom = self.top + HEIGHT;
        let y = |value: f64| self.top + (1.0 - value / limit) * HEIGHT;
        for value in steps(limit, step) {
            line(svg, "grid", (LEFT, y(value)), (RIGHT, y(value)));
            if is_named {
                let name = (value as usize).checked_sub(1).and_then(|place| panel.names.get(place));
                text(svg, (LEFT + 4.0, y(value) - 4.0), "", name.unwrap_or(&""));
                continue;
            }
            let at = (LEFT - 8.0, y(value) + 4.0);
            text(svg, at, "text-anchor=\"end\"", &number(value, step));
        }
        let time_step = round_step(self.seconds);
        for seconds in steps(self.seconds, time_step) {
            line(svg, "axis", (self.x(seconds), bottom), (self.x(seconds), bottom + 5.0));
            if self.is_last {
                let at = (self.x(seconds), bottom + 20.0);
                text(svg, at, "text-anchor=\"middle\"", &number(seconds, time_step));
            }
        }
        line(svg, "axis", (LEFT, bottom), (RIGHT, bottom));
        text(svg, (LEFT, self.top - 10.0), "", &panel.title);
        if self.is_last {
            let middle = (f64::midpoint(LEFT, RIGHT), bottom + 42.0);
            text(svg, middle, "text-anchor=\"middle\"", "time (s)");
        }
        let lines = if is_named { "phase" } else { "line" };
        for (class, curves) in [("dashed", &panel.dashed), (lines, &panel.lines)] {
            for (number, curve) in curves.iter().enumerate() {
                let shown = |point: (f64, f64)| {
                    let (seconds, value) = (point.0, point.1 / panel.unit);
                    (value <= limit).then(|| (self.x(seconds), y(value)))
                };
                self.draw_curve(svg, (class, &stroke(number, curves.len())), curve, shown);
            }
        }
    }

    fn draw_curve(
        &self,
        svg: &mut String,
        (class, stroke): (&str, &str),
        curve: &Curve,
        shown: impl Fn((f64, f64)) -> Option<(f64, f64)>,
    ) {
        let pixel_seconds = self.seconds / (RIGHT - LEFT);
        let mut path = String::new();
        let mut is_down = false;
        for point in thinned(curve, pixel_seconds) {
            let at = point.and_then(&shown);
            if let Some((x, y)) = at {
                let _ = write!(path, "{}{x:.1},{y:.1}", if is_down { 'L' } else { 'M' });
            }
            is_down = at.is_some();
        }
        if !path.is_empty() {
            let _ = writeln!(svg, "<path class=\"{class}\" {stroke} d=\"{path}\"/>");
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.seconds * (RIGHT - LEFT)
    }
}

/// Returns the stroke of the line of a flow, of so many. A dashed one has its own
/// width.
fn stroke(number: usize, count: usize) -> String {
    let colour = COLOURS[number % COLOURS.len()];
    let narrower = (WIDEST - NARROWEST) / count.saturating_sub(1).max(1) as f64;
    let width = NARROWEST + narrower * (count - 1 - number) as f64;
    format!("stroke=\"{colour}\" stroke-width=\"{width:.1}\"")
}

/// A step of 1, 2 or 5 times a power of ten that gives 4 to 10 of them.
fn round_step(limit: f64) -> f64 {
    let power = 10_f64.powf((limit.max(1e-9) / 4.0).log10().floor());
    let fits = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power * 4.0 <= limit);
    fits.unwrap_or(1.0) * power
}

fn steps(limit: f64, step: f64) -> impl Iterator<Item = f64> {
    (0..=(limit / step + 1e-9) as u32).map(move |number| f64::from(number) * step)
}

/// Writes a number with as many decimals as its step has, and a thin space between
/// groups of three digits.
fn number(value: f64, step: f64) -> String {
    let decimals = if step < 1.0 { (-step.log10()).ceil() as usize } else { 0 };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(w, f)| (w, Some(f)));
    let groups = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    let whole = groups.collect::<Vec<_>>().join("\u{2009}");
    fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"))
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), attributes: impl Display, content: &str) {
    let mut escaped = String::new();
    for character in content.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // XML has no way to write these.
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            other if other.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    let _ =
        writeln!(svg, "<text {attributes} x=\"{:.1}\" y=\"{:.1}\">{escaped}</text>", at.0, at.1);
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
    fn numbers_have_the_decimals_of_their_steps() {
        assert_eq!(number(1_234_567.0, 500.0), "1\u{2009}234\u{2009}567");
        assert_eq!(
            (number(0.4, 0.2), number(0.25, 0.05), number(2.0, 1.0)),
            ("0.4".into(), "0.25".into(), "2".into())
        );
    }

    #[test]
    fn text_is_escaped() {
        let mut svg = String::new();
        text(&mut svg, (0.0, 0.0), "", "a<b & c\u{1}");
        assert!(svg.contains("a&lt;b &amp; c\u{fffd}"));
    }
}
