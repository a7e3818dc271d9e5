//! The chapter's head: where and when all of it was measured, and which targets were met.

use std::collections::BTreeMap;

use super::{
    Found,
    markdown::{link, list, targets},
};
use crate::{landed::Landed, study::Study, targets::Verdict, whose::Whose};

/// Returns the lines of the head.
pub fn head(landed: &Landed, all: &[&Found<'_>], studies: &[&str]) -> String {
    let of_scenarios = all.iter().map(|found| of_scenario(found));
    let of_studies = studies.iter().map(|name| of_study(name, landed.study(name)));
    let judged: Vec<Judged> = of_scenarios.chain(of_studies).collect();
    let sum = |count: fn(&Judged) -> usize| judged.iter().map(count).sum::<usize>();
    let (met, missed) = (sum(|judged| judged.met), sum(|judged| judged.missed));
    let unseen = match sum(|judged| judged.unseen) {
        0 => String::new(),
        count => format!(" Of the missed {count} have no figures yet."),
    };
    let mut text = list([
        format!("Machine: {}.", machines(landed)),
        format!("Measured: {}.", days(landed)),
        format!("Targets: {met} met, {missed} missed.{unseen} {}", kinds(all, met + missed)),
    ]);
    let lines: Vec<&String> = judged.iter().flat_map(|judged| &judged.lines).collect();
    if !lines.is_empty() {
        text += &format!("\nThe missed ones:\n\n{}", list(lines));
    }
    let unmeasured: Vec<&str> =
        judged.iter().filter_map(|judged| judged.unmeasured.as_deref()).collect();
    if !unmeasured.is_empty() {
        text += &format!("\nNot measured, and so missed: {}.\n", unmeasured.join(", "));
    }
    text
}

/// Returns what targets hold `wad` against. A target that asks for a multiple of what an operator
/// gets by hand says more than a fixed figure does.
fn kinds(all: &[&Found<'_>], targets: usize) -> String {
    let verdicts: Vec<Verdict> = all.iter().flat_map(|found| found.verdicts()).collect();
    let of = |whose| verdicts.iter().filter(|verdict| verdict.of == Some(whose)).count();
    let [untuned, hand, wad] = [Whose::Untuned, Whose::Hand, Whose::Wad].map(of);
    let papers = all.iter().filter(|found| found.scenario.paper.is_some());
    let papers: usize = papers.map(|found| found.verdicts().len()).sum();
    let fixed = targets - untuned - hand - wad;
    format!(
        "Of all {targets}, {hand} hold it against what is done by hand, {untuned} against what is \
         untuned, {wad} against another policy of `wad`, and {fixed} against a fixed figure; \
         {papers} are of the papers' experiments."
    )
}

/// The targets of a scenario or a study.
struct Judged {
    met: usize,
    missed: usize,
    /// So many of the missed have no figures.
    unseen: usize,
    /// Each that was missed has a line.
    lines: Vec<String>,
    /// It has no results at all, and so many targets.
    unmeasured: Option<String>,
}

fn of_scenario(found: &Found<'_>) -> Judged {
    let link = link(&found.scenario.name);
    let (met, missed): (Vec<Verdict>, Vec<Verdict>) =
        found.verdicts().into_iter().partition(|verdict| verdict.is_met);
    let (seen, unseen): (Vec<_>, Vec<_>) =
        missed.iter().partition(|verdict: &&Verdict| verdict.has_figures);
    let mut lines: Vec<_> =
        seen.iter().map(|verdict| format!("{link}: {}", verdict.words)).collect();
    let words = targets(unseen.len());
    let unmeasured = found.experiment.is_none().then(|| format!("{link} ({words})"));
    if unmeasured.is_none() && !unseen.is_empty() {
        lines.push(format!("{link}: {words} without figures"));
    }
    Judged { met: met.len(), missed: missed.len(), unseen: unseen.len(), lines, unmeasured }
}

fn of_study(name: &str, study: Option<&Study>) -> Judged {
    let link = link(name);
    let Some(study) = study else {
        let unmeasured = Some(link);
        return Judged { met: 0, missed: 1, unseen: 1, lines: Vec::new(), unmeasured };
    };
    let met = study.findings.iter().map(|finding| finding.met.len()).sum();
    let lines = study.findings.iter().flat_map(|finding| {
        let head = format!("{link}: {}", finding.name);
        finding.missed.iter().map(move |missed| format!("{head}: {missed}")).collect::<Vec<_>>()
    });
    let lines: Vec<_> = lines.collect();
    Judged { met, missed: lines.len(), unseen: 0, lines, unmeasured: None }
}

/// Returns the machines, the one that measured the most first, the others with what they measured.
fn machines(landed: &Landed) -> String {
    let experiments =
        landed.experiments.iter().map(|one| (one.host.as_str(), one.scenario.as_str()));
    let studies = landed.studies.iter().map(|one| (one.host.as_str(), one.name.as_str()));
    let mut by_host: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, name) in experiments.chain(studies) {
        by_host.entry(host).or_default().push(name);
    }
    let mut hosts: Vec<_> = by_host.into_iter().collect();
    hosts.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let words = hosts.iter().enumerate().map(|(number, (host, names))| match number {
        0 => (*host).to_owned(),
        _ => format!("{host} ({})", names.join(", ")),
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Returns the days of the oldest and the newest figures, and how many do not say.
fn days(landed: &Landed) -> String {
    let variants = landed.experiments.iter().flat_map(|one| &one.variants);
    let studies = landed.studies.iter().flat_map(|study| &study.findings);
    let days = variants.map(|one| one.date.clone());
    let days: Vec<Option<String>> = days
        .chain(studies.map(|one| one.measured.as_ref().map(|measured| measured.day().to_string())))
        .collect();
    let mut known: Vec<&String> = days.iter().flatten().collect();
    known.sort();
    let unknown = match days.iter().filter(|day| day.is_none()).count() {
        0 => String::new(),
        count => format!("; of {count} of {} figures the day is unknown", days.len()),
    };
    match (known.first(), known.last()) {
        (Some(first), Some(last)) if first == last => format!("on {first}{unknown}"),
        (Some(first), Some(last)) => format!("from {first} to {last}{unknown}"),
        _ => "on unknown days".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landed::tests::experiment;

    #[test]
    fn days_and_machines_are_those_of_the_figures() {
        let of = |scenario: &str, host: &str, day: Option<&str>| {
            let mut one = experiment(scenario, &[("cubic", "cubic", &[1.0])]);
            host.clone_into(&mut one.host);
            one.variants[0].date = day.map(str::to_owned);
            one
        };
        let mut landed = Landed::default();
        assert_eq!(days(&landed), "on unknown days");
        landed.experiments = vec![
            of("a", "Linux 6.12", Some("2026-11-20")),
            of("b", "Linux 6.18", Some("2026-11-27")),
            of("c", "Linux 6.18", None),
        ];
        assert_eq!(machines(&landed), "Linux 6.18; Linux 6.12 (a)");
        assert_eq!(
            days(&landed),
            "from 2026-11-20 to 2026-11-27; of 1 of 3 figures the day is unknown"
        );
        landed.experiments.truncate(1);
        assert_eq!(days(&landed), "on 2026-11-20");
    }
}
