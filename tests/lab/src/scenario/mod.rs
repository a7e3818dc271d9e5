//! Experiments are TOML files: a path, and variants of what runs over it.

mod grid;
mod policy;
mod target;
mod variant;

use std::{fs, io, num::NonZeroU32, path::PathBuf};

use serde::Deserialize;
use toml::Table;
use wad_testbed::emulated::{
    path::Path,
    units::{Rate, Span},
};

use self::variant::RawVariant;
pub use self::{
    grid::Grid,
    target::{Measure, Target},
    variant::{Group, Variant},
};

/// A scenario that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read {path}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}", path = path.display())]
    Parse { path: PathBuf, source: toml::de::Error },
    #[error("{path}: {reason}", path = path.display())]
    Invalid { path: PathBuf, reason: &'static str },
    #[error("no scenario \"{name}\"; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("scenario {scenario} has no variant \"{name}\"; there are: {known}")]
    NoVariant { scenario: String, name: String, known: String },
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    pub description: String,
    /// Tells what the papers saw in a like case.
    pub paper: Option<String>,
    pub load: Load,
    /// Runs of each variant, unless another number is asked for.
    pub repeat: u32,
    /// The flows of a variant are compared from here on.
    pub settle: Span,
    /// The time between two looks at the flows.
    pub sample_every: Span,
    /// Tells whether the sender asks for explicit congestion notification.
    pub ecn: bool,
    pub burst: Option<Burst>,
    /// The path without the grid.
    pub path: Path,
    pub variants: Vec<Variant>,
    pub targets: Vec<Target>,
}

/// Tells how much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Sends as much as goes in this time.
    Seconds(u32),
    /// Sends so many bytes over all streams together.
    Bytes(u64),
}

/// Datagrams from the sender's host through the same bottleneck.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// The time since the start of the run.
    pub at: Span,
    pub lasts: Span,
    /// The rate on the wire.
    pub rate: Rate,
}

/// A scenario as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    description: String,
    paper: Option<String>,
    seconds: Option<u32>,
    bytes: Option<u64>,
    repeat: Option<NonZeroU32>,
    #[serde(default)]
    settle: Span,
    sample_every: Option<Span>,
    #[serde(default)]
    ecn: bool,
    burst: Option<Burst>,
    path: Path,
    #[serde(default)]
    grid: Grid,
    /// Keys of every policy.
    #[serde(default)]
    policy: Table,
    /// The policy keys and variants are those of another scenario.
    variants_of: Option<String>,
    #[serde(default, rename = "variant")]
    variants: Vec<RawVariant>,
    #[serde(default, rename = "target")]
    targets: Vec<Target>,
}

const SAMPLE_EVERY_MS: u64 = 100;

