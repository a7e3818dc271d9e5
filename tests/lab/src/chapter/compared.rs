//! All experiments beside each other: the papers' number, what is untuned, the best by hand, and
//! the best of `wad`. Flows of several kinds that share a path are left out: there it counts what
//! each leaves to others, and not what all get together.

use super::{
    Found, distinct,
    markdown::{Table, both, link, list, megabits, over, times},
};
use crate::{
    landed::Figures,
    report::{self, NEWER, UNTUNED},
    scenario::{Measure, Variant},
    whose::Whose,
};

/// Rates that differ by no more are the same.
const SAME: f64 = 0.02;

/// A scenario over one path of its grid.
pub struct Row<'a> {
    scenario: &'a str,
    /// The place in the grid, as in the names of variants.
    suffix: &'a str,
    paper: Option<&'a str>,
    /// With the buffers of Debian, and with those of newer kernels.
    untuned: [Option<&'a Figures>; 2],
    by_hand: Option<&'a Figures>,
    wad: Option<&'a Figures>,
}

impl<'a> Row<'a> {
    /// Returns the rows of a scenario: one for each path of its grid.
    pub fn of(found: &Found<'a>) -> Vec<Self> {
        let alone: Vec<_> = found.alone().collect();
        let suffixes = distinct(alone.iter().map(|(variant, _)| variant.suffix()));
        let row = |suffix| {
            let here = || alone.iter().filter(|(variant, _)| variant.suffix() == suffix);
            let best = |whose: Whose| {
                let its = here().filter(|(variant, figures)| Whose::of(variant, figures) == whose);
                its.max_by(|a, b| a.1.compared().total_cmp(&b.1.compared()))
            };
            let [by_hand, wad] = [best(Whose::Hand), best(Whose::Wad)];
            let like = wad.or(by_hand).or_else(|| here().next());
            let untuned = like.map_or([None; 2], |(variant, _)| found.untuned(variant));
            let [by_hand, wad] = [by_hand, wad].map(|best| best.map(|(_, figures)| *figures));
            let paper = found.scenario.paper.as_deref();
            Self { scenario: &found.scenario.name, suffix, paper, untuned, by_hand, wad }
        };
        suffixes.into_iter().map(row).collect()
    }

    fn name(&self) -> String {
        let suffix = self.suffix.trim_start_matches('-');
        let name = format!("{} {suffix}", link(self.scenario));
        with_paper(name.trim_end(), self.paper)
    }

    /// Returns how many times the rate by hand `wad` has.
    fn over_hand(&self) -> Option<f64> {
        over(self.wad?, self.by_hand?)
    }

    fn cells(&self) -> [String; 6] {
        let rate = |figures: Option<&Figures>| {
            figures.map_or("-".to_owned(), |figures| megabits(figures.compared()))
        };
        let named = |figures: Option<&Figures>| {
            let base = |name: &str| name.strip_suffix(self.suffix).unwrap_or(name).to_owned();
            let name =
                figures.map_or(String::new(), |figures| format!(", {}", base(&figures.name)));
            rate(figures) + &name
        };
        let untuned = match self.untuned.map(rate) {
            [debian, newer] if newer == "-" => debian,
            [debian, newer] => format!("{debian}; {newer}"),
        };
        let none = || "-".to_owned();
        [
            self.name(),
            untuned,
            named(self.by_hand),
            named(self.wad),
            both(self.untuned.map(|untuned| over(self.wad?, untuned?))).unwrap_or_else(none),
            self.over_hand().map_or_else(none, times),
        ]
    }

    /// Returns both in words, with what they sent again.
    fn words(&self) -> Option<String> {
        let of = |figures: &Figures| {
            let again = figures.median(Measure::Retransmits, None).unwrap_or(0.0);
            format!("{} has {}, {again:.0} sent again", figures.name, megabits(figures.compared()))
        };
        let (wad, by_hand) = (self.wad?, self.by_hand?);
        let times = times(self.over_hand()?);
        Some(format!("{}: {}; {}: {times} times", link(self.scenario), of(by_hand), of(wad)))
    }
}

fn with_paper(name: &str, paper: Option<&str>) -> String {
    paper.map_or_else(|| name.to_owned(), |paper| format!("{name}<br>{paper}"))
}

impl<'a> Found<'a> {
    /// Returns the variants of one kind of flow that were run, in the scenario's order.
    fn alone(&self) -> impl Iterator<Item = (&'a Variant, &'a Figures)> {
        let alone = self.scenario.variants.iter().filter(|variant| variant.groups.len() == 1);
        alone.filter_map(|variant| Some((variant, self.of(variant)?)))
    }

    /// Returns what runs without `wad` on a variant's path: with Debian's buffers, and with those
    /// of newer kernels. Of several it is the one with as many streams.
    pub fn untuned(&self, variant: &Variant) -> [Option<&'a Figures>; 2] {
        [false, true].map(|is_newer| {
            let fits = |(other, _): &(&Variant, &Figures)| {
                other.base.starts_with(UNTUNED)
                    && other.base.ends_with(NEWER) == is_newer
                    && other.suffix() == variant.suffix()
                    && report::Path::of(&other.path) == report::Path::of(&variant.path)
            };
            let mut fitting = self.alone().filter(fits);
            let first = fitting.next()?;
            let is_like = |(other, _): &(&Variant, &Figures)| other.streams() == variant.streams();
            Some(std::iter::once(first).chain(fitting).find(is_like).unwrap_or(first).1)
        })
    }
}

