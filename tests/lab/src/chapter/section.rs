//! A section of the chapter: a scenario, or a study.

use super::{
    FIGURES, Found, grid,
    markdown::{
        Table, both, folded, heading, is_nothing, list, measures, over, shares, spread, targets,
    },
};
use crate::{
    landed::{Experiment, Figures},
    report,
    scenario::{Load, Measure, Scenario, Variant},
    study::{Finding, Study},
};

/// This is the payload of a full segment without options, as the papers reckon.
const MSS_BYTES: f64 = 1460.0;

/// Returns the section of a scenario.
pub fn of(found: &Found<'_>) -> String {
    let scenario = found.scenario;
    let mut text = format!("## {}\n\n{}.\n\n", scenario.name, scenario.description);
    let path = report::Path::of(&scenario.path);
    let varies = if grid::is_there(scenario) { ", varied as the tables say" } else { "" };
    let mut facts = vec![format!("Path: {}{varies}; {}.", path.words(), load(scenario))];
    if let Some(paper) = &scenario.paper {
        facts.push(format!("The papers: {paper}."));
    }
    let is_about = |measure| scenario.targets.iter().any(|target| target.measure == measure);
    if scenario.burst.is_some() || is_about(Measure::SecondsUntilBack) {
        facts.push(format!(
            "DataTAG's formula for a standard flow, C·RTT²/(2·MSS·8): {:.0} s.",
            responsiveness_seconds(&path)
        ));
    }
    let experiment = found.experiment.filter(|experiment| !experiment.variants.is_empty());
    let unmeasured = || {
        let missed = targets(found.verdicts().len());
        format!("Nobody has measured it yet, and so it misses {missed}.")
    };
    facts.push(experiment.map_or_else(unmeasured, measured));
    text += &list(facts);
    let Some(experiment) = experiment else { return text + &why(scenario) };
    text += &format!("\n{}", tables(found));
    text += &all_targets(found);
    let picture = |name: &String| {
        format!("![{}: windows and goodput over time]({FIGURES}/{name})\n", scenario.name)
    };
    let pictures: Vec<_> = experiment.pictures.iter().map(picture).collect();
    text += &match pictures.as_slice() {
        [] => String::new(),
        [one] => format!("\n{one}"),
        several => format!("\n{}", folded("Pictures", &several.join("\n"))),
    };
    text += &why(scenario);
    if !experiment.remarks.is_empty() {
        text += &format!("\nRemarks:\n\n{}", list(&experiment.remarks));
    }
    if !experiment.settings.is_empty() {
        text += &format!("\n{}", folded("Policies and sysctls", &experiment.settings));
    }
    text
}

/// Returns the section of a study.
pub fn of_study(name: &str, description: &str, study: Option<&Study>) -> String {
    let head = format!("## {name}\n\n{description}. See [the lab](lab.md).\n\n");
    let Some(study) = study else { return head + "- Nobody has measured it yet.\n" };
    let days = study.findings.iter().map(|finding| {
        let measured = finding.measured.as_ref();
        let wad = measured.and_then(|measured| measured.wad.as_deref());
        (
            origin(measured.map(|measured| measured.day().to_string()).as_deref(), wad),
            &*finding.name,
        )
    });
    let facts = list([format!("Measured {}, {}.", origins(days), study.host)]);
    let mut table =
        Table::new(std::iter::once("path").chain(study.headings.iter().map(String::as_str)));
    for finding in &study.findings {
        table.row(std::iter::once(&finding.name).chain(&finding.cells).map(String::as_str));
    }
    let line = |finding: &Finding, words: &String| format!("{}: {words}", finding.name);
    let lines = |of: fn(&Finding) -> &Vec<String>| -> Vec<String> {
        study.findings.iter().flat_map(|one| of(one).iter().map(|words| line(one, words))).collect()
    };
    let judged = judged(&lines(|one| &one.met), &lines(|one| &one.missed));
    format!("{head}{facts}\n{}{judged}", table.finish())
}

