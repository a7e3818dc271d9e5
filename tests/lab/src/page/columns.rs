//! A scenario's table has these columns: each a figure, shown where any variant has it.

use crate::{
    measure::median,
    report::{Sample, Variant},
    scenario::Measure,
    table::megabits,
};

type Cell = fn(&Variant) -> Option<String>;

/// The columns are headings and what is under them; words first, then figures.
const COLUMNS: [(&str, Cell); 24] = [
    ("control", |variant| Some(variant.congestion.clone())),
    ("streams", |variant| (variant.streams > 1).then(|| variant.streams.to_string())),
    ("Mb/s", |variant| Some(megabits(variant.goodput_bits_per_second))),
    ("runs", runs),
    ("first request and later ones, s", requests),
    ("of path", |variant| {
        let carries = variant.path.carries_bits_per_second;
        Some(format!("{:.2}", variant.goodput_bits_per_second / carries))
    }),
    ("after loss", |variant| variant.goodput_after_loss_bits_per_second.map(megabits)),
    ("resent", |variant| Some(spread(&variant.figures(Measure::Retransmits, None)))),
    ("without need", |variant| {
        variant.duplicates().map(|_| spread(&variant.figures(Measure::Duplicates, None)))
    }),
    ("events", |variant| Some(spread(&variant.figures(Measure::CongestionEvents, None)))),
    ("drops in slow start", |variant| {
        Some(spread(&variant.figures(Measure::SlowStartDrops, None)))
    }),
    ("first drop at", first_drop),
    ("before, Mb/s", |variant| {
        over(variant, |sample| Some(sample.recovery.as_ref()?.before_bits_per_second)).map(megabits)
    }),
    ("back after", back_after),
    ("after, Mb/s", |variant| {
        over(variant, |sample| Some(sample.recovery.as_ref()?.after_bits_per_second)).map(megabits)
    }),
    ("local drops", |variant| {
        over(variant, |sample| Some(sample.responses?.local_drops as f64)).map(whole)
    }),
    ("responses to local drops, drops, marks", responses),
    ("entries into CWR", |variant| {
        over(variant, |sample| Some(sample.responses?.cwr_entries as f64)).map(whole)
    }),
    ("not answered by a program", unanswered),
    ("of fair share", shares),
    ("ends tuned", tuned),
    ("memory of TCP, MB", |variant| {
        over(variant, |sample| Some(sample.memory.as_ref()?.most_bytes() as f64 / 1e6)).map(whole)
    }),
    ("lost where nobody reads", |variant| {
        over(variant, |sample| Some(sample.unread?.losses()? as f64)).map(whole)
    }),
    ("Jain", |variant| {
        let index = over(variant, |sample| sample.jain_index)?;
        Some(format!("{index:.2}"))
    }),
];

/// Returns the headings of the columns that have anything in them, and the rows.
pub fn table(variants: &[&Variant]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let used: Vec<&(&str, Cell)> = COLUMNS
        .iter()
        .filter(|(_, cell)| variants.iter().any(|variant| cell(variant).is_some()))
        .collect();
    let row = |variant: &&Variant| {
        let cells = used.iter().map(|(_, cell)| cell(variant).unwrap_or_else(|| "-".to_owned()));
        cells.collect()
    };
    let headings = used.iter().map(|(heading, _)| *heading).collect();
    (headings, variants.iter().map(row).collect())
}

