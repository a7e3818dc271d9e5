//! Compares the configuration in force with another one. Of the paths in force only a
//! fingerprint is kept: 100,000 of them would fill the agent.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::{self, Display, Write as _},
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_policy::{
    config::{
        Agent, Api, Config, HostChanges, Learn, Limits, Metrics, OnExit, Otlp, PathGuards,
        PathPolicy,
    },
    derived::Derived,
    heard, learned,
};

/// Names that are listed in a line of the log; the rest is a number.
const SHOWN: usize = 10;

/// The differences, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// Paths, in the order of the new file.
    pub added: Vec<String>,
    pub changed: Vec<String>,
    /// The removed paths, in the order of the old one.
    pub removed: Vec<String>,
    /// Paths that are as they were.
    pub unchanged: usize,
    /// Whether paths that were there before stand in another order, which decides
    /// between those on one prefix.
    pub reordered: bool,
    /// Other fields that changed, as `limits.max_memory`.
    pub settings: Vec<String>,
    pub sinks: NamedDiff,
    #[serde(default)]
    pub traces: NamedDiff,
}

/// The differences of tables of one kind that have names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedDiff {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl NamedDiff {
    fn of<T: PartialEq>(before: &[T], after: &[T], name: impl Fn(&T) -> &str) -> Self {
        let of_name = |all: &'_ [T], wanted: &str| all.iter().position(|it| name(it) == wanted);
        let mut diff = Self::default();
        for one in after {
            match of_name(before, name(one)) {
                None => diff.added.push(name(one).to_owned()),
                Some(old) if before[old] != *one => diff.changed.push(name(one).to_owned()),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|one| of_name(after, name(one)).is_none());
        diff.removed = gone.map(|one| name(one).to_owned()).collect();
        diff
    }
}

impl Diff {
    /// Adds what becomes of paths that no file has: of learned ones, and those by a peer's word.
    #[must_use]
    pub fn with_learned<'n>(
        mut self,
        before: &[Arc<str>],
        after: impl Iterator<Item = &'n str>,
    ) -> Self {
        let prefixes = [learned::NAME_PREFIX, heard::NAME_PREFIX];
        let is_learned = |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let before: BTreeSet<&str> = before.iter().map(|name| &**name).filter(is_learned).collect();
        let after: BTreeSet<&str> = after.filter(is_learned).collect();
        for (names, others, changed) in
            [(&after, &before, &mut self.added), (&before, &after, &mut self.removed)]
        {
            // A file may have a path of such a name.
            let new: Vec<_> = names
                .difference(others)
                .filter(|name| !changed.iter().any(|it| it == *name))
                .map(|name| (*name).to_owned())
                .collect();
            changed.extend(new);
        }
        self
    }
}

/// The configuration in force.
pub struct InForce {
    /// All but its paths.
    rest: Config,
    /// The paths, with their fingerprints, in the order of the file.
    paths: Vec<(Arc<str>, u64)>,
    /// The paths as the file has them; empty where none has a set and none are learned.
    of_file: Vec<PathPolicy>,
}

impl InForce {
    /// Keeps what is needed of a configuration. `names` are its paths', shared with
    /// whoever has them already.
    pub fn new(mut config: Config, prints: Fingerprints, names: Vec<Arc<str>>) -> Self {
        let paths = names.into_iter().zip(prints.0).collect();
        config.paths = Vec::new();
        Self { rest: config, paths, of_file: Vec::new() }
    }

    /// Keeps the paths as the file has them, for when their sets change, or what is learned.
    #[must_use]
    pub fn with_paths(self, of_file: Vec<PathPolicy>) -> Self {
        Self { of_file, ..self }
    }

    /// Returns the paths as the file has them, where any has a set or others are learned.
    pub fn of_file(&self) -> &[PathPolicy] {
        &self.of_file
    }

    /// Returns the whole configuration, if any path is for this set.
    pub fn config_for(&self, set: &str) -> Option<Config> {
        let is_of = |path: &PathPolicy| path.origin.lists().any(|name| name == set);
        let is_used = self.of_file.iter().any(is_of);
        is_used.then(|| self.config())
    }

