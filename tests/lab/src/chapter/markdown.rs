//! Markdown that the chapter is made of, and figures for people.

use crate::{landed::Figures, measure::median, scenario::Measure};

/// A table with a row of headings.
pub struct Table(String);

impl Table {
    pub fn new<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        let headings: Vec<&str> = headings.into_iter().collect();
        let rule = vec!["---"; headings.len()];
        let mut table = Self(String::new());
        table.row(headings);
        table.row(rule);
        table
    }

    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        let cells: Vec<&str> = cells.into_iter().collect();
        self.0.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// Returns a part of a page that is shut at first.
pub fn folded(title: &str, content: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{}\n\n</details>\n", content.trim_end())
}

/// Returns lines of a list.
pub fn list(lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    lines.into_iter().map(|line| format!("- {}\n", line.as_ref())).collect()
}

/// Returns so many targets in words.
pub fn targets(count: usize) -> String {
    if count == 1 { "1 target".to_owned() } else { format!("{count} targets") }
}

/// Returns a link to the section of a scenario or a study.
pub fn link(name: &str) -> String {
    format!("[{name}](#{name})")
}

/// Returns a rate in megabits.
pub fn megabits(bits: f64) -> String {
    let megabits = bits / 1e6;
    if megabits < 10.0 { format!("{megabits:.1}") } else { format!("{megabits:.0}") }
}

/// Returns how many times another something is.
pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 99.5 => format!("{ratio:.0}"),
        ratio if ratio >= 9.95 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

/// Returns how many times another's rate a variant has.
pub fn over(figures: &Figures, other: &Figures) -> Option<f64> {
    let other = other.compared();
    (other > 0.0).then(|| figures.compared() / other)
}

/// Returns how many times something what is untuned has: with Debian's buffers, and behind it with
/// newer ones if that is there; none without either.
pub fn both(ratios: [Option<f64>; 2]) -> Option<String> {
    match ratios.map(|ratio| ratio.map(times)) {
        [debian, Some(newer)] => Some(format!("{}; {newer}", debian.as_deref().unwrap_or("-"))),
        [debian, None] => debian,
    }
}

/// Returns a figure of a measure.
pub fn figure(measure: Measure, value: f64) -> String {
    match value {
        value if value.is_infinite() => "never".to_owned(),
        value if measure.is_rate() => megabits(value),
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

/// Returns the median of runs, and of what if they differ; none without any.
pub fn spread(measure: Measure, values: &[f64]) -> Option<String> {
    let least = figure(measure, values.iter().copied().reduce(f64::min)?);
    let most = figure(measure, values.iter().copied().reduce(f64::max)?);
    let middle = figure(measure, median(values.iter().copied()));
    Some(if least == most { middle } else { format!("{middle} ({least} to {most})") })
}

/// Returns the heading over a measure.
pub fn heading(measure: Measure, flow: Option<&str>) -> String {
    let words = match measure {
        Measure::Goodput => "Mb/s".to_owned(),
        Measure::Retransmits => "sent again".to_owned(),
        Measure::CongestionEvents => "events".to_owned(),
        rate if rate.is_rate() => format!("{}, Mb/s", rate.words()),
        other => other.words().to_owned(),
    };
    flow.map_or(words.clone(), |flow| format!("{words} ({flow})"))
}

/// Returns the measures that any of them has, in their order, but for those that are shown in
/// another way: the part of the path, and shares.
pub fn measures(figures: &[Figures]) -> Vec<(Measure, Option<&str>)> {
    let mut measures: Vec<_> = figures.iter().flat_map(Figures::measures).collect();
    measures.retain(|(measure, _)| !matches!(measure, Measure::OfPath | Measure::Share));
    measures.sort();
    measures.dedup();
    measures
}

/// Tells whether a measure is nothing in every run.
pub fn is_nothing(figures: &[Figures], measure: Measure, flow: Option<&str>) -> bool {
    figures.iter().flat_map(|one| one.get(measure, flow)).all(|value| *value == 0.0)
}

/// Returns the shares of kinds of flows, of what would be fair; none without any.
pub fn shares(figures: &Figures) -> Option<String> {
    let flows = figures.measures().filter(|(measure, _)| *measure == Measure::Share);
    let shares = flows.filter_map(|(measure, flow)| {
        let share = figures.median(measure, flow)?;
        Some(format!("{} {share:.2}", flow.unwrap_or_default()))
    });
    let shares: Vec<_> = shares.collect();
    (!shares.is_empty()).then(|| shares.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_vary_say_how_much() {
        let shown = |measure, values: &[f64]| spread(measure, values);
        assert_eq!(shown(Measure::Retransmits, &[3.0, 1.0, 2.0]).unwrap(), "2 (1 to 3)");
        assert_eq!(shown(Measure::Goodput, &[2.14e8, 2.141e8]).unwrap(), "214");
        assert_eq!(shown(Measure::Goodput, &[1.84e6]).unwrap(), "1.8");
        assert_eq!(shown(Measure::SecondsAfterBurst, &[f64::INFINITY]).unwrap(), "never");
        assert_eq!(shown(Measure::Share, &[0.516]).unwrap(), "0.52");
        assert_eq!(shown(Measure::Jain, &[]), None);
        assert_eq!([0.5, 1.476, 13.61, 128.4].map(times), ["0.50", "1.48", "13.6", "128"]);
    }

    #[test]
    fn shares_stand_together() {
        let mut figures = Figures::new("a+b", "cubic");
        assert_eq!(shares(&figures), None);
        figures.keep(Measure::Share, Some("b"), &[0.123_4]);
        figures.keep(Measure::Share, Some("a"), &[1.5]);
        figures.keep(Measure::Retransmits, Some("a"), &[1.0]);
        assert_eq!(shares(&figures).unwrap(), "a 1.50, b 0.12");
        assert_eq!(measures(&[figures]), [(Measure::Retransmits, Some("a"))]);
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new(["a", "b"]);
        table.row(["1", "2"]);
        assert_eq!(table.finish(), "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
        assert_eq!(list(["x", "y"]), "- x\n- y\n");
    }
}
