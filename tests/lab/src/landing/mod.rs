//! Landing cuts what was measured to what the repository keeps of it.

mod settings;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    landed::{Experiment, Figures},
    pictures,
    report::{Report, Sample, Variant},
    scenario::{Measure, Scenario},
    study::Study,
    table,
    targets::verdicts,
};

/// These figures are kept of every scenario that has them.
const ALWAYS: [Measure; 14] = [
    Measure::Goodput,
    Measure::GoodputAfterLoss,
    Measure::GoodputBeforeBurst,
    Measure::GoodputAfterBurst,
    Measure::SecondsAfterBurst,
    Measure::FirstRequest,
    Measure::LaterRequests,
    Measure::Retransmits,
    Measure::CongestionEvents,
    Measure::LocalDrops,
    Measure::LocalResponses,
    Measure::DropResponses,
    Measure::MarkResponses,
    Measure::UnreadLosses,
];

/// Returns what is kept of a scenario's results.
#[must_use]
pub fn of(scenario: &Scenario, report: &Report) -> Experiment {
    let found = in_order(scenario, report);
    let mut experiment = Experiment {
        scenario: scenario.name.clone(),
        host: report.host.clone(),
        pictures: pictures::all(scenario, report).into_iter().map(|picture| picture.file).collect(),
        remarks: table::remarks(report),
        settings: settings::section(&found),
        variants: found.iter().map(|variant| figures(scenario, variant)).collect(),
    };
    experiment.remarks.extend(found.iter().filter_map(|variant| doubtful(variant)));
    experiment.remarks.extend(found.iter().filter_map(|variant| changed_by_bpftune(variant)));
    let missed = verdicts(scenario, &experiment).into_iter().filter(|verdict| !verdict.is_met);
    let missed: Vec<_> = missed.map(|verdict| verdict.variant).collect();
    let missed = found.iter().filter(|variant| missed.contains(&variant.name));
    experiment.remarks.extend(missed.map(|variant| circumstances(variant)));
    experiment
}

/// Returns what is kept of studies: all but what is for programs.
#[must_use]
pub fn studies(found: &[Study]) -> Vec<Study> {
    let mut kept = found.to_vec();
    let findings = kept.iter_mut().flat_map(|study| &mut study.findings);
    findings.for_each(|finding| finding.outcome = Value::Null);
    kept
}

/// Returns the variants that were run, in the order of the scenario.
fn in_order<'a>(scenario: &Scenario, report: &'a Report) -> Vec<&'a Variant> {
    let named = |name: &str| report.variants.iter().find(|variant| variant.name == name);
    let all = scenario.variants.iter().filter_map(|variant| named(&variant.name));
    all.filter(|variant| !variant.samples.is_empty()).collect()
}

fn figures(scenario: &Scenario, variant: &Variant) -> Figures {
    let mut figures = Figures::new(&variant.name, &variant.congestion);
    if let Some(measured) = &variant.measured {
        figures.date = Some(measured.day().to_string());
        figures.wad.clone_from(&measured.wad);
    }
    for (measure, flow) in kept(scenario, variant) {
        let flow = flow.as_deref();
        figures.keep(measure, flow, &variant.figures(measure, flow));
    }
    figures
}

/// Returns the measures that are kept of a variant: those of all scenarios, those that this one
/// judges, and the shares of kinds of flows that share the path.
fn kept(scenario: &Scenario, variant: &Variant) -> Vec<(Measure, Option<String>)> {
    let mut kept: Vec<_> = ALWAYS.into_iter().map(|measure| (measure, None)).collect();
    for target in &scenario.targets {
        kept.push((target.measure, target.flow.clone()));
        kept.extend(target.of_flow.clone().map(|flow| (target.measure, Some(flow))));
    }
    let flows = variant.samples.first().map_or(&[][..], |sample| &sample.flows);
    if flows.len() > 1 {
        kept.extend(flows.iter().map(|flows| (Measure::Share, Some(flows.name.clone()))));
    }
    kept
}

/// Returns what makes a variant's figures doubtful, if anything.
fn doubtful(variant: &Variant) -> Option<String> {
    let sum = |count: fn(&Sample) -> u64| variant.samples.iter().map(count).sum::<u64>();
    let own = sum(|one| one.emulator.forward.own_drops() + one.emulator.reverse.own_drops());
    let unanswered = sum(|one| one.responses.map_or(0, |responses| responses.unanswered));
    let said = [
        (own, "segments were lost by the emulated path itself: this machine was too busy"),
        (unanswered, "events were answered by no program: the kernel ran none at that moment"),
    ];
    let said = said.iter().filter(|(count, _)| *count > 0);
    let said: Vec<_> = said.map(|(count, words)| format!("{count} {words}")).collect();
    (!said.is_empty()).then(|| format!("{}: {}.", variant.name, said.join("; ")))
}

