//! Experiments are TOML files: a path, and variants of what runs over it.

mod grid;
mod group;
mod machine;
mod plan;
mod policy;
mod requests;
mod target;
mod variant;

use std::{fs, io, num::NonZeroU32, path::PathBuf, time::Duration};

use serde::Deserialize;
use toml::Table;
use wad_testbed::emulated::{
    path::Path,
    units::{Rate, Span},
};

use self::variant::RawVariant;
pub use self::{
    grid::Grid,
    group::Group,
    machine::{Machine, Version},
    plan::Plan,
    requests::Requests,
    target::{Measure, Target},
    variant::{Monitored, Variant},
};
use crate::client::Client;

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
    #[error(
        "{scenario} is for {wanted}, and this machine has {seen}: `cargo xtask vm lab {scenario}` \
         makes one"
    )]
    OtherMachine { scenario: String, wanted: String, seen: String },
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
    /// Tells in sentences what differs from the papers here, and why.
    pub why: Option<String>,
    /// The client that moves the data, where it is not for the user to choose.
    pub client: Option<Client>,
    pub load: Load,
    /// Runs of each variant, unless another number is asked for.
    pub repeat: u32,
    /// The flows of a variant are compared from here on.
    pub settle: Span,
    /// The time between two looks at the flows.
    pub sample_every: Span,
    /// The time between two transfers that one agent sees.
    pub pause: Span,
    /// Tells whether the sender asks for explicit congestion notification.
    pub ecn: bool,
    /// It is for kernels before this version.
    pub before: Option<Version>,
    pub burst: Option<Burst>,
    /// A client asks again and again by one connection.
    pub requests: Option<Requests>,
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
    why: Option<String>,
    seconds: Option<u32>,
    bytes: Option<u64>,
    client: Option<Client>,
    repeat: Option<NonZeroU32>,
    #[serde(default)]
    settle: Span,
    sample_every: Option<Span>,
    pause: Option<Span>,
    #[serde(default)]
    ecn: bool,
    before: Option<Version>,
    burst: Option<Burst>,
    requests: Option<Requests>,
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

