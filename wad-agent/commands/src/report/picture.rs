//! The picture of a report: for each metric the ratio that was found, and those that are possible.
//! Ratios are over an axis of logarithms.

use wad_evidence::{
    experiment::Found,
    verdict::{Effect, Verdict},
};
use wad_svg::{Picture, colour};

use super::words;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 260.0;
const RIGHT: f64 = 740.0;
const ROW: f64 = 30.0;
const TOP: f64 = 30.0;

/// Ratios that the axis may end at, either way.
const ENDS: [f64; 5] = [1.25, 2.0, 4.0, 16.0, 256.0];

/// Draws the metrics one below the other.
pub fn picture(all: &[Found]) -> String {
    let end = end(all);
    let place = |ratio: f64| {
        let part = (ratio.ln() / end.ln()).clamp(-1.0, 1.0);
        (LEFT + RIGHT) / 2.0 + part * (RIGHT - LEFT) / 2.0
    };
    let bottom = TOP + ROW * all.len() as f64;
    let style = ".span{stroke-width:3}.found{stroke-width:9;stroke-linecap:round}";
    let mut picture = Picture::new((WIDTH, bottom + 30.0), style);
    for mark in [1.0 / end, 1.0 / end.sqrt(), 1.0, end.sqrt(), end] {
        let class = if mark == 1.0 { "axis" } else { "grid" };
        picture.line(class, (place(mark), TOP - 10.0), (place(mark), bottom));
        let shown = format!("{}x", (mark * 1e3).round() / 1e3);
        picture.text((place(mark), bottom + 18.0), "text-anchor=\"middle\"", &shown);
    }
    for (number, found) in all.iter().enumerate() {
        let y = TOP + ROW * (number as f64 + 0.5);
        let words = format!("{}: {}", found.metric, words::verdict(found));
        picture.text((LEFT - 14.0, y + 5.0), "text-anchor=\"end\"", &words);
        let Some(Effect { ratio, least, most }) = found.finding.effect else { continue };
        let colour = colour(colour_of(found.finding.verdict));
        let from = least.map_or(LEFT, place);
        let to = most.map_or(RIGHT, place);
        let attributes = |class: &str| format!("class=\"{class}\" stroke=\"{colour}\"");
        picture.curve(attributes("span"), [Some((from, y)), Some((to, y))].into_iter());
        picture.curve(attributes("found"), [Some((place(ratio), y))].into_iter());
    }
    picture.finish()
}

/// Returns the least end of the axis that all that is drawn is within.
fn end(all: &[Found]) -> f64 {
    let effects = all.iter().filter_map(|found| found.finding.effect);
    let ratios = effects.flat_map(|effect| [Some(effect.ratio), effect.least, effect.most]);
    let furthest = ratios.flatten().map(|ratio| ratio.max(1.0 / ratio)).fold(1.0, f64::max);
    ENDS.into_iter().find(|end| *end >= furthest).unwrap_or(ENDS[ENDS.len() - 1])
}

/// Returns the number of a colour; the word beside says the same.
const fn colour_of(verdict: Option<Verdict>) -> usize {
    match verdict {
        Some(Verdict::Better) => 2,
        Some(Verdict::Worse) => 1,
        Some(Verdict::Equal) => 0,
        Some(Verdict::GoOn | Verdict::Inconclusive) | None => 7,
    }
}
