//! This module makes all results into one page of Markdown with a picture per scenario.

mod columns;
mod settings;

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    report::{Report, Variant},
    scenario::Scenario,
    svg,
    table::{self, megabits},
    targets::{Verdict, verdicts},
};

/// This is the payload of a full segment without options, as the papers reckon.
const MSS_BYTES: f64 = 1460.0;

/// A page that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}", path = path.display())]
pub struct PageError {
    path: PathBuf,
    source: io::Error,
}

/// Writes `report.md` and its pictures; where the page is.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(folder: &Path, results: &[(Scenario, Report)]) -> Result<PathBuf, PageError> {
    put(folder, "", "")?;
    let mut text = head(results);
    for (scenario, report) in results {
        text.push_str(&section(scenario, report));
        for (name, picture) in pictures(report) {
            put(folder, &name, &picture)?;
            let _ = writeln!(text, "![Windows and goodput over time]({name})\n");
        }
    }
    put(folder, "report.md", &text)
}

/// Writes a file; without a name, makes only the folder.
fn put(folder: &Path, name: &str, content: &str) -> Result<PathBuf, PageError> {
    let path = folder.join(name);
    let done = if name.is_empty() { fs::create_dir_all(&path) } else { fs::write(&path, content) };
    done.map_err(|source| PageError { path: path.clone(), source })?;
    Ok(path)
}

fn head(results: &[(Scenario, Report)]) -> String {
    let mut text = "# What the lab found\n\n\
        Real TCP of this kernel between two network namespaces, over an emulated path \
        (rate, queue, delay, loss as stated). Rates are what arrives, in Mb/s; figures \
        are medians over the runs, with the least and the most where they differ. Gains \
        are over what runs without wad: with Debian's buffers, and with those of Linux \
        6.16 and later, whose receivers grow further.\n\n"
        .to_owned();
    let all = results.iter().map(|(scenario, report)| verdicts(scenario, report));
    let all: Vec<Verdict> = all.flatten().collect();
    let missed = all.iter().filter(|verdict| !verdict.is_met).count();
    let _ = writeln!(text, "Targets: {} met, {missed} missed.\n", all.len() - missed);
    text
}

fn section(scenario: &Scenario, report: &Report) -> String {
    let mut text = format!("## {}\n\n{}.\n\n", scenario.name, scenario.description);
    let _ = writeln!(text, "- Path: {}.", report.path.words());
    let runs = report.variants.iter().map(|variant| variant.samples.len()).max().unwrap_or(0);
    let _ = writeln!(text, "- {}; at most {runs} runs of each variant.", report.host);
    if let Some(paper) = &scenario.paper {
        let _ = writeln!(text, "- The papers: {paper}.");
    }
    if scenario.burst.is_some() {
        let _ = writeln!(
            text,
            "- DataTAG's formula for a standard flow, C·RTT²/(2·MSS·8): {:.0} s.",
            responsiveness_seconds(report)
        );
    }
    let variants = in_order(scenario, report);
    let _ = write!(text, "\n{}\n", table(scenario, report, &variants));
    let verdicts = verdicts(scenario, report);
    for verdict in &verdicts {
        let word = if verdict.is_met { "met" } else { "**missed**" };
        let _ = writeln!(text, "- {word}: {}", verdict.words);
    }
    let mut remarks = table::remarks(report);
    remarks.extend(variants.iter().filter_map(|variant| remark(variant)));
    if !remarks.is_empty() {
        let _ = writeln!(text, "\nRemarks:\n");
        remarks.iter().for_each(|remark| {
            let _ = writeln!(text, "- {remark}");
        });
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.is_met);
    let mut named: Vec<&str> = missed.map(|verdict| verdict.base.as_str()).collect();
    named.dedup();
    if !named.is_empty() {
        let _ = writeln!(text, "\nOf those that missed:\n");
        for variant in variants.iter().filter(|variant| named.contains(&variant.base.as_str())) {
            let _ = writeln!(text, "- {}", circumstances(variant));
        }
    }
    let _ = write!(text, "\n{}\n", settings::section(&variants));
    text
}

/// Returns the variants that were run, in the order of the scenario.
fn in_order<'a>(scenario: &Scenario, report: &'a Report) -> Vec<&'a Variant> {
    let named = |name: &str| report.variants.iter().find(|variant| variant.name == name);
    let all = scenario.variants.iter().filter_map(|variant| named(&variant.name));
    all.filter(|variant| !variant.samples.is_empty()).collect()
}