fn why(scenario: &Scenario) -> String {
    let words = |why: &String| format!("\n**What differs, and why.** {why}\n");
    scenario.why.as_ref().map_or(String::new(), words)
}

fn load(scenario: &Scenario) -> String {
    let by = scenario.client.map_or(String::new(), |client| format!(", by {}", client.name()));
    let varies = scenario.variants.iter().any(|variant| variant.bytes.is_some());
    match scenario.load {
        Load::Seconds(seconds) => format!("each run sends for {seconds} s{by}"),
        Load::Bytes(_) if varies => format!("the runs send objects of several sizes{by}"),
        Load::Bytes(bytes) => format!("each run sends {} MB{by}", bytes as f64 / 1e6),
    }
}

/// Returns when, where and with what it was measured, and how often.
fn measured(experiment: &Experiment) -> String {
    let of = |one: &Figures| origin(one.date.as_deref(), one.wad.as_deref());
    let days = experiment.variants.iter().map(|one| (of(one), one.name.as_str()));
    let runs = experiment.variants.iter().map(Figures::runs);
    let (least, most) = (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0));
    let runs = match (least, most) {
        (1, 1) => "one run of each".to_owned(),
        (least, most) if least == most => format!("{most} runs of each"),
        _ => format!("{least} to {most} runs of each"),
    };
    format!("Measured {}, {}; {runs}.", origins(days), experiment.host)
}

fn origin(date: Option<&str>, wad: Option<&str>) -> String {
    let date = date.map_or_else(|| "on an unknown day".to_owned(), |date| format!("on {date}"));
    format!("{date} with `wad` {}", wad.unwrap_or("of an unknown commit"))
}

