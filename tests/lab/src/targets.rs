//! This module holds what a scenario was to show against what was measured. What has no
//! figures is missed: a promise that nobody looked at is not kept.

use crate::{
    landed::{Experiment, Figures},
    measure::median,
    scenario::{Scenario, Target, Variant},
    whose::Whose,
};

/// A target on one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The name of the variant, with the path.
    pub variant: String,
    pub is_met: bool,
    /// Nobody has measured it, if not.
    pub has_figures: bool,
    /// Who set up the variant that the bounds are multiples of; None for fixed figures, and where
    /// that variant has no figures.
    pub of: Option<Whose>,
    /// Holds what was wanted and what was found.
    pub words: String,
}

/// Returns each target on each path of the grid.
#[must_use]
pub fn verdicts(scenario: &Scenario, found: &Experiment) -> Vec<Verdict> {
    let of = |target| {
        let variants =
            scenario.variants.iter().filter(move |variant| scenario.judges(target, variant));
        variants.map(move |variant| verdict(scenario, target, variant, found))
    };
    scenario.targets.iter().flat_map(of).collect()
}

/// Returns the verdicts as lines of text.
#[must_use]
pub fn lines(scenario: &Scenario, found: &Experiment) -> String {
    let line = |Verdict { is_met, words, .. }: Verdict| {
        format!("  {}: {words}\n", if is_met { "met" } else { "MISSED" })
    };
    verdicts(scenario, found).into_iter().map(line).collect()
}

/// Returns what was missed, each with the scenario's name.
#[must_use]
pub fn missed(scenario: &Scenario, found: &Experiment) -> Vec<String> {
    let missed = verdicts(scenario, found).into_iter().filter(|verdict| !verdict.is_met);
    missed.map(|verdict| format!("{}: {}", scenario.name, verdict.words)).collect()
}

fn verdict(scenario: &Scenario, target: &Target, of: &Variant, found: &Experiment) -> Verdict {
    let who = target.flow.as_ref().map_or(String::new(), |flow| format!(" ({flow})"));
    let head = format!("{}{who}: {}", of.name, target.measure.words());
    let values = found.variant(&of.name).map_or(Vec::new(), |variant| values(target, variant));
    let base = target.of.as_ref().map(|base| format!("{base}{}", of.suffix()));
    let unit = match &base {
        None => Some((1.0, String::new())),
        Some(base) => reference(target, base, found),
    };
    let whose_base = base.and_then(|base| Whose::named(&base, scenario, found));
    let variant = of.name.clone();
    let Some((unit, whose)) = unit.filter(|_| !values.is_empty()) else {
        let of = target.of.as_ref().map_or(String::new(), |base| format!(" of {base}'s"));
        let words = format!("{head}: no figures; {}{of}", wanted(target));
        return Verdict { variant, is_met: false, has_figures: false, of: whose_base, words };
    };
    let is_met = values.iter().all(|value| {
        target.at_least.is_none_or(|least| *value >= least * unit)
            && target.at_most.is_none_or(|most| *value <= most * unit)
    });
    let shown: Vec<String> = values.iter().map(|value| told(*value, unit)).collect();
    let each =
        if target.each { format!(" in each of {} runs", values.len()) } else { String::new() };
    let words = format!("{head} {}{whose}; {}{each}", shown.join(", "), wanted(target));
    Verdict { variant, is_met, has_figures: true, of: whose_base, words }
}

/// Returns the figures that have to meet the target: none where a run that has to has
/// none.
fn values(target: &Target, variant: &Figures) -> Vec<f64> {
    let figures = variant.get(target.measure, target.flow.as_deref());
    match (figures.is_empty(), target.each) {
        (true, _) => Vec::new(),
        (false, true) if figures.len() < variant.runs() => Vec::new(),
        (false, true) => figures.to_vec(),
        (false, false) => vec![median(figures.iter().copied())],
    }
}

fn wanted(target: &Target) -> String {
    let bounds = [("at least", target.at_least), ("at most", target.at_most)];
    let bounds = bounds.iter().filter_map(|(words, bound)| Some(format!("{words} {}", (*bound)?)));
    format!("wanted {}", bounds.collect::<Vec<_>>().join(" and "))
}

/// Returns the other variant's figure on the same path, and its name.
fn reference(target: &Target, name: &str, found: &Experiment) -> Option<(f64, String)> {
    let flow = target.of_flow.as_deref().or(target.flow.as_deref());
    let figure = found.variant(name)?.median(target.measure, flow)?;
    let who = target.of_flow.as_ref().map_or(String::new(), |flow| format!(" ({flow})"));
    Some((figure, format!(" of {name}{who}'s")))
}

/// Returns what was found for people. What is infinite by itself never came: no drop, no way
/// back.
fn told(value: f64, unit: f64) -> String {
    if value.is_infinite() { "never".to_owned() } else { shown(value / unit) }
}