const SAMPLE_EVERY: Span = Span(Duration::from_millis(100));
/// An agent has this time to take in what a transfer showed.
const PAUSE: Span = Span(Duration::from_secs(3));

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

    /// Loads all scenarios, in the order of their names.
    ///
    /// # Errors
    /// When one of the files cannot be read, or is not valid.
    pub fn all() -> Result<Vec<Self>, ScenarioError> {
        Self::names()?.iter().map(|name| Self::load(name)).collect()
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

    /// Tells whether a target is judged by a variant: it is about that, and what it is
    /// held against is not left out.
    #[must_use]
    pub fn judges(&self, target: &Target, variant: &Variant) -> bool {
        let like = target.of.as_ref().map(|base| format!("{base}{}", variant.suffix()));
        let has = |name: &String| self.variants.iter().any(|other| other.name == *name);
        target.is_of(variant) && like.as_ref().is_none_or(has)
    }

    /// Returns the number of targets that nothing here judges.
    #[must_use]
    pub fn unjudged(&self) -> usize {
        let is_judged =
            |target: &&Target| self.variants.iter().any(|variant| self.judges(target, variant));
        self.targets.iter().filter(|target| !is_judged(target)).count()
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

    /// Returns how much a variant sends.
    #[must_use]
    pub fn load_of(&self, variant: &Variant) -> Load {
        variant.bytes.map_or(self.load, Load::Bytes)
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
            (None, None) if self.grid.bytes.iter().all(|bytes| *bytes > 0) => {
                // Each cell of the grid has its own.
                let first = self.grid.bytes.first();
                Load::Bytes(*first.ok_or("it takes seconds, or bytes")?)
            }
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
        let are_of_curl = self.client == Some(Client::Curl);
        let fault = fault.or(self.requests.and_then(|requests| requests.fault(are_of_curl)));
        let fault = fault.or_else(|| {
            variants.iter().find_map(|one| one.path.fault().or(one.fault(self.client, load)))
        });
        if let Some(reason) = fault {
            return Err(reason);
        }
        let has_paper = self.paper.is_some() || variants.iter().any(|one| one.paper.is_some());
        if has_paper && self.why.as_ref().is_none_or(|why| why.trim().is_empty()) {
            return Err(
                "beside the papers' figures it says why: what differs from them here, and why",
            );
        }
        let is_somewhere = |target: &Target| variants.iter().any(|variant| target.is_of(variant));
        if !self.targets.iter().all(is_somewhere) {
            return Err("a target names a path that is not in the grid");
        }
        Ok(Scenario {
            name: name.to_owned(),
            description: self.description,
            paper: self.paper,
            why: self.why.map(|why| why.trim().to_owned()),
            client: self.client,
            load,
            repeat: self.repeat.map_or(1, NonZeroU32::get),
            settle: self.settle,
            sample_every: self.sample_every.unwrap_or(SAMPLE_EVERY),
            pause: self.pause.unwrap_or(PAUSE),
            ecn: self.ecn,
            before: self.before,
            burst: self.burst,
            requests: self.requests,
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

    /// Returns every variant of every scenario, with its policy read.
    fn policies() -> Vec<(Variant, Table)> {
        let scenarios = Scenario::names().unwrap().into_iter();
        let variants = scenarios.flat_map(|name| Scenario::load(&name).unwrap().variants);
        let read = |variant: Variant| {
            let policy = variant.policy.as_deref().unwrap_or_default().parse().unwrap();
            (variant, policy)
        };
        variants.map(read).collect()
    }

    #[test]
    fn what_is_tuned_has_the_limits_that_everyone_has() {
        for (variant, policy) in policies() {
            // A consent beside the paths is none: routes are changed where it is asked for.
            let mut others: Vec<&str> =
                policy.keys().map(String::as_str).filter(|key| *key != "path").collect();
            others.retain(|key| !(*key == "host" && variant.is_routed));
            assert!(others.is_empty(), "{}: {others:?}", variant.name);
        }
    }

    #[test]
    fn every_scenario_says_what_it_is_to_show() {
        for name in Scenario::names().unwrap() {
            assert!(!Scenario::load(&name).unwrap().targets.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_untuned_is_shown_with_newer_buffers_too() {
        // It shows that nobody gets less than before, not what is gained.
        let others = |name: &String| name != "many-flows";
        for name in Scenario::names().unwrap().into_iter().filter(others) {
            let scenario = Scenario::load(&name).unwrap();
            let is_plain = |variant: &&Variant| {
                variant.base.starts_with("untuned") && !variant.base.ends_with("-6.16")
            };
            for variant in scenario.variants.iter().filter(is_plain) {
                let newer = format!("{}-6.16{}", variant.base, variant.suffix());
                let newer = scenario.variants.iter().find(|other| other.name == newer);
                let newer = newer.unwrap_or_else(|| panic!("{name}: {}", variant.name));
                assert!(newer.policy.is_none() && newer.streams() == variant.streams());
                let rmem = newer.sysctls.get("net.ipv4.tcp_rmem").map(String::as_str);
                assert_eq!(rmem, Some("4096 131072 33554432"), "{name}: {}", newer.name);
            }
        }
    }

    /// Tells whether a variant's flows spread their packets over the round trip.
    fn is_paced(variant: &Variant) -> bool {
        let policy: Table = variant.policy.as_deref().unwrap_or_default().parse().unwrap();
        // What `wad plan` prints is not known here; its laws are ours.
        // What `wad suggest` prints has none.
        variant.plan.is_some_and(|plan| plan != Plan::Suggested)
            || policy.get("path").and_then(|paths| paths.get(0)).is_some_and(|path| {
                let text = |key: &str| path.get(key).and_then(toml::Value::as_str);
                let law = text("congestion").unwrap_or_default();
                let paces = law.starts_with("wad_") || law == "bbr" || text("loss").is_some();
                text("pacing").map_or(paces, |pacing| pacing != "off")
            })
    }

    #[test]
    fn what_is_paced_is_held_against_what_is_paced() {
        for name in Scenario::names().unwrap() {
            let scenario = Scenario::load(&name).unwrap();
            let find = |base: &str| {
                scenario.variants.iter().find(|variant| variant.base == base).map(is_paced)
            };
            for target in &scenario.targets {
                let like = scenario.targets.iter().any(|other| {
                    (other.variant.as_str(), other.measure) == (&target.variant, target.measure)
                        && other.of.as_deref().and_then(find) == find(&target.variant)
                });
                // What is untuned is as it is on hosts, and flows of several kinds that share
                // a path are a matter of what they leave.
                let of = target.of.as_deref().filter(|of| !of.starts_with("untuned"));
                let is_of_one = of.is_some() && target.flow.is_none();
                assert!(!is_of_one || like, "{name}: {} of {:?}", target.variant, target.of);
            }
        }
    }

    #[test]
    fn a_path_that_its_own_flows_measure_has_no_monitor() {
        let has_monitor = |name: &str| {
            Scenario::load(name).unwrap().variants.iter().any(|variant| variant.monitor.is_some())
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
        let nowhere = target.replace("'b'", "'a', path = '-9ms'");
        assert!(error(&format!("{HEAD}{nowhere}")).contains("path that is not in the grid"));
        let both = format!("bytes = 9\n{HEAD}variant = [{{ name = 'a' }}]");
        assert!(error(&both).contains("seconds"), "{}", error(&both));
        let missing = Scenario::load("nothing").unwrap_err().to_string();
        assert!(missing.contains("buffers-oc12"), "{missing}");
    }

    #[test]
    fn what_stands_beside_a_papers_figure_says_why_it_differs() {
        let variant = "variant = [{ name = 'a', paper = '7 Mb/s' }]";
        let error = parse(&format!("{HEAD}{variant}")).unwrap_err().to_string();
        assert!(error.contains("says why"), "{error}");
        let scenario = parse(&format!("why = 'It is so. '\n{HEAD}{variant}")).unwrap();
        assert_eq!(scenario.why.as_deref(), Some("It is so."));
        let parsed = parse(&format!("paper = '7 Mb/s'\n{HEAD}variant = [{{ name = 'a' }}]"));
        assert!(parsed.is_err());
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