    /// Returns the whole configuration, where any path has a set or others are learned.
    pub fn config(&self) -> Config {
        Config { paths: self.of_file.clone(), ..self.rest.clone() }
    }

    /// Returns the least time between two changes of a path.
    pub const fn change_interval(&self) -> Duration {
        self.rest.limits.change_interval
    }

    /// Returns what becomes of the tuning at the agent's end.
    pub const fn on_exit(&self) -> OnExit {
        self.rest.agent.on_exit
    }

    /// Returns how paths are learned, if they are.
    pub const fn learn(&self) -> Option<Learn> {
        self.rest.learn
    }

    /// Returns which paths have a guard, and what guards do.
    pub const fn guards(&self) -> &PathGuards {
        &self.rest.guard
    }

    /// Whether there are peers to talk with.
    pub const fn has_peers(&self) -> bool {
        self.rest.peers.is_some()
    }

    pub const fn host(&self) -> &HostChanges {
        &self.rest.host
    }

    /// Returns where metrics are exported to.
    pub const fn otlp(&self) -> Option<&Otlp> {
        self.rest.otlp.as_ref()
    }

    pub const fn derived(&self) -> &Derived {
        &self.rest.derived
    }

    /// The fields that differ and only take effect at a start.
    pub fn restart_only(&self, next: &Config) -> Vec<&'static str> {
        // Taken apart, so that a new field is not forgotten here.
        let Config {
            agent: Agent { state_dir, on_exit: _ },
            metrics: _,
            limits: _,
            learn: _,
            guard: _,
            log: _,
            api: _,
            page: _,
            kubernetes: _,
            host: _,
            sources: _,
            sets: _,
            sinks: _,
            otlp: _,
            traces: _,
            derived: _,
            probe: _,
            peers: _,
            paths: _,
        } = &self.rest;
        if *state_dir == next.agent.state_dir { Vec::new() } else { vec!["agent.state_dir"] }
    }

    /// Returns what putting `next` in force changes.
    pub fn diff(&self, next: &Config, prints: &Fingerprints) -> Diff {
        let mut before: HashMap<&str, (usize, u64)> = self
            .paths
            .iter()
            .enumerate()
            .map(|(place, (name, print))| (&**name, (place, *print)))
            .collect();
        let mut diff = Diff::default();
        let mut last_place = 0;
        for (path, next_print) in next.paths.iter().zip(&prints.0) {
            let Some((place, print)) = before.remove(path.name.as_str()) else {
                diff.added.push(path.name.clone());
                continue;
            };
            diff.reordered |= place < last_place;
            last_place = place;
            if print == *next_print {
                diff.unchanged += 1;
            } else {
                diff.changed.push(path.name.clone());
            }
        }
        let gone = self.paths.iter().filter(|(name, _)| before.contains_key(&**name));
        diff.removed = gone.map(|(name, _)| name.as_ref().to_owned()).collect();
        let Limits { max_memory_bytes, max_buffer_bytes, change_interval } = self.rest.limits;
        let Metrics { listen, max_paths, guard } = &self.rest.metrics;
        let Api { listen: api_listen, group } = self.rest.api;
        let settings = [
            ("agent.on_exit", self.on_exit() != next.agent.on_exit),
            ("metrics.listen", *listen != next.metrics.listen),
            ("metrics.max_paths", *max_paths != next.metrics.max_paths),
            ("metrics.certificate", guard.identity != next.metrics.guard.identity),
            ("metrics.users", guard.users != next.metrics.guard.users),
            ("api.listen", api_listen != next.api.listen),
            ("api.group", group != next.api.group),
            ("page", self.rest.page != next.page),
            ("limits.max_memory", max_memory_bytes != next.limits.max_memory_bytes),
            ("limits.max_buffer", max_buffer_bytes != next.limits.max_buffer_bytes),
            ("limits.change_interval", change_interval != next.limits.change_interval),
            ("learn", self.rest.learn != next.learn),
            ("guard", self.rest.guard != next.guard),
            ("log.format", self.rest.log.format != next.log.format),
            ("log.level", self.rest.log.level != next.log.level),
            ("otlp", self.rest.otlp != next.otlp),
            ("kubernetes", self.rest.kubernetes != next.kubernetes),
            ("host", self.rest.host != next.host),
            ("source", self.rest.sources != next.sources),
            ("set", self.rest.sets != next.sets),
            ("derived", self.rest.derived != next.derived),
            ("probe", self.rest.probe != next.probe),
            ("peers", self.rest.peers != next.peers),
        ];
        let changed = settings.into_iter().filter(|(_, differs)| *differs);
        diff.settings = changed.map(|(name, _)| name.to_owned()).collect();
        diff.sinks = NamedDiff::of(&self.rest.sinks, &next.sinks, |sink| &sink.name);
        diff.traces = NamedDiff::of(&self.rest.traces, &next.traces, |trace| &trace.name);
        diff
    }
}

