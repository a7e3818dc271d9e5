//! The file of landed figures is TOML, a line for each variant, so that a review sees what has
//! changed.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write as _},
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use toml::{Value, ser::ValueSerializer};

use super::{Experiment, Landed};
use crate::study::Study;

const HEAD: &str = "\
# Figures that the lab has measured, of each run one: the book's chapter \"What the lab found\" is made of
# them, and `wad simulate` is held against some (wad-agent/wad/tests/simulate.rs). `cargo xtask lab report
# --land` writes this file; CONTRIBUTING.md says when. Rates are in bits per second.
";

/// A file of landed figures that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LandedError {
    #[error("cannot read {path}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}", path = path.display())]
    Parse { path: PathBuf, source: toml::de::Error },
}

/// Returns the place of the file: in the source tree.
#[must_use]
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("landed.toml")
}

impl Landed {
    /// Reads the file of the source tree.
    ///
    /// # Errors
    /// When it is not there, or not valid.
    pub fn load() -> Result<Self, LandedError> {
        let path = path();
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|source| LandedError::Parse { path, source }),
            Err(source) => Err(LandedError::Read { path, source }),
        }
    }
}

impl Display for Landed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(HEAD)?;
        self.experiments.iter().try_for_each(|experiment| write!(out, "\n{experiment}"))?;
        self.studies.iter().try_for_each(|study| write_study(out, study))
    }
}

impl Display for Experiment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "[[experiment]]")?;
        writeln!(out, "scenario = {}", inline(&self.scenario)?)?;
        writeln!(out, "host = {}", inline(&self.host)?)?;
        writeln!(out, "pictures = {}", inline(&self.pictures)?)?;
        lines(out, "remarks", &self.remarks)?;
        writeln!(out, "settings = {}", block(&self.settings)?)?;
        lines(out, "variant", &self.variants)
    }
}

fn write_study(out: &mut fmt::Formatter<'_>, study: &Study) -> fmt::Result {
    writeln!(out, "\n[[study]]")?;
    writeln!(out, "name = {}", inline(&study.name)?)?;
    writeln!(out, "host = {}", inline(&study.host)?)?;
    writeln!(out, "headings = {}", inline(&study.headings)?)?;
    lines(out, "finding", &study.findings)
}

/// Writes an array with a line for each of its values.
fn lines(out: &mut fmt::Formatter<'_>, key: &str, values: &[impl Serialize]) -> fmt::Result {
    writeln!(out, "{key} = [")?;
    values.iter().try_for_each(|value| writeln!(out, "    {},", inline(value)?))?;
    writeln!(out, "]")
}

fn inline(value: &(impl Serialize + ?Sized)) -> Result<String, fmt::Error> {
    let mut text = String::new();
    value.serialize(ValueSerializer::new(&mut text)).map_err(|_| fmt::Error)?;
    Ok(text)
}

/// Returns a text of several lines as it is, where TOML lets it.
fn block(text: &str) -> Result<String, fmt::Error> {
    let is_plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    if text.is_empty() || text.contains("'''") || !text.chars().all(is_plain) {
        return inline(text);
    }
    let mut block = String::new();
    write!(block, "'''\n{text}'''")?;
    Ok(block)
}

/// Writes figures that are counts as such.
pub fn short<S: Serializer>(
    of: &BTreeMap<String, Vec<f64>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let number = |value: &f64| match value.fract() == 0.0 {
        true => Value::Integer(*value as i64),
        false => Value::Float(*value),
    };
    let mut map = serializer.serialize_map(Some(of.len()))?;
    for (key, values) in of {
        map.serialize_entry(key, &values.iter().map(number).collect::<Vec<_>>())?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        landed::tests::experiment,
        scenario::Measure,
        study::{Finding, Study},
    };

    #[test]
    fn what_is_written_is_read_again() {
        let mut one = experiment("burst", &[("reno", "reno", &[214.5, 3.1]), ("b", "bbr", &[7.0])]);
        one.variants[0].keep(Measure::SecondsAfterBurst, None, &[f64::INFINITY, 2.5]);
        one.variants[1].keep(Measure::Share, Some("a \"b\""), &[0.25]);
        one.variants[1].date = Some("2026-11-27".to_owned());
        one.settings =
            "Settings of all: `a = 1`.\n\nreno: wad runs with\n\n```text\nx = \"y\"\n```\n"
                .to_owned();
        one.remarks = vec!["It's \"so\".".to_owned()];
        let finding = Finding {
            name: "healthy".to_owned(),
            measured: None,
            cells: vec!["1".to_owned()],
            met: vec!["it does not trip".to_owned()],
            missed: Vec::new(),
            outcome: serde_json::Value::Null,
        };
        let study = Study {
            name: "guard".to_owned(),
            host: "Linux".to_owned(),
            headings: vec!["looks".to_owned()],
            findings: vec![finding],
        };
        let landed = Landed { experiments: vec![one], studies: vec![study] };
        let text = landed.to_string();
        assert_eq!(toml::from_str::<Landed>(&text).unwrap(), landed, "{text}");
        assert!(text.contains("goodput = [214500000, 3100000]"), "{text}");
        assert!(text.contains("settings = '''\nSettings of all"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("    { name = \"reno\", law = \"reno\"")));
    }

    #[test]
    fn what_the_repository_keeps_is_as_it_is_written() {
        let text = fs::read_to_string(path()).unwrap();
        assert!(toml::from_str::<Landed>(&text).unwrap().to_string() == text);
    }
}
