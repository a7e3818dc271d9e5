//! This module holds what a scenario was to show against what was measured.

use crate::{
    measure::median,
    report::{Report, Variant},
    scenario::Target,
};

/// A target on one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub is_met: bool,
    /// Holds what was wanted and what was found.
    pub words: String,
}

/// Returns each target on each path of the grid, as far as there are results for it.
#[must_use]
pub fn verdicts(targets: &[Target], report: &Report) -> Vec<Verdict> {
    let of = |target: &Target| -> Vec<Verdict> {
        let is_meant = |variant: &&Variant| {
            let path = target.path.as_deref().unwrap_or_else(|| variant.path_suffix());
            variant.base == target.variant && variant.path_suffix() == path
        };
        let variants = report.variants.iter().filter(is_meant);
        variants.filter_map(|variant| verdict(target, variant, report)).collect()
    };
    targets.iter().flat_map(of).collect()
}

/// Returns the verdicts as lines of text.
#[must_use]
pub fn lines(targets: &[Target], report: &Report) -> String {
    let line = |Verdict { is_met, words }: Verdict| {
        format!("  {}: {words}\n", if is_met { "met" } else { "MISSED" })
    };
    verdicts(targets, report).into_iter().map(line).collect()
}

fn verdict(target: &Target, variant: &Variant, report: &Report) -> Option<Verdict> {
    let figures = variant.figures(target.measure, target.flow.as_deref());
    let unit = match &target.of {
        None => Some((1.0, String::new())),
        Some(base) => reference(target, base, variant, report),
    };
    let (unit, of) = unit?;
    let values: Vec<f64> = match figures.is_empty() {
        true => return None,
        false if target.each => figures,
        false => vec![median(figures)],
    };
    let is_met = values.iter().all(|value| {
        target.at_least.is_none_or(|least| *value >= least * unit)
            && target.at_most.is_none_or(|most| *value <= most * unit)
    });
    let bounds = [("at least", target.at_least), ("at most", target.at_most)];
    let bounds = bounds.iter().filter_map(|(words, bound)| Some(format!("{words} {}", (*bound)?)));
    let who = target.flow.as_ref().map_or(String::new(), |flow| format!(" ({flow})"));
    let shown: Vec<String> = values.iter().map(|value| shown(value / unit)).collect();
    let words = format!(
        "{}{who}: {} {}{of}; wanted {}{}",
        variant.name,
        target.measure.words(),
        shown.join(", "),
        bounds.collect::<Vec<_>>().join(" and "),
        if target.each { " in each run" } else { "" },
    );
    Some(Verdict { is_met, words })
}

/// Returns the other variant's figure on the same path, and its name.
fn reference(
    target: &Target,
    base: &str,
    variant: &Variant,
    report: &Report,
) -> Option<(f64, String)> {
    let name = format!("{base}{}", variant.path_suffix());
    let other = report.variants.iter().find(|other| other.name == name)?;
    let flow = target.of_flow.as_deref().or(target.flow.as_deref());
    let figures = other.figures(target.measure, flow);
    let who = target.of_flow.as_ref().map_or(String::new(), |flow| format!(" ({flow})"));
    (!figures.is_empty()).then(|| (median(figures), format!(" of {name}{who}'s")))
}

fn shown(value: f64) -> String {
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
    use crate::report::tests::report;

    fn verdict(target: &str) -> Verdict {
        let target: Target = toml::from_str(target).unwrap();
        verdicts(&[target], &report()).remove(0)
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
        assert!(!verdict(&format!("{target}\neach = true")).is_met);
    }

    #[test]
    fn a_group_of_flows_may_be_meant() {
        let target = "variant = 'reno'\nflow = 'one'\nmeasure = 'share'\nat_most = 0.4";
        assert_eq!(
            verdict(target),
            Verdict {
                is_met: false,
                words: "reno (one): share of its fair share 0.500; wanted at most 0.4".to_owned(),
            }
        );
    }

    #[test]
    fn what_was_not_measured_is_no_verdict() {
        let target = "variant = 'reno'\nmeasure = 'local_responses'\nat_most = 1";
        let target: Target = toml::from_str(target).unwrap();
        assert_eq!(verdicts(&[target], &report()), []);
    }
}