/// The fingerprints of a configuration's paths, in its order: a third of a second for
/// 100,000.
pub struct Fingerprints(Vec<u64>);

impl Fingerprints {
    pub fn of(config: &Config) -> Self {
        Self(config.paths.iter().map(fingerprint).collect())
    }
}

/// Returns the fingerprint of all that a path says: every field shows in its `Debug`
/// form, also those that have no hash, as rates.
fn fingerprint(path: &PathPolicy) -> u64 {
    struct Hashed(DefaultHasher);

    impl fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }

    let mut hashed = Hashed(DefaultHasher::new());
    // Hashing cannot fail.
    let _ = write!(hashed, "{path:?}");
    hashed.0.finish()
}

/// The difference is shown as a line of the log has it.
impl Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (what, names) in [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
            ("set", &self.settings),
            ("added sink", &self.sinks.added),
            ("changed sink", &self.sinks.changed),
            ("removed sink", &self.sinks.removed),
            ("added trace", &self.traces.added),
            ("changed trace", &self.traces.changed),
            ("removed trace", &self.traces.removed),
        ] {
            if !names.is_empty() {
                parts.push(format!("{what} {}", Names(names)));
            }
        }
        if self.reordered {
            parts.push("another order".to_owned());
        }
        if parts.is_empty() {
            return f.write_str("no difference");
        }
        f.write_str(&parts.join("; "))
    }
}