/// Returns the median over those runs that have the figure.
fn over(variant: &Variant, figure: fn(&Sample) -> Option<f64>) -> Option<f64> {
    let figures: Vec<f64> = variant.samples.iter().filter_map(figure).collect();
    (!figures.is_empty()).then(|| median(figures))
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Returns the goodputs of single runs, in megabits.
fn runs(variant: &Variant) -> Option<String> {
    let figures = variant.figures(Measure::Goodput, None);
    let (least, most) = ends(&figures);
    (figures.len() > 1).then(|| format!("{} to {}", megabits(least), megabits(most)))
}

/// Returns how long the first request took, and the fastest and the slowest of those after it:
/// of each the median.
fn requests(variant: &Variant) -> Option<String> {
    let first = over(variant, |sample| sample.request_seconds.first().copied())?;
    let fastest = over(variant, |sample| later(sample).reduce(f64::min))?;
    let slowest = over(variant, |sample| later(sample).reduce(f64::max))?;
    Some(format!("{first:.2}, {fastest:.2} to {slowest:.2}"))
}

fn later(sample: &Sample) -> impl Iterator<Item = f64> {
    sample.request_seconds.iter().copied().skip(1)
}

/// Returns the median, and of what if single runs differ.
fn spread(figures: &[f64]) -> String {
    let (least, most) = ends(figures);
    let middle = whole(median(figures.iter().copied()));
    if least < most { format!("{middle} ({least:.0} to {most:.0})") } else { middle }
}

fn ends(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    (least, figures.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn first_drop(variant: &Variant) -> Option<String> {
    let figures = variant.figures(Measure::FirstDropBdp, None);
    let at = median(figures.iter().copied());
    if figures.is_empty() || at.is_infinite() {
        return None;
    }
    let segments = at * variant.path.bdp_segments();
    Some(format!("{segments:.0} segments, {at:.2} BDP"))
}

fn back_after(variant: &Variant) -> Option<String> {
    let seen = variant.samples.iter().filter_map(|sample| {
        let back = sample.recovery.as_ref()?.back_after_seconds;
        Some(back.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.1} s")))
    });
    let seen: Vec<String> = seen.collect();
    (!seen.is_empty()).then(|| seen.join(", "))
}

fn responses(variant: &Variant) -> Option<String> {
    let counts = [Measure::LocalResponses, Measure::DropResponses, Measure::MarkResponses];
    let counts = counts.map(|measure| {
        let figures = variant.figures(measure, None);
        (!figures.is_empty()).then(|| spread(&figures))
    });
    let [Some(local), Some(drops), Some(marks)] = counts else { return None };
    Some(format!("{local}, {drops}, {marks}"))
}

/// Returns the unanswered events in all runs together, where there are any.
fn unanswered(variant: &Variant) -> Option<String> {
    let counts = variant.samples.iter().filter_map(|sample| Some(sample.responses?.unanswered));
    Some(counts.sum::<u64>()).filter(|sum| *sum > 0).map(|sum| sum.to_string())
}

/// Returns how many ends of flows have a law of `wad`'s, of how many; none without any.
fn tuned(variant: &Variant) -> Option<String> {
    let share = over(variant, |sample| sample.tuned_share).filter(|share| *share > 0.0)?;
    let ends = 2 * variant.streams;
    Some(format!("{:.0} of {ends}", share * f64::from(ends)))
}

/// Returns the share of each kind of flow, where there are several.
fn shares(variant: &Variant) -> Option<String> {
    let flows = Some(&variant.samples.first()?.flows).filter(|flows| flows.len() > 1)?;
    let shares = flows.iter().map(|flows| {
        let share = median(variant.figures(Measure::Share, Some(&flows.name)));
        format!("{} {share:.2}", flows.name)
    });
    Some(shares.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn only_columns_with_figures_are_shown() {
        let report = report();
        let variants: Vec<&Variant> = report.variants.iter().collect();
        let (headings, rows) = table(&variants);
        let at = |name: &str| headings.iter().position(|heading| *heading == name);
        assert!(at("Jain").is_none() && at("back after").is_none());
        assert_eq!(rows[0][at("Mb/s").unwrap()], "210");
        assert_eq!(rows[0][at("runs").unwrap()], "200 to 250");
        assert_eq!(rows[0][at("first drop at").unwrap()], "3000 segments, 0.72 BDP");
        assert_eq!(rows[0][at("first request and later ones, s").unwrap()], "0.50, 0.25 to 0.40");
        assert_eq!(at("ends tuned"), None);
    }

    #[test]
    fn tuned_ends_are_counted() {
        let mut report = report();
        report.variants[1].streams = 8;
        report.variants[1].samples.iter_mut().for_each(|one| one.tuned_share = Some(15.0 / 16.0));
        let [reno, ours] = [0, 1].map(|number| tuned(&report.variants[number]));
        assert_eq!((reno, ours.as_deref()), (None, Some("15 of 16")));
    }

    #[test]
    fn figures_that_vary_say_how_much() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), "2 (1 to 3)");
        assert_eq!(spread(&[2.0, 2.0]), "2");
    }
}