/// Returns what bpftune had changed, where it ran: each tunable with how often, and what it was in
/// the end.
fn changed_by_bpftune(variant: &Variant) -> Option<String> {
    let said = &variant.samples.last()?.bpftune_said;
    let mut changes: BTreeMap<&str, (u32, &str)> = BTreeMap::new();
    for (tunable, value) in said.iter().filter_map(|line| change(line)) {
        let (count, last) = changes.entry(tunable).or_default();
        (*count, *last) = (*count + 1, value);
    }
    let words = |(tunable, (count, last)): (&&str, &(u32, &str))| {
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        format!("`{tunable}` {times}, in the end to {last}")
    };
    let words = changes.iter().map(words).collect::<Vec<_>>().join("; ");
    let words = if words.is_empty() { "no number".to_owned() } else { words };
    (!said.is_empty()).then(|| format!("{}: bpftune changed {words}.", variant.name))
}

/// Reads a line as `... change net.ipv4.tcp_rmem(min default max) from (1 2 3) -> (1 2 9)`; what is
/// summed up at the end stands in apostrophes.
fn change(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("change ")?;
    let (tunable, rest) = rest.split_once(" from (")?;
    let (_, value) = rest.split_once(") -> (")?;
    let name = tunable.split('(').next().unwrap_or(tunable);
    Some((name, value.trim_end_matches(')').trim()))
}

/// Returns what a person would look at first to see why a variant missed.
fn circumstances(variant: &Variant) -> String {
    let runs = variant.samples.iter().map(|sample| {
        let forward = &sample.emulator.forward;
        let window = sample.send_window_bytes as f64 / variant.path.bdp_bytes as f64;
        format!(
            "{} Mb/s, {} sent again in {} events; the path dropped {} ({} in slow start), at random \
             {}; the receiver offered {window:.1} BDP",
            table::megabits(sample.goodput_bits_per_second),
            sample.retransmits,
            sample.congestion_events,
            forward.queue_drops,
            sample.slow_start.drops,
            forward.random_drops,
        )
    });
    format!("{}, which missed: {}.", variant.name, runs.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measured::Measured, report::tests::report};

    #[test]
    fn what_is_judged_is_kept_with_its_day() {
        let mut scenario = Scenario::load("aimd-oc12").unwrap();
        let target = "variant = 'reno'\nflow = 'one'\nmeasure = 'share'\nat_most = 0.4";
        scenario.targets = vec![toml::from_str(target).unwrap()];
        let mut report = report();
        let at = "2026-11-27T08:00:00Z".parse().unwrap();
        report.stamp(&Measured { at, wad: Some("680856e7".to_owned()) });
        let experiment = of(&scenario, &report);
        let names: Vec<_> = experiment.variants.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["reno", "wad_aimd"], "only those that were run");
        let reno = experiment.variant("reno").unwrap();
        assert_eq!(reno.get(Measure::Goodput, None), [2e8, 2.5e8, 2.1e8]);
        assert_eq!(reno.get(Measure::Share, Some("one")), [0.5; 3]);
        assert_eq!(reno.get(Measure::Idle, None), [0.0; 0], "nobody judges it");
        assert_eq!(
            (reno.date.as_deref(), reno.wad.as_deref()),
            (Some("2026-11-27"), Some("680856e7"))
        );
        assert_eq!(experiment.pictures, ["aimd-oc12.svg"]);
        let [remark] = experiment.remarks.as_slice() else { panic!("{:?}", experiment.remarks) };
        assert!(remark.starts_with("reno, which missed: 200 Mb/s, 1 sent again"), "{remark}");
    }

    #[test]
    fn what_bpftune_changed_is_a_remark() {
        let mut report = report();
        let scenario = Scenario::load("aimd-oc12").unwrap();
        let lines = [
            "bpftune works fully",
            "Due to need to increase max buffer size to maximize throughput change \
             net.ipv4.tcp_rmem(min default max) from (4096 131072 6291456) -> (4096 131072 7864320)",
            "Due to need to increase max buffer size to maximize throughput change \
             net.ipv4.tcp_rmem(min default max) from (4096 131072 7864320) -> (4096 131072 9830400)",
            "Due to near memory exhaustion change net.ipv4.tcp_mem(min pressure max) from (1 2 4) -> \
             (1 2 3 )",
            "To replicate this change on another system, run the following",
        ];
        report.variants[0].samples[2].bpftune_said = lines.map(str::to_owned).into();
        report.variants[1].samples[2].bpftune_said = vec![lines[0].to_owned()];
        let remarks = of(&scenario, &report).remarks;
        let said = "reno: bpftune changed `net.ipv4.tcp_mem` once, in the end to 1 2 3; \
                    `net.ipv4.tcp_rmem` 2 times, in the end to 4096 131072 9830400.";
        assert_eq!(remarks[..2], [said, "wad_aimd: bpftune changed no number."]);
    }

    #[test]
    fn a_busy_machine_is_no_secret() {
        let mut report = report();
        let scenario = Scenario::load("aimd-oc12").unwrap();
        report.variants[0].samples[0].emulator.forward.stall_drops = 3;
        let remarks = of(&scenario, &report).remarks;
        assert!(
            remarks[0].starts_with("reno: 3 segments were lost by the emulated"),
            "{remarks:?}"
        );
    }
}