impl Scenario {
    /// Loads the scenario of this name.
    ///
    /// # Errors
    /// When there is none, or its file is not valid.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        let names = Self::names()?;
        if !names.iter().any(|known| known == name) {
            let known = names.join(", ");
            return Err(ScenarioError::Unknown { name: name.to_owned(), known });
        }
        let path = folder().join(format!("{name}.toml"));
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(name, &path, &text),
            Err(source) => Err(ScenarioError::Read { path, source }),
        }
    }

    /// Returns the names of all scenarios, sorted.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names() -> Result<Vec<String>, ScenarioError> {
        let folder = folder();
        let failed = |source| ScenarioError::Read { path: folder.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let file = entry.map_err(failed)?.file_name();
            names.extend(file.to_string_lossy().strip_suffix(".toml").map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Keeps only the variants of these names, or all for none.
    ///
    /// # Errors
    /// When there is no such variant.
    pub fn only(mut self, names: &[String]) -> Result<Self, ScenarioError> {
        for name in names {
            if !self.variants.iter().any(|variant| variant.is_called(name)) {
                let mut known: Vec<_> =
                    self.variants.iter().map(|variant| variant.base.as_str()).collect();
                known.dedup();
                let known = known.join(", ");
                return Err(ScenarioError::NoVariant {
                    scenario: self.name,
                    name: name.clone(),
                    known,
                });
            }
        }
        self.variants
            .retain(|variant| names.is_empty() || names.iter().any(|name| variant.is_called(name)));
        Ok(self)
    }

    /// Reads what a file of that name says.
    ///
    /// # Errors
    /// When it is not valid.
    pub fn parse(name: &str, path: &std::path::Path, text: &str) -> Result<Self, ScenarioError> {
        let raw: RawScenario = toml::from_str(text)
            .map_err(|source| ScenarioError::Parse { path: path.to_owned(), source })?;
        let like = raw.variants_of.as_deref().map(Self::raw).transpose()?;
        raw.valid(name, like)
            .map_err(|reason| ScenarioError::Invalid { path: path.to_owned(), reason })
    }

    /// Reads another scenario's file as it is.
    fn raw(name: &str) -> Result<RawScenario, ScenarioError> {
        let path = folder().join(format!("{name}.toml"));
        let text = fs::read_to_string(&path)
            .map_err(|source| ScenarioError::Read { path: path.clone(), source })?;
        toml::from_str(&text).map_err(|source| ScenarioError::Parse { path, source })
    }

    /// Returns how long a run takes, where that is set.
    #[must_use]
    pub const fn seconds(&self) -> Option<u32> {
        match self.load {
            Load::Seconds(seconds) => Some(seconds),
            Load::Bytes(_) => None,
        }
    }
}

impl RawScenario {
    fn valid(mut self, name: &str, like: Option<Self>) -> Result<Scenario, &'static str> {
        if let Some(like) = like {
            if !(self.variants.is_empty() && self.policy.is_empty()) {
                return Err("with variants_of it has no policy and no variant of its own");
            }
            (self.policy, self.variants) = (like.policy, like.variants);
        }
        let load = match (self.seconds, self.bytes) {
            (Some(5..), None) => Load::Seconds(self.seconds.unwrap_or_default()),
            (None, Some(1..)) => Load::Bytes(self.bytes.unwrap_or_default()),
            _ => return Err("it takes seconds, at least 5, or bytes, at least 1"),
        };
        if self.variants.is_empty() {
            return Err("at least one variant is needed");
        }
        let names: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        let fault = self.targets.iter().find_map(|target| target.fault(&names));
        let mut variants = Vec::new();
        for variant in self.variants {
            variants.extend(variant.over(&self.policy, (&self.grid, &self.path))?);
        }
        if let Some(reason) = fault.or_else(|| variants.iter().find_map(|one| one.path.fault())) {
            return Err(reason);
        }
        let sample_every = Span(std::time::Duration::from_millis(SAMPLE_EVERY_MS));
        Ok(Scenario {
            name: name.to_owned(),
            description: self.description,
            paper: self.paper,
            load,
            repeat: self.repeat.map_or(1, NonZeroU32::get),
            settle: self.settle,
            sample_every: self.sample_every.unwrap_or(sample_every),
            ecn: self.ecn,
            burst: self.burst,
            path: self.path,
            variants,
            targets: self.targets,
        })
    }
}

