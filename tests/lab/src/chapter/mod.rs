//! The chapter of the book on what the lab found is made of landed figures and of what scenarios
//! say, and of nothing else: whoever has both has the chapter.

mod compared;
mod grid;
mod markdown;
mod overview;
mod section;

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    experiment, guard,
    landed::{Experiment, Figures, Landed},
    probe,
    scenario::{Scenario, Variant},
    targets::{Verdict, verdicts},
};

/// The pictures are in this folder of the chapter's.
pub const FIGURES: &str = "figures/report";

const HEAD: &str = "\
<!-- Made of tests/lab/landed.toml and tests/lab/scenarios by `cargo xtask lab report --land`. -->
# What the lab found

This is what `wad` gains, and what it does not: every experiment of the papers that it comes from, and those \
of its own. All of it was measured with connections of the real kernel, between two network \
namespaces of one machine, over a path that is emulated: its rate, its round trip time, its queue and its \
losses are those that are stated. So figures are of this kernel and this machine, and not of a network that \
others use. [The lab](lab.md) says how it works, and how to run it yourself. No figure that was \
measured was written down by hand.
";

const WORDS: &str = "\
What the columns are:

- **Untuned** is what connections get without `wad`: with the buffers of Debian, and with those of Linux 6.16 \
and later, whose receivers grow up to 32 MiB.
- **By hand** is the best of what an expert does with the kernel alone: its own congestion controls, with \
buffers, pacing and streams that fit the path.
- **`wad`** is the best of its policies there.
- Rates are of data that arrived, in Mb/s; where a packet is dropped on purpose, those of the ten seconds \
after it. Of several runs it is the median, with the least and the most behind it. What differs by less than \
2% is called the same.
";

/// The studies, with what each is about.
pub const STUDIES: [(&str, &str); 3] = [
    (experiment::NAME, experiment::DESCRIPTION),
    (guard::NAME, guard::DESCRIPTION),
    (probe::NAME, probe::DESCRIPTION),
];

/// A page that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}", path = path.display())]
pub struct PageError {
    path: PathBuf,
    source: io::Error,
}

/// Returns the place of the chapter: in the source tree.
#[must_use]
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/report.md")
}

/// Writes a file, and the folder that it is in.
///
/// # Errors
/// When that cannot be done.
pub fn put(path: &Path, content: &str) -> Result<(), PageError> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, content))
        .map_err(|source| PageError { path: path.to_owned(), source })
}

/// A scenario with what was found, if it was ever run.
pub struct Found<'a> {
    pub scenario: &'a Scenario,
    pub experiment: Option<&'a Experiment>,
}

impl<'a> Found<'a> {
    /// Returns each target on each path.
    fn verdicts(&self) -> Vec<Verdict> {
        verdicts(self.scenario, self.experiment.unwrap_or(&Experiment::default()))
    }

    /// Returns what was found of a variant, if it was run.
    fn of(&self, variant: &Variant) -> Option<&'a Figures> {
        self.experiment?.variant(&variant.name)
    }

    fn figures(&self) -> &'a [Figures] {
        self.experiment.map_or(&[], |experiment| &experiment.variants)
    }
}

/// Returns each of them once, in their order.
fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// Returns the chapter of these scenarios and studies.
#[must_use]
pub fn text(landed: &Landed, scenarios: &[Scenario], studies: &[&str]) -> String {
    let found = |scenario| Found { scenario, experiment: landed.experiment(&scenario.name) };
    // Those of the papers come first.
    let (papers, own): (Vec<_>, Vec<_>) =
        scenarios.iter().map(found).partition(|found| found.scenario.paper.is_some());
    let mut text = HEAD.to_owned();
    let all: Vec<&Found<'_>> = papers.iter().chain(&own).collect();
    let _ =
        write!(text, "\n{}\n## All experiments\n\n{WORDS}", overview::head(landed, &all, studies));
    let _ = write!(text, "\n### Of the papers\n\n{}", compared::table(&papers));
    let _ = write!(text, "\n### Of `wad`'s own\n\n{}", compared::table(&own));
    let _ = write!(text, "\n### By hand, and by `wad`\n\n{}", compared::beside_hand(&all));
    all.iter().for_each(|found| {
        let _ = write!(text, "\n{}", section::of(found));
    });
    for (name, description) in STUDIES.iter().filter(|(name, _)| studies.contains(name)) {
        let _ = write!(text, "\n{}", section::of_study(name, description, landed.study(name)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{landed::tests::experiment, study::tests::study};

    #[test]
    fn the_book_has_what_is_landed() {
        let scenarios = Scenario::all().unwrap();
        let fresh = text(&Landed::load().unwrap(), &scenarios, &STUDIES.map(|(name, _)| name));
        let page = fs::read_to_string(path()).unwrap();
        let line = 1 + fresh.lines().zip(page.lines()).take_while(|(a, b)| a == b).count();
        assert!(
            fresh == page,
            "docs/src/report.md is stale from line {line} on: `cargo xtask lab report --stored --land` renews it"
        );
    }

    #[test]
    fn a_stranger_finds_figures_targets_and_reasons() {
        let mut one = experiment(
            "aimd-oc12",
            &[
                ("reno", "reno", &[210.0, 200.0, 250.0]),
                ("wad_aimd", "wad_aimd", &[310.0]),
                ("bbr", "bbr", &[595.0]),
            ],
        );
        one.pictures = vec!["aimd-oc12.svg".to_owned()];
        one.remarks = vec!["bbr: it was so.".to_owned()];
        one.settings = "Settings of all: none.\n".to_owned();
        let landed = Landed { experiments: vec![one], studies: vec![study("guard", &["bad"])] };
        let scenarios = ["aimd-oc12", "datatag"].map(|name| Scenario::load(name).unwrap());
        let text = text(&landed, &scenarios, &STUDIES.map(|(name, _)| name));
        for part in [
            "- Targets: 1 met, 9 missed. Of the missed 8 have no figures yet. Of all 10, 2 hold it \
             against what is done by hand, 0 against what is untuned, 0 against another policy of \
             `wad`, and 8 against a fixed figure; 6 are of the papers' experiments.",
            "\nNot measured, and so missed: [datatag](#datatag) (4 targets), [experiment](#experiment), ",
            "- [guard](#guard): bad: it is good",
            "| [aimd-oc12](#aimd-oc12)<br>AIMD(0.3, 6) 1.4-fold over 10 s (NERSC-ORNL, 80 ms) | - | 595, bbr |",
            "| 210 (200 to 250) |",
            "![aimd-oc12: windows and goodput over time](figures/report/aimd-oc12.svg)",
            "**What differs, and why.** ",
            "- bbr: it was so.",
            "Settings of all: none.",
            "\n## guard\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