/// Returns the table of some experiments, and which of them are about sharing.
pub fn table(all: &[Found<'_>]) -> String {
    let has_papers = all.iter().any(|found| found.scenario.paper.is_some());
    let name = if has_papers { "experiment, and what the papers had" } else { "experiment" };
    let untuned = "untuned; with 6.16's buffers";
    let over_untuned = "`wad` over untuned; over 6.16's";
    let mut table =
        Table::new([name, untuned, "by hand", "`wad`", over_untuned, "`wad` over by hand"]);
    let mut shared = Vec::new();
    for found in all {
        if found.scenario.variants.iter().any(|variant| variant.groups.len() > 1) {
            shared.push(link(&found.scenario.name));
            continue;
        }
        let rows = Row::of(found);
        for row in &rows {
            let cells = row.cells();
            table.row(cells.iter().map(String::as_str));
        }
        if rows.is_empty() {
            let name = with_paper(&link(&found.scenario.name), found.scenario.paper.as_deref());
            table.row([name.as_str(), "not measured", "-", "-", "-", "-"]);
        }
    }
    let mut text = table.finish();
    if !shared.is_empty() {
        let shared = shared.join(", ");
        text +=
            &format!("\nWho leaves what to others is the matter of {shared}: it is told there.\n");
    }
    text
}

/// Says where what is done by hand is better, where it is the same, and where `wad` is better.
pub fn beside_hand(all: &[&Found<'_>]) -> String {
    let is_alone = |found: &&&Found<'_>| {
        found.scenario.variants.iter().all(|variant| variant.groups.len() == 1)
    };
    let rows: Vec<Row<'_>> = all.iter().filter(is_alone).flat_map(|found| Row::of(found)).collect();
    let part = |head: &str, is_here: &dyn Fn(f64) -> bool| {
        let here = rows.iter().filter(|row| row.over_hand().is_some_and(is_here));
        let lines: Vec<String> = here.filter_map(Row::words).collect();
        let lines = if lines.is_empty() { vec!["nowhere".to_owned()] } else { lines };
        format!("{head}\n\n{}", list(lines))
    };
    let (least, most) = (1.0 - SAME, 1.0 + SAME);
    [
        part("By hand is better, by rate:", &|times| times < least),
        part("Both are the same:", &|times| (least..=most).contains(&times)),
        part("`wad` is better:", &|times| times > most),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{landed::tests::experiment, scenario::Scenario};

    fn said(name: &str, variants: &[(&str, &str, &[f64])]) -> (String, String) {
        let (scenario, experiment) = (Scenario::load(name).unwrap(), experiment(name, variants));
        let found = Found { scenario: &scenario, experiment: Some(&experiment) };
        (table(std::slice::from_ref(&found)), beside_hand(&[&found]))
    }

    #[test]
    fn where_by_hand_is_better_it_is_said() {
        let variants: [(&str, &str, &[f64]); 3] = [
            ("cubic", "cubic", &[369.0]),
            ("bbr", "bbr", &[595.0]),
            ("wad_aimd", "wad_aimd", &[353.0]),
        ];
        let (table, beside) = said("aimd-oc12", &variants);
        assert!(
            table.contains("(NERSC-ORNL, 80 ms) | - | 595, bbr | 353, wad_aimd | - | 0.59 |"),
            "{table}"
        );
        let better = "By hand is better, by rate:\n\n- [aimd-oc12](#aimd-oc12): bbr has 595, 3 sent again; \
                      wad_aimd has 353, 3 sent again: 0.59 times\n";
        assert!(beside.starts_with(better), "{beside}");
        assert!(beside.ends_with("`wad` is better:\n\n- nowhere\n"), "{beside}");
    }

    #[test]
    fn what_is_nearly_equal_is_the_same() {
        let variants: [(&str, &str, &[f64]); 2] =
            [("bbr", "bbr", &[100.0]), ("wad_aimd", "wad_aimd", &[101.9])];
        let (_, beside) = said("aimd-oc12", &variants);
        assert!(
            beside.contains("Both are the same:\n\n- [aimd-oc12](#aimd-oc12): bbr"),
            "{beside}"
        );
    }

    #[test]
    fn buffers_of_wads_are_no_work_of_hands() {
        // All of them have a law of the kernel's.
        let variants: [(&str, &str, &[f64]); 4] = [
            ("untuned", "cubic", &[310.0]),
            ("untuned-6.16", "cubic", &[330.0]),
            ("tuned", "cubic", &[575.0]),
            ("reno", "reno", &[560.0]),
        ];
        let (table, _) = said("buffers-oc12", &variants);
        let row = "| 310; 330 | 560, reno | 575, tuned | 1.85; 1.74 | 1.03 |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn each_path_of_a_grid_has_a_row() {
        let variants: [(&str, &str, &[f64]); 4] = [
            ("untuned-0.5bdp-1MB", "cubic", &[8.0]),
            ("cubic-0.5bdp-1MB", "cubic", &[8.2]),
            ("known-0.5bdp-1MB", "wad_aimd", &[20.0]),
            ("untuned-0.1bdp-10MB", "cubic", &[60.0]),
        ];
        let (table, _) = said("known-objects", &variants);
        let row = "| [known-objects](#known-objects) 0.5bdp-1MB | 8.0 | 8.2, cubic | 20, known | 2.50 | 2.44 |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("0.1bdp-10MB | 60 | - | - | - | - |"), "{table}");
    }

    #[test]
    fn what_is_shared_is_told_elsewhere() {
        let (table, beside) = said("known-wrong", &[("anew", "wad_aimd", &[533.0])]);
        assert!(table.ends_with("the matter of [known-wrong](#known-wrong): it is told there.\n"));
        assert!(!beside.contains("anew"), "{beside}");
    }

    #[test]
    fn what_nobody_ran_is_not_measured() {
        let (table, _) = said("aimd-oc12", &[]);
        assert!(table.contains("| not measured | - |"), "{table}");
    }
}