/// Returns the folder of the files: in the source tree.
fn folder() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_are_valid() {
        let names = Scenario::names().unwrap();
        for needed in ["aimd-oc12", "buffers-oc12", "datatag"] {
            assert!(names.iter().any(|name| name == needed), "{needed}");
        }
        for name in names {
            let scenario = Scenario::load(&name).unwrap();
            assert_eq!(scenario.name, name);
        }
    }

    #[test]
    fn a_path_that_its_own_flows_measure_has_no_monitor() {
        let has_monitor = |name: &str| {
            Scenario::load(name).unwrap().variants.iter().any(|variant| variant.has_monitor)
        };
        assert!(has_monitor("measured-oc12") && has_monitor("measured-datatag"));
        assert!(!has_monitor("passive"));
    }

    #[test]
    fn an_oc12_is_what_it_says() {
        let path = Scenario::load("buffers-oc12").unwrap().path;
        assert_eq!(path.bdp_bytes(), 5_442_500);
        assert!((path.carries_bits_per_second() - 600_437_333.3).abs() < 1.0);
        let [forward, reverse] = path.laws();
        assert_eq!((forward.delay.delay_ns, reverse.delay.delay_ns), (35_000_000, 35_000_000));
    }

    fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse("x", std::path::Path::new("x.toml"), text)
    }

    const HEAD: &str = "description = ''\nseconds = 9\n\
                        path = { rtt = '1ms', forward = { rate = '1Mbit', queue.bdp = 1 } }\n";

    #[test]
    fn errors_name_the_file_and_the_key() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        let text = "description = \"\"\nseconds = 9\nspeed = 1\n";
        assert!(error(text).starts_with("x.toml: ") && error(text).contains("speed"));
        let text = "description = ''\nseconds = 9\nvariant = [{ name = 'a' }]\n\
                    path.rtt = '1ms'\npath.forward = { rate = '1Mbit', queue.bdp = 1, loss = 2 }";
        assert_eq!(error(text), "x.toml: a probability is a number from 0 to 1");
        let target = "variant = [{ name = 'a' }]\n\
                      target = [{ variant = 'b', measure = 'goodput', at_least = 1 }]";
        assert!(error(&format!("{HEAD}{target}")).contains("variant that is not there"));
        let both = format!("bytes = 9\n{HEAD}variant = [{{ name = 'a' }}]");
        assert!(error(&both).contains("seconds"), "{}", error(&both));
        let missing = Scenario::load("nothing").unwrap_err().to_string();
        assert!(missing.contains("buffers-oc12"), "{missing}");
    }

    #[test]
    fn runs_are_one_or_what_the_file_says() {
        let repeat = |line: &str| {
            let text = format!("{line}\n{HEAD}variant = [{{ name = 'a' }}]");
            parse(&text).map(|scenario| scenario.repeat)
        };
        assert_eq!(repeat("").unwrap(), 1);
        assert_eq!(repeat("repeat = 5").unwrap(), 5);
        assert!(repeat("repeat = 0").is_err());
    }

    #[test]
    fn variants_are_chosen_by_either_name() {
        let text = format!(
            "{HEAD}grid.queue_bdp = [0.5, 1]\n\
             variant = [{{ name = 'a' }}, {{ name = 'b', streams = 4 }}]"
        );
        let names = |wanted: &[&str]| -> Vec<String> {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            let scenario = parse(&text).unwrap().only(&wanted).unwrap();
            scenario.variants.into_iter().map(|variant| variant.name).collect()
        };
        assert_eq!(names(&["b"]), ["b-0.5bdp", "b-1bdp"]);
        assert_eq!(names(&["b-1bdp", "a"]), ["a-0.5bdp", "a-1bdp", "b-1bdp"]);
        assert_eq!(names(&[]).len(), 4);
        let error = parse(&text).unwrap().only(&["c".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("there are: a, b"), "{error}");
    }

    #[test]
    fn groups_have_ports_of_their_own() {
        let text = format!(
            "{HEAD}[[variant]]\nname = 'two'\n\
             flows = [{{ name = 'c' }}, {{ name = 'd', start = '2s', streams = 3 }}]"
        );
        let variant = &parse(&text).unwrap().variants[0];
        assert_eq!(variant.streams(), 4);
        assert_eq!(variant.groups[1].port, 5002);
        let text =
            format!("{HEAD}[[variant]]\nname = 'x'\nstreams = 2\nflows = [{{ name = 'c' }}]");
        assert!(parse(&text).unwrap_err().to_string().contains("for each of them"));
    }
}