/// The first of them, and how many more there are.
pub struct Names<'a>(pub &'a [String]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.0.split_at(self.0.len().min(SHOWN));
        f.write_str(&shown.join(", "))?;
        if rest.is_empty() { Ok(()) } else { write!(f, " and {} more", rest.len()) }
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::config::Host;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("wad.toml", text, &Host::default()).unwrap()
    }

    fn path(name: &str, remote: &str) -> String {
        format!("[[path]]\nname = '{name}'\nremote = '{remote}'\n")
    }

    fn in_force(text: &str) -> InForce {
        let config = config(text);
        let names = config.paths.iter().map(|path| path.name.as_str().into()).collect();
        let prints = Fingerprints::of(&config);
        InForce::new(config, prints, names)
    }

    fn diff(before: &str, after: &str) -> Diff {
        let after = config(after);
        in_force(before).diff(&after, &Fingerprints::of(&after))
    }

    #[test]
    fn paths_are_told_apart_by_name() {
        let before = path("a", "10.0.0.1") + &path("b", "10.0.0.2") + &path("c", "10.0.0.3");
        let after = path("a", "10.0.0.1") + &path("c", "10.0.0.4") + &path("d", "10.0.0.2");
        let diff = diff(&before, &after);
        assert_eq!(diff.to_string(), "added d; changed c; removed b");
        assert_eq!((diff.unchanged, diff.reordered), (1, false));
    }

    #[test]
    fn the_same_is_no_difference() {
        let text = path("a", "10.0.0.1") + "sndbuf = '1MiB'\n";
        let diff = diff(&text, &text);
        assert_eq!(diff, Diff { unchanged: 1, ..Diff::default() });
        assert_eq!(diff.to_string(), "no difference");
    }

    #[test]
    fn order_and_settings_count() {
        let (a, b) = (path("a", "10.0.0.1"), path("b", "10.0.0.2"));
        let after = format!("[agent]\non_exit = 'keep'\n[limits]\nmax_memory = '1GiB'\n{b}{a}");
        let diff = diff(&(a + &b), &after);
        assert_eq!(diff.to_string(), "set agent.on_exit, limits.max_memory; another order");
        assert_eq!(diff.unchanged, 2);
    }

    #[test]
    fn where_metrics_are_exported_is_a_setting() {
        let otlp = |url: &str| format!("[otlp]\nurl = '{url}'\n");
        for (before, after) in
            [("", "http://a:1"), ("http://a:1", "http://b:1"), ("http://a:1", "")]
        {
            let text = |url: &str| if url.is_empty() { String::new() } else { otlp(url) };
            assert_eq!(diff(&text(before), &text(after)).to_string(), "set otlp");
        }
    }

    #[test]
    fn the_page_is_a_setting() {
        let page = "[page]\nlisten = '127.0.0.1:1'\n";
        for after in ["", "[page]\nlisten = '/a'\n", "[page]\nlisten = '127.0.0.1:1'\nhosts = 'a'"]
        {
            assert_eq!(diff(page, after).to_string(), "set page");
            assert_eq!(in_force(page).restart_only(&config(after)), [""; 0]);
        }
        assert_eq!(diff(page, page).to_string(), "no difference");
    }

    #[test]
    fn where_pods_are_learned_from_is_a_setting() {
        let after = "[kubernetes]\nnode = 'a'\n";
        assert_eq!(diff("[kubernetes]\n", after).to_string(), "set kubernetes");
        assert_eq!(diff("", "[kubernetes]\n").to_string(), "no difference");
        assert_eq!(in_force("").restart_only(&config(after)), [""; 0]);
    }

    #[test]
    fn what_only_a_start_reads_is_named() {
        let before = in_force("");
        let live = "[agent]\non_exit = 'keep'\n[limits]\nmax_memory = '1GiB'\n[learn]\n\
                    [log]\nformat = 'json'\nlevel = 'debug'\n\
                    [metrics]\nlisten = '[::1]:1'\nmax_paths = 5\n[api]\nlisten = '[::1]:2'\n\
                    [otlp]\nurl = 'http://a:1'\n[[sink]]\nname = 's'\nkind = 'stdout'\n";
        assert_eq!(before.restart_only(&config(live)), [""; 0]);
        let after = "[agent]\nstate_dir = '/srv/wad'\n";
        assert_eq!(before.restart_only(&config(after)), ["agent.state_dir"]);
    }

    #[test]
    fn sinks_are_told_apart_by_name() {
        let sink = |name: &str, kind: &str| format!("[[sink]]\nname = '{name}'\nkind = '{kind}'\n");
        let before = sink("a", "stdout") + &sink("b", "syslog") + &sink("c", "journald");
        let after = sink("c", "syslog") + &sink("b", "syslog") + &sink("d", "stdout");
        let diff = diff(&before, &after);
        assert_eq!(diff.to_string(), "added sink d; changed sink c; removed sink a");
        assert_eq!(diff.settings, [""; 0]);
    }

    #[test]
    fn traces_are_told_apart_by_name() {
        let trace = |name: &str, keys: &str| {
            format!("[[trace]]\nname = '{name}'\nfile = '/{name}'\n{keys}\n")
        };
        let before = trace("a", "") + &trace("b", "") + &trace("c", "");
        let after = trace("c", "interval = '1s'") + &trace("b", "") + &trace("d", "");
        let diff = diff(&before, &after);
        assert_eq!(diff.to_string(), "added trace d; changed trace c; removed trace a");
        assert_eq!(diff.settings, [""; 0]);
    }

    #[test]
    fn learned_paths_that_come_and_go_are_named() {
        let own = ["learned-192.0.2.0/24", "learned-::/64", "b"].map(Arc::from);
        let file = "learned-192.0.2.0/24";
        let diff = diff(&path(file, "10.0.0.1"), "");
        let diff = diff.with_learned(&own, ["a", "learned-203.0.113.0/24"].into_iter());
        assert_eq!(diff.added, ["learned-203.0.113.0/24"]);
        assert_eq!(diff.removed, [file, "learned-::/64"]);
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<_> = (0..100_000).map(|n| n.to_string()).collect();
        assert_eq!(Names(&names).to_string(), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 99990 more");
    }
}
