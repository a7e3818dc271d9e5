//! The pictures of a scenario: one or, where kinds of flows share a path, one for each set of
//! them that targets are about.

use crate::{
    report::Report,
    scenario::Scenario,
    svg::{self, Row},
};

/// A picture as a file.
pub struct Picture<'a> {
    /// The name, without a folder.
    pub file: String,
    title: String,
    rows: Vec<Row<'a>>,
}

impl Picture<'_> {
    /// Draws it.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::render(&self.title, &self.rows)
    }
}

/// Returns the pictures of what was run.
#[must_use]
pub fn all<'a>(scenario: &Scenario, report: &'a Report) -> Vec<Picture<'a>> {
    let mut pictures: Vec<Picture<'a>> = Vec::new();
    for row in svg::rows(report) {
        let title = match row.only {
            None => report.scenario.clone(),
            Some(variant) if is_judged(scenario, &variant.base) => {
                format!("{}-{}", report.scenario, variant.base)
            }
            Some(_) => continue,
        };
        match pictures.iter_mut().find(|picture| picture.title == title) {
            Some(picture) => picture.rows.push(row),
            None => {
                let file = format!("{title}.svg");
                pictures.push(Picture { file, title, rows: vec![row] });
            }
        }
    }
    pictures
}

fn is_judged(scenario: &Scenario, base: &str) -> bool {
    let is_named = |name: &String| name == base;
    scenario.targets.iter().any(|one| is_named(&one.variant) || one.of.iter().any(is_named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn kinds_of_flows_that_nobody_judges_have_no_picture() {
        let scenario = Scenario::load("aimd-oc12").unwrap();
        let files = |report: &Report| -> Vec<String> {
            all(&scenario, report).into_iter().map(|picture| picture.file).collect()
        };
        let mut report = report();
        assert_eq!(files(&report), ["aimd-oc12.svg"]);
        for variant in &mut report.variants {
            let sample = &mut variant.samples[0];
            sample.flows.push(crate::report::tests::sample(1e8).flows.remove(0));
        }
        assert_eq!(files(&report), ["aimd-oc12-reno.svg", "aimd-oc12-wad_aimd.svg"]);
        report.variants[1].base = "bbr".to_owned();
        assert_eq!(files(&report), ["aimd-oc12-reno.svg"]);
    }
}