/// Returns the origins of variants, with the names of those that have it where there are several.
fn origins<'a>(all: impl Iterator<Item = (String, &'a str)>) -> String {
    let mut origins: Vec<(String, Vec<&str>)> = Vec::new();
    for (origin, name) in all {
        match origins.iter_mut().find(|(other, _)| *other == origin) {
            Some((_, names)) => names.push(name),
            None => origins.push((origin, vec![name])),
        }
    }
    if let [(origin, _)] = origins.as_slice() {
        return origin.clone();
    }
    let words = origins.iter().map(|(origin, names)| format!("{origin} ({})", names.join(", ")));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the figures: a row for each variant or, over a grid, a table for each measure.
fn tables(found: &Found<'_>) -> String {
    if grid::is_there(found.scenario) {
        return grid::tables(found);
    }
    let figures = found.figures();
    let run: Vec<(&Variant, &Figures)> = found
        .scenario
        .variants
        .iter()
        .filter_map(|variant| Some((variant, found.of(variant)?)))
        .collect();
    let mut columns: Vec<(String, Vec<Option<String>>)> = Vec::new();
    let mut column = |heading: String, cell: &dyn Fn(&Variant, &Figures) -> Option<String>| {
        columns
            .push((heading, run.iter().map(|(variant, figures)| cell(variant, figures)).collect()));
    };
    column("variant".to_owned(), &|variant, _| {
        let paper = variant.paper.as_ref().map(|paper| format!("<br>papers: {paper}"));
        Some(variant.name.clone() + &paper.unwrap_or_default())
    });
    column("law".to_owned(), &|_, figures| Some(figures.law.clone()));
    column("streams".to_owned(), &|variant, _| {
        Some(variant.streams()).filter(|streams| *streams > 1).map(|streams| streams.to_string())
    });
    for (measure, flow) in measures(figures) {
        if measure != Measure::Retransmits && is_nothing(figures, measure, flow) {
            continue;
        }
        let cell = |_: &Variant, one: &Figures| spread(measure, one.get(measure, flow));
        column(heading(measure, flow), &cell);
        if measure == Measure::Goodput && flow.is_none() {
            column("of path".to_owned(), &|variant, one| {
                let carries = variant.path.carries_bits_per_second();
                Some(format!("{:.2}", one.median(Measure::Goodput, None)? / carries))
            });
        }
    }
    column("of fair share".to_owned(), &|_, figures| shares(figures));
    column("over untuned; over 6.16's".to_owned(), &|variant, figures| {
        let over = found.untuned(variant).map(|untuned| over(figures, untuned?));
        (variant.groups.len() == 1).then(|| both(over)).flatten()
    });
    columns.retain(|(_, cells)| cells.iter().any(Option::is_some));
    let mut table = Table::new(columns.iter().map(|(heading, _)| heading.as_str()));
    for number in 0..run.len() {
        table.row(columns.iter().map(|(_, cells)| cells[number].as_deref().unwrap_or("-")));
    }
    table.finish()
}

fn all_targets(found: &Found<'_>) -> String {
    let verdicts = found.verdicts();
    let lines = |is_met: bool| -> Vec<String> {
        let wanted = verdicts.iter().filter(|verdict| verdict.is_met == is_met);
        wanted.map(|verdict| verdict.words.clone()).collect()
    };
    judged(&lines(true), &lines(false))
}

/// Returns the targets: those that were missed first.
fn judged(met: &[String], missed: &[String]) -> String {
    let mut text = String::new();
    if !missed.is_empty() {
        text += &format!("\n{} missed:\n\n", targets(missed.len()));
        text += &list(missed.iter().map(|words| format!("**missed**: {words}")));
    }
    if !met.is_empty() {
        text += &format!("\n{}", folded(&format!("{} met", targets(met.len())), &list(met)));
    }
    text
}

/// Returns C·RTT²/(2·MSS·8): the time in which one segment per RTT makes up for half
/// the window (DataTAG, "Responsiveness").
fn responsiveness_seconds(path: &report::Path) -> f64 {
    let (rate, rtt) = (path.rate_bits_per_second as f64, path.rtt_seconds);
    rate * rtt * rtt / (2.0 * MSS_BYTES * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landed::tests::experiment;

    #[test]
    fn a_variant_has_its_figures_in_a_row() {
        let scenario = Scenario::load("buffers-oc12").unwrap();
        let mut one = experiment(
            "buffers-oc12",
            &[
                ("64k", "cubic", &[4.4]),
                ("untuned", "cubic", &[310.0, 300.0, 320.0]),
                ("tuned", "cubic", &[575.0]),
            ],
        );
        one.variants[1].date = Some("2026-11-27".to_owned());
        one.variants[1].wad = Some("680856e7".to_owned());
        let found = Found { scenario: &scenario, experiment: Some(&one) };
        let text = of(&found);
        let heads = "| variant | law | Mb/s | of path | sent again | over untuned; over 6.16's |";
        assert!(text.contains(heads), "{text}");
        assert!(
            text.contains("| 64k<br>papers: < 10 Mb/s | cubic | 4.4 | 0.01 | 3 | 0.01 |"),
            "{text}"
        );
        assert!(
            text.contains("| untuned | cubic | 310 (300 to 320) | 0.52 | 3 | 1.00 |"),
            "{text}"
        );
        let origin = "Measured on an unknown day with `wad` of an unknown commit (64k, tuned), on 2026-11-27 \
                      with `wad` 680856e7 (untuned), Linux 6.18, 2 processors; 1 to 3 runs of each.";
        assert!(text.contains(origin), "{text}");
        assert!(text.contains("**missed**: 64k-tuned: goodput: no figures"), "{text}");
        assert!(text.contains("<details><summary>1 target met</summary>\n\n- "), "{text}");
    }

    #[test]
    fn the_formula_is_datatags() {
        let mut path = report::Path::of(&Scenario::load("aimd-oc12").unwrap().path);
        (path.rate_bits_per_second, path.rtt_seconds) = (2_500_000_000, 0.12);
        // 1541 s, of which the paper has "about 23 min" with its MSS and RTT.
        assert!((responsiveness_seconds(&path) - 1541.1).abs() < 0.1);
    }
}