/// Returns a figure for people.
#[must_use]
pub fn shown(value: f64) -> String {
    match value {
        value if value.is_nan() => "none".to_owned(),
        value if value.is_infinite() => "more than any multiple".to_owned(),
        value if value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{landing, report::tests::report, slow_start::SlowStart};

    /// Returns what is kept of the made-up report.
    fn found(scenario: &Scenario) -> Experiment {
        landing::of(scenario, &report())
    }

    /// Returns the scenario of the made-up report, with this target alone.
    fn scenario(target: &str) -> Scenario {
        let mut scenario = Scenario::load("aimd-oc12").unwrap();
        scenario.targets = vec![toml::from_str(target).unwrap()];
        scenario
    }

    fn verdict(target: &str) -> Verdict {
        let scenario = scenario(target);
        verdicts(&scenario, &found(&scenario)).remove(0)
    }

    #[test]
    fn bounds_may_be_multiples_of_another() {
        // 3.1 over 2.1.
        let met = "variant = 'wad_aimd'\nmeasure = 'goodput'\nof = 'reno'\nat_least = 1.4";
        assert!(verdict(met).is_met);
        let missed = verdict(&met.replace("1.4", "1.5"));
        assert!(!missed.is_met);
        assert_eq!(missed.words, "wad_aimd: goodput 1.476 of reno's; wanted at least 1.5");
    }

    #[test]
    fn each_run_may_have_to_meet_it() {
        let target = "variant = 'reno'\nmeasure = 'goodput'\nat_least = 2.05e8";
        assert!(verdict(target).is_met);
        let each = verdict(&format!("{target}\neach = true"));
        assert!(!each.is_met && each.words.ends_with("in each of 3 runs"), "{}", each.words);
    }

    #[test]
    fn a_run_without_a_drop_is_within_a_least_window_at_the_first() {
        let target = "variant = 'reno'\nmeasure = 'first_drop_bdp'\nat_least = 0.5\neach = true";
        let (mut report, scenario) = (report(), scenario(target));
        let samples = &mut report.variants[0].samples;
        samples.iter_mut().for_each(|sample| sample.slow_start = SlowStart::default());
        let verdict =
            |scenario: &Scenario| verdicts(scenario, &landing::of(scenario, &report)).remove(0);
        let met = verdict(&scenario);
        assert!(met.is_met, "{}", met.words);
        let said = "reno: window at the first drop, in BDP never, never, never; wanted at least \
                    0.5 in each of 3 runs";
        assert_eq!(met.words, said);
        let most = self::scenario(&target.replace("at_least", "at_most"));
        assert!(!verdict(&most).is_met);
    }

    #[test]
    fn a_group_of_flows_may_be_meant() {
        let target = "variant = 'reno'\nflow = 'one'\nmeasure = 'share'\nat_most = 0.4";
        let verdict = verdict(target);
        assert!(!verdict.is_met);
        assert_eq!(verdict.words, "reno (one): share of its fair share 0.500; wanted at most 0.4");
    }

    #[test]
    fn what_has_no_figures_is_missed() {
        // Nothing counts them here, nobody ran it, nobody ran what it is held against.
        let uncounted = "variant = 'reno'\nmeasure = 'local_responses'\nat_most = 1";
        let not_run = "variant = 'bbr'\nmeasure = 'goodput'\nat_least = 1";
        let alone = "variant = 'reno'\nmeasure = 'goodput'\nof = 'bbr'\nat_least = 0";
        for target in [uncounted, not_run, alone] {
            let verdict = verdict(target);
            assert!(!verdict.is_met && verdict.words.contains("no figures"), "{}", verdict.words);
            let scenario = scenario(target);
            assert_eq!(missed(&scenario, &found(&scenario)).len(), 1);
            assert!(lines(&scenario, &found(&scenario)).starts_with("  MISSED: "));
        }
    }

    #[test]
    fn each_run_needs_a_figure() {
        let target = "variant = 'reno'\nmeasure = 'jain'\nat_least = 0.1\neach = true";
        let (mut report, scenario) = (report(), scenario(target));
        report.variants[0].samples[0].jain_index = Some(1.0);
        assert!(!verdicts(&scenario, &landing::of(&scenario, &report))[0].is_met);
        report.variants[0].samples.iter_mut().for_each(|sample| sample.jain_index = Some(1.0));
        assert!(verdicts(&scenario, &landing::of(&scenario, &report))[0].is_met);
    }

    #[test]
    fn variants_that_are_left_out_are_not_judged() {
        let target = "variant = 'wad_aimd'\nmeasure = 'goodput'\nof = 'reno'\nat_least = 1";
        let only = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let scenario = scenario(target).only(&names).unwrap();
            verdicts(&scenario, &found(&scenario)).len()
        };
        assert_eq!(only(&[]), 1);
        assert_eq!(only(&["reno", "wad_aimd"]), 1);
        assert_eq!((only(&["wad_aimd"]), only(&["reno"])), (0, 0));
    }
}
