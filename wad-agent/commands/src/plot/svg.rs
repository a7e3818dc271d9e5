//! Panels one under the other, over one axis of time. Lengths are in pixels.

use wad_svg::{Picture, Scale, colour};

use super::curve::{Curve, Panel, thinned};

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
/// Width of the line of the first flow and of the last: where lines run on one another,
/// those below show at the edges.
const WIDEST: f64 = 3.2;
const NARROWEST: f64 = 1.6;
const STYLE: &str = ".title{font-size:18px;font-weight:600;fill:#111}\
    .line,.dashed,.phase{fill:none;stroke-linejoin:round;stroke-linecap:round}\
    .dashed{stroke-width:1.3;stroke-dasharray:5 4;stroke-opacity:.8}";

/// A frame is what stands over and below the panels.
pub struct Frame<'a> {
    pub title: &'a str,
    /// The names of the lines, the first of each panel first.
    pub labels: Vec<&'a str>,
    /// Where the axis of time ends.
    pub end: f64,
    /// The axis counts this.
    pub counted: &'a str,
}

/// The picture.
pub fn render(frame: &Frame<'_>, panels: &[Panel]) -> String {
    let first = TOP + LABEL * frame.labels.len() as f64 + BETWEEN / 2.0;
    let height = first + (HEIGHT + BETWEEN) * panels.len() as f64 - BETWEEN + BOTTOM;
    let mut picture = Picture::new((WIDTH, height), STYLE);
    picture.text((LEFT, 34.0), "class=\"title\"", frame.title);
    for (number, label) in frame.labels.iter().enumerate() {
        picture.label(number, (LEFT, TOP + LABEL * number as f64), label);
    }
    let (time, counted) = (Scale::up_to(frame.end), frame.counted);
    for (number, panel) in panels.iter().enumerate() {
        let top = first + (HEIGHT + BETWEEN) * number as f64;
        Area { top, time, counted, is_last: number + 1 == panels.len() }.draw(&mut picture, panel);
    }
    picture.finish()
}

/// Says where a panel is drawn.
struct Area<'a> {
    top: f64,
    time: Scale,
    counted: &'a str,
    is_last: bool,
}

impl Area<'_> {
    fn draw(&self, picture: &mut Picture, panel: &Panel) {
        let highest = panel.highest() / panel.unit;
        let is_named = !panel.names.is_empty();
        let scale = match is_named {
            true => Scale::in_steps(highest, 1.0),
            false => Scale::above(highest, panel.least_step),
        };
        let bottom = self.top + HEIGHT;
        let y = |value: f64| self.top + (1.0 - value / scale.limit) * HEIGHT;
        for value in scale.numbers() {
            picture.line("grid", (LEFT, y(value)), (RIGHT, y(value)));
            if is_named {
                let name = (value as usize).checked_sub(1).and_then(|place| panel.names.get(place));
                picture.text((LEFT + 4.0, y(value) - 4.0), "", name.unwrap_or(&""));
                continue;
            }
            let at = (LEFT - 8.0, y(value) + 4.0);
            picture.text(at, "text-anchor=\"end\"", &scale.written(value));
        }
        for seconds in self.time.numbers() {
            picture.line("axis", (self.x(seconds), bottom), (self.x(seconds), bottom + 5.0));
            if self.is_last {
                let at = (self.x(seconds), bottom + 20.0);
                picture.text(at, "text-anchor=\"middle\"", &self.time.written(seconds));
            }
        }
        picture.line("axis", (LEFT, bottom), (RIGHT, bottom));
        picture.text((LEFT, self.top - 10.0), "", &panel.title);
        if self.is_last {
            let middle = (f64::midpoint(LEFT, RIGHT), bottom + 42.0);
            picture.text(middle, "text-anchor=\"middle\"", self.counted);
        }
        let lines = if is_named { "phase" } else { "line" };
        for (class, curves) in [("dashed", &panel.dashed), (lines, &panel.lines)] {
            for (number, curve) in curves.iter().enumerate() {
                let shown = |point: (f64, f64)| {
                    let (seconds, value) = (point.0, point.1 / panel.unit);
                    (value <= scale.limit).then(|| (self.x(seconds), y(value)))
                };
                let stroke = stroke(number, curves.len());
                self.draw_curve(picture, &format!("class=\"{class}\" {stroke}"), curve, shown);
            }
        }
    }

    fn draw_curve(
        &self,
        picture: &mut Picture,
        attributes: &str,
        curve: &Curve,
        shown: impl Fn((f64, f64)) -> Option<(f64, f64)>,
    ) {
        let pixel = self.time.limit / (RIGHT - LEFT);
        let points = thinned(curve, pixel).into_iter();
        picture.curve(attributes, points.map(|point| point.and_then(&shown)));
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.time.limit * (RIGHT - LEFT)
    }
}

/// Returns the stroke of the line of a flow, of so many. A dashed one has its own
/// width.
fn stroke(number: usize, count: usize) -> String {
    let colour = colour(number);
    let narrower = (WIDEST - NARROWEST) / count.saturating_sub(1).max(1) as f64;
    let width = NARROWEST + narrower * (count - 1 - number) as f64;
    format!("stroke=\"{colour}\" stroke-width=\"{width:.1}\"")
}
