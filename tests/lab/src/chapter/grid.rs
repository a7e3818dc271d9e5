//! Over a grid of paths each measure has a table of its own: a row for each variant, and a column
//! for each path.

use super::{
    Found, distinct,
    markdown::{Table, both, figure, heading, is_nothing, measures, over, shares},
};
use crate::{
    landed::Figures,
    scenario::{Load, Measure, Scenario, Variant},
};

/// Tells whether a scenario has a grid.
pub fn is_there(scenario: &Scenario) -> bool {
    scenario.variants.iter().any(|variant| !variant.suffix().is_empty())
}

/// Returns the tables of what was run.
pub fn tables(found: &Found<'_>) -> String {
    let grid = Grid::of(found);
    let mut tables = Vec::new();
    let seconds = |variant: &Variant, figures: &Figures| {
        let Load::Bytes(bytes) = found.scenario.load_of(variant) else { return None };
        let bits = figures.median(Measure::Goodput, None)?;
        Some(format!("{:.2}", bytes as f64 * 8.0 / bits))
    };
    tables.extend(grid.table("Seconds", &seconds));
    for (measure, flow) in measures(found.figures()) {
        let cell = |_: &Variant, one: &Figures| Some(figure(measure, one.median(measure, flow)?));
        let title = capitalised(&heading(measure, flow));
        // What is nothing anywhere takes no table.
        let is_shown =
            measure == Measure::Retransmits || !is_nothing(found.figures(), measure, flow);
        if is_shown {
            tables.extend(grid.table(&title, &cell));
        }
    }
    tables.extend(grid.table("Of fair share", &|_, figures| shares(figures)));
    let over_untuned = |variant: &Variant, figures: &Figures| {
        let over = found.untuned(variant).map(|untuned| over(figures, untuned?));
        (variant.groups.len() == 1).then(|| both(over)).flatten()
    };
    tables.extend(grid.table("Over untuned; over untuned with 6.16's buffers", &over_untuned));
    tables.join("\n")
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The variants that were run, by their names without the path, and the paths.
struct Grid<'a> {
    found: &'a Found<'a>,
    bases: Vec<&'a str>,
    suffixes: Vec<&'a str>,
}

impl<'a> Grid<'a> {
    fn of(found: &'a Found<'a>) -> Self {
        let all = &found.scenario.variants;
        let bases = distinct(all.iter().map(|variant| variant.base.as_str()));
        let suffixes = distinct(all.iter().map(Variant::suffix));
        Self { found, bases, suffixes }
    }

    /// Returns a table, where any variant has something in it.
    fn table(
        &self,
        title: &str,
        cell: &dyn Fn(&Variant, &Figures) -> Option<String>,
    ) -> Option<String> {
        let all = &self.found.scenario.variants;
        let at = |base: &str, suffix: &str| {
            let variant = all.iter().find(|one| one.base == base && one.suffix() == suffix)?;
            cell(variant, self.found.of(variant)?)
        };
        let columns = self.suffixes.iter().map(|suffix| suffix.trim_start_matches('-'));
        let mut table = Table::new(std::iter::once("variant").chain(columns));
        let mut is_there = false;
        for base in &self.bases {
            let cells: Vec<Option<String>> =
                self.suffixes.iter().map(|suffix| at(base, suffix)).collect();
            if cells.iter().any(Option::is_some) {
                is_there = true;
                let cells = cells.iter().map(|cell| cell.as_deref().unwrap_or("-"));
                table.row(std::iter::once(*base).chain(cells));
            }
        }
        // Nothing between two tables would make one of them.
        is_there.then(|| format!("{title}:\n\n{}", table.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::landed::tests::experiment;

    #[test]
    fn each_measure_has_a_table_over_the_paths() {
        let scenario = Scenario::load("known-objects").unwrap();
        let mut one = experiment(
            "known-objects",
            &[
                ("untuned-0.5bdp-1MB", "cubic", &[8.0]),
                ("untuned-0.1bdp-10MB", "cubic", &[80.0]),
                ("known-0.5bdp-1MB", "wad_aimd", &[20.0]),
            ],
        );
        one.variants[2].keep(Measure::CongestionEvents, None, &[0.0]);
        let found = Found { scenario: &scenario, experiment: Some(&one) };
        let text = tables(&found);
        let seconds = "Seconds:\n\n| variant | 0.5bdp-1MB | 0.5bdp-10MB | 0.5bdp-100MB | 0.1bdp-1MB | 0.1bdp-10MB | \
                       0.1bdp-100MB |\n| --- | --- | --- | --- | --- | --- | --- |\n\
                       | untuned | 1.00 | - | - | - | 1.00 | - |\n\
                       | known | 0.40 | - | - | - | - | - |\n\nMb/s:\n\n| variant | ";
        assert!(text.starts_with(seconds), "{text}");
        assert!(text.contains("Sent again:\n") && !text.contains("Events:\n"), "{text}");
        assert!(text.contains("| known | 2.50 | - |"), "{text}");
        assert!(!text.contains("| cubic |"), "{text}");
    }
}
