//! Reports are shown as a plain table.

use std::fmt::Write;

use crate::{
    measure::median,
    report::{Report, Variant, called},
    scenario::Measure,
};

const HEADINGS: [&str; 11] = [
    "scenario",
    "variant",
    "control",
    "Mb/s",
    "of path",
    "after 3 s",
    "after loss",
    "gain",
    "at 6.16",
    "resent",
    "events",
];
/// The first columns are words.
const WORDS: usize = 3;
/// With no more left of the processors' time, they may be what limits a rate.
const FULL: f64 = 0.05;

/// Returns the table, and under it what each path can carry and what the papers saw.
#[must_use]
pub fn render(reports: &[Report]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for report in reports {
        let run = report.variants.iter().filter(|variant| !variant.samples.is_empty());
        rows.extend(run.map(|variant| row(report, variant).to_vec()));
    }
    let widths = widths(&rows);
    let rules = widths.iter().map(|width| "-".repeat(*width)).collect();
    rows.insert(1, rules);
    let mut text = aligned(&rows, WORDS);
    for report in reports {
        let _ = write!(text, "\n{}", notes(report));
    }
    text
}

/// Returns rows as lines whose columns stand below each other: the first so many are words, to the
/// left, the others figures, to the right.
#[must_use]
pub fn aligned(rows: &[Vec<String>], words: usize) -> String {
    let widths = widths(rows);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Returns the width of each column, in characters.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// Returns the gain over what is untuned, on the same path, with the buffers of Debian and
/// of newer kernels; where nothing is untuned, over the first variant.
fn row(report: &Report, variant: &Variant) -> [String; 11] {
    let [untuned, newer] = report.untuned(variant);
    let is_beside = |other: &&Variant| other.path_suffix() == variant.path_suffix();
    let first = untuned.or_else(|| report.variants.iter().find(is_beside));
    let gain =
        |over| Report::gain(variant, over).map_or("-".to_owned(), |gain| format!("{gain:.2}"));
    let carries = variant.path.carries_bits_per_second;
    let share = |bits: f64| format!("{} ({:.2})", megabits(bits), bits / carries);
    [
        report.scenario.clone(),
        variant.name.clone(),
        variant.congestion.clone(),
        megabits(variant.goodput_bits_per_second),
        format!("{:.2}", variant.goodput_bits_per_second / carries),
        variant.goodput_after_3_seconds_bits_per_second.map_or("-".to_owned(), share),
        variant.goodput_after_loss_bits_per_second.map_or("-".to_owned(), share),
        gain(first),
        gain(newer),
        format!("{:.0}", variant.retransmits),
        format!("{:.0}", variant.congestion_events),
    ]
}

/// Formats a rate in megabits, for people.
#[must_use]
pub fn megabits(bits: f64) -> String {
    format!("{:.0}", bits / 1e6)
}

/// Returns what has to be known of single variants: what they differ in, and what makes a
/// rate that of this machine.
#[must_use]
pub fn remarks(report: &Report) -> Vec<String> {
    let run: Vec<&Variant> =
        report.variants.iter().filter(|variant| !variant.samples.is_empty()).collect();
    let mut remarks: Vec<(String, Vec<&str>)> = Vec::new();
    let all = run.iter().flat_map(|variant| {
        let said = [apart(report, variant), unread(variant), full(variant)];
        said.into_iter().flatten().map(|said| (said, variant.name.as_str()))
    });
    for (said, name) in all {
        match remarks.iter_mut().find(|(other, _)| *other == said) {
            Some((_, names)) => names.push(name),
            None => remarks.push((said, vec![name])),
        }
    }
    let line = |(said, names): (String, Vec<&str>)| format!("{}: {said}", called(&run, &names));
    remarks.into_iter().map(line).collect()
}

/// Tells of a path that is not in the grid, and of another client.
fn apart(report: &Report, variant: &Variant) -> Option<String> {
    let is_elsewhere = variant.path_suffix().is_empty() && variant.path != report.path;
    let client = variant.client.as_ref().map(|client| format!("by {client}"));
    let path = is_elsewhere.then(|| format!("over {}", variant.path.words()));
    let said: Vec<String> = path.into_iter().chain(client).collect();
    (!said.is_empty()).then(|| format!("{}.", said.join(", ")))
}

/// Tells of connections whose receivers never read, in the last run.
fn unread(variant: &Variant) -> Option<String> {
    let unread = variant.samples.last()?.unread?;
    Some(format!(
        "of {} connections beside it that nobody reads, {} held {:.1} MB at their receivers, {} of \
         their ends tuned; {} segments were sent again, {} dropped.",
        unread.wanted,
        unread.connections,
        unread.bytes as f64 / 1e6,
        unread.tuned_ends,
        unread.retransmits,
        unread.drops
    ))
}

fn full(variant: &Variant) -> Option<String> {
    let left = variant.figures(Measure::Idle, None);
    (!left.is_empty() && median(left) <= FULL).then(|| {
        "the processors were busy all the time: the rate may be this machine's, not the path's."
            .to_owned()
    })
}

fn notes(report: &Report) -> String {
    let path = &report.path;
    let mut text = format!(
        "{}: {}; it can carry {} Mb/s (rate less headers).\n",
        report.scenario,
        path.words(),
        megabits(path.carries_bits_per_second),
    );
    if let Some(untuned) = report.variants.iter().find(|variant| variant.name == "untuned") {
        let allowed = path.untuned_window_over_rtt_bits_per_second;
        let _ = writeln!(
            text,
            "  untuned: its window over the RTT is {} Mb/s, of which it got {:.2}.",
            megabits(allowed),
            untuned.goodput_bits_per_second / allowed
        );
    }
    for variant in report.variants.iter().filter(|variant| variant.samples.len() > 1) {
        let runs = variant.samples.iter().map(|sample| {
            megabits(
                sample.goodput_after_loss_bits_per_second.unwrap_or(sample.goodput_bits_per_second),
            )
        });
        let runs = runs.collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "  {}: single runs {runs} Mb/s.", variant.name);
    }
    for variant in &report.variants {
        if let Some(duplicates) = variant.duplicates() {
            let _ = writeln!(
                text,
                "  {}: of {:.0} segments sent again, {duplicates:.0} were there already.",
                variant.name, variant.retransmits
            );
        }
    }
    remarks(report).iter().for_each(|remark| {
        let _ = writeln!(text, "  {remark}");
    });
    if let Some(paper) = &report.paper {
        let _ = writeln!(text, "  the paper: {paper}.");
    }
    let samples = || report.variants.iter().flat_map(|variant| &variant.samples);
    let own_drops: u64 = samples()
        .map(|sample| sample.emulator.forward.own_drops() + sample.emulator.reverse.own_drops())
        .sum();
    if own_drops > 0 {
        let _ = writeln!(
            text,
            "  The emulated path itself lost {own_drops} segments: this machine was too busy."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::tests::report, unread::Unread};

    #[test]
    fn columns_line_up_and_the_gain_is_shown() {
        let text = render(&[report()]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("scenario   variant   control"), "{text}");
        assert!(lines[3].starts_with("aimd-oc12  wad_aimd  reno"), "{text}");
        // 3.72 / 2.52: what is compared is the goodput after the loss.
        assert!(lines[3].ends_with("1.48        -       1       1"), "{text}");
        assert!(lines.iter().any(|line| line.contains("single runs 240 300 252 Mb/s")), "{text}");
        assert!(!text.contains("busy all the time"), "{text}");
        let needless = "wad_aimd: of 1 segments sent again, 1 were there already.";
        assert!(lines.iter().any(|line| line.contains(needless)), "{text}");
    }

    #[test]
    fn what_variants_differ_in_is_said() {
        let mut report = report();
        for variant in &mut report.variants {
            variant.client = Some("iperf3".to_owned());
            variant.path.rtt_seconds = 0.09;
        }
        let last = &mut report.variants[1];
        last.samples.iter_mut().for_each(|sample| sample.idle_share = Some(0.01));
        let unread = Unread { wanted: 4, connections: 3, bytes: 900_000, ..Unread::default() };
        last.samples[2].unread = Some(unread);
        let remarks = remarks(&report);
        let [apart, unread, full] = &remarks[..] else { panic!("{remarks:?}") };
        assert!(apart.starts_with("reno, wad_aimd: over 622 Mb/s, 90 ms"), "{apart}");
        assert!(apart.ends_with(", by iperf3."), "{apart}");
        assert!(unread.starts_with("wad_aimd: of 4 connections") && unread.contains("0.9 MB"));
        assert!(full.starts_with("wad_aimd: the processors were busy"), "{full}");
    }
}