fn table(scenario: &Scenario, report: &Report, variants: &[&Variant]) -> String {
    let paper = |variant: &Variant| {
        let like = scenario.variants.iter().find(|like| like.name == variant.name)?;
        like.paper.clone()
    };
    let (mut headings, mut rows) = columns::table(variants);
    headings.insert(0, "variant");
    for (row, variant) in rows.iter_mut().zip(variants) {
        row.insert(0, variant.name.clone());
    }
    for (index, heading) in ["gain", "gain at 6.16"].into_iter().enumerate() {
        let gain = |variant: &Variant| Report::gain(variant, report.untuned(variant)[index]);
        if variants.iter().any(|variant| gain(variant).is_some()) {
            headings.push(heading);
            for (row, variant) in rows.iter_mut().zip(variants) {
                row.push(gain(variant).map_or("-".to_owned(), |gain| format!("{gain:.2}")));
            }
        }
    }
    if variants.iter().any(|variant| paper(variant).is_some()) {
        headings.push("the paper");
        for (row, variant) in rows.iter_mut().zip(variants) {
            row.push(paper(variant).unwrap_or_else(|| "-".to_owned()));
        }
    }
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&headings);
    text.push_str(&line(&vec!["---"; headings.len()]));
    for row in &rows {
        text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    text
}

/// Returns C·RTT²/(2·MSS·8): the time in which one segment per RTT makes up for half
/// the window (DataTAG, "Responsiveness").
fn responsiveness_seconds(report: &Report) -> f64 {
    let (rate, rtt) = (report.path.rate_bits_per_second as f64, report.path.rtt_seconds);
    rate * rtt * rtt / (2.0 * MSS_BYTES * 8.0)
}

/// Returns what makes a variant's figures doubtful, if anything.
fn remark(variant: &Variant) -> Option<String> {
    let own = variant
        .samples
        .iter()
        .map(|sample| sample.emulator.forward.own_drops() + sample.emulator.reverse.own_drops());
    let own: u64 = own.sum();
    (own > 0).then(|| {
        format!(
            "{}: the emulated path itself lost {own} segments: this machine was too busy.",
            variant.name
        )
    })
}

/// Returns what a person would look at first to see why.
fn circumstances(variant: &Variant) -> String {
    let runs = variant.samples.iter().map(|sample| {
        let forward = &sample.emulator.forward;
        let window = sample.send_window_bytes as f64 / variant.path.bdp_bytes as f64;
        format!(
            "{} Mb/s, {} resent in {} events; the path dropped {} ({} in slow start), at random \
             {}; the receiver offered {window:.1} BDP",
            megabits(sample.goodput_bits_per_second),
            sample.retransmits,
            sample.congestion_events,
            forward.queue_drops,
            sample.slow_start.drops,
            forward.random_drops,
        )
    });
    format!("{}: {}.", variant.name, runs.collect::<Vec<_>>().join("; "))
}

/// Returns the names and contents of the pictures: one for the scenario or, where kinds
/// of flows share a path, one for each set of them.
fn pictures(report: &Report) -> Vec<(String, String)> {
    let mut groups: Vec<(String, Vec<svg::Row<'_>>)> = Vec::new();
    for (row, base) in svg::rows(report).into_iter().map(|row| {
        let base = row.only.map_or(report.scenario.clone(), |variant| {
            format!("{}-{}", report.scenario, variant.base)
        });
        (row, base)
    }) {
        match groups.iter_mut().find(|(name, _)| *name == base) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((base, vec![row])),
        }
    }
    let draw = |(name, rows): (String, Vec<svg::Row<'_>>)| {
        (format!("{name}.svg"), svg::render(&name, &rows))
    };
    groups.into_iter().map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn the_page_has_figures_targets_and_a_picture() {
        let mut scenario = Scenario::load("aimd-oc12").unwrap();
        let target = "variant = 'wad_aimd'\nmeasure = 'goodput'\nof = 'reno'\nat_least = 9";
        scenario.targets = vec![toml::from_str(target).unwrap()];
        let folder = tempfile::tempdir().unwrap();
        let page = write(&folder.path().join("new"), &[(scenario, report())]).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains("Targets: 0 met, 1 missed."), "{text}");
        assert!(text.contains("| wad_aimd | reno | 310 | 300 to 350 |"), "{text}");
        assert!(text.contains("**missed**: wad_aimd: goodput 1.476 of reno's"), "{text}");
        assert!(
            text.contains("](aimd-oc12.svg)") && text.contains("- wad_aimd: 300 Mb/s, 1 resent")
        );
        assert!(page.with_file_name("aimd-oc12.svg").is_file());
    }

    #[test]
    fn gains_are_over_either_untuned() {
        let mut report = report();
        for (variant, name) in report.variants.iter_mut().zip(["untuned", "untuned-6.16"]) {
            for of in [&mut variant.name, &mut variant.base] {
                name.clone_into(of);
            }
        }
        let scenario = Scenario::load("buffers-oc12").unwrap();
        let text = section(&scenario, &report);
        assert!(text.contains("| gain | gain at 6.16 |"), "{text}");
        // 3.72 / 2.52, and the other way about.
        assert!(text.contains("| 1.48 | 1.00 |") && text.contains("| 1.00 | 0.68 |"), "{text}");
    }

    #[test]
    fn the_formula_is_datatags() {
        let mut report = report();
        (report.path.rate_bits_per_second, report.path.rtt_seconds) = (2_500_000_000, 0.12);
        // 1541 s, of which the paper has "about 23 min" with its MSS and RTT.
        assert!((responsiveness_seconds(&report) - 1541.1).abs() < 0.1);
    }
}
