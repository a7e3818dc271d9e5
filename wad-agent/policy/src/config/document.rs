//! The file as a whole: its tables, and the defaults of what is left out.

use std::{collections::HashMap, path::Path};

use toml::de::DeTable;

use super::{
    Config, ConfigError, Host, Peer, Probe, Source, agent, api, consent, derived, experiment,
    fault::{Fault, Problem, Problems, Span},
    fields, host_changes,
    inherit::{self, Shared},
    keys::{Key, key},
    kubernetes, learn, limits, listen, log, metrics, otlp,
    overlap::{self, Site},
    page, path, path_guards, peers, probe, report, route_rules, sections,
    sections::Section,
    set, sink, source,
    table::{Located, Table},
    texts::Texts,
    trace,
    unread::Unread,
};

const TABLES: &[Key] = &[
    key(agent::TABLE),
    key(metrics::TABLE),
    key(limits::TABLE),
    key(learn::TABLE),
    key(path_guards::TABLE),
    key(log::TABLE),
    key(api::TABLE),
    key(page::TABLE),
    key(otlp::TABLE),
    key(kubernetes::TABLE),
    key(host_changes::TABLE),
    key(inherit::DEFAULTS),
    key(source::TABLE),
    key(set::TABLE),
    key(sink::TABLE),
    key(trace::TABLE),
    key(derived::TABLE),
    key(probe::TABLE),
    key(peers::TABLE),
    key(peers::PEER_TABLE),
    key(path::TABLE),
];

/// The tables that there may be more of.
const ARRAYS: [&str; 7] = [
    source::TABLE,
    set::TABLE,
    sink::TABLE,
    trace::TABLE,
    derived::TABLE,
    peers::PEER_TABLE,
    path::TABLE,
];

/// The table that may be there again for the tables in it.
const OF_TABLES: &str = probe::TABLE;

impl Config {
    /// Reads and checks a file, with those of the folder beside it.
    pub fn load(file: &Path, host: &Host) -> Result<Self, ConfigError> {
        Self::check(&Texts::read(file)?, host)
    }

    /// Checks the text of a file.
    pub fn parse(file_name: &str, text: &str, host: &Host) -> Result<Self, ConfigError> {
        Self::check(&Texts::of(file_name, text), host)
    }

    /// Checks texts, all together.
    pub fn check(texts: &Texts, host: &Host) -> Result<Self, ConfigError> {
        let mut problems = Problems::default();
        let mut document = Document::default();
        let shared = Shared::find(texts, &mut problems);
        for section in sections::sections(texts) {
            let read =
                section.and_then(|section| document.read(section, &shared, host, &mut problems));
            if let Err(problem) = read {
                // What the rest would mean is anyone's guess: one error, not
                // those that follow from it.
                problems = Problems::default();
                problems.push(problem);
                document = Document::default();
                break;
            }
        }
        let Document { config, sites, set_names, unread_sets, .. } = &document;
        source::check(config, &document.source_names, &mut problems);
        listen::check(config, &document.listens, &mut problems);
        set::check((&config.sets, set_names, unread_sets), (&config.paths, sites), &mut problems);
        sink::check(&document.config.sinks, &document.sink_names, &mut problems);
        document.check_derived(&mut problems);
        document.check_traces(&mut problems);
        if let Some(at) = document.routes.filter(|_| document.config.host.routes) {
            route_rules::check(&document.config.paths, at, &mut problems);
        }
        let Document { config, probe_sites, unread_paths, .. } = &mut document;
        if let Some(probe) = &mut config.probe {
            let paths = (&*config.paths, &*unread_paths);
            probe::check((probe, probe_sites), paths, &mut problems);
        }
        document.check_peers(&mut problems);
        let Document { config, sites, guarded, unread_paths, .. } = &document;
        experiment::check((&config.paths, sites), unread_paths, &mut problems);
        path_guards::check(guarded, (&config.paths, unread_paths), &mut problems);
        overlap::check(&config.paths, sites, &mut problems);
        let errors = problems.count();
        if errors == 0 {
            document.config.measure_somehow();
            return Ok(document.config);
        }
        let problems = problems.sorted();
        let report = report::render(texts, &problems, errors);
        let mistakes = report::mistakes(texts, &problems);
        Err(ConfigError::Invalid { file: texts.name().to_owned(), errors, report, mistakes })
    }
}

impl Config {
    /// Adds a source: where the file names no source, measured paths have their own
    /// flows.
    fn measure_somehow(&mut self) {
        if self.sources.is_empty() && self.paths.iter().any(|path| path.measured.is_some()) {
            self.sources.push(Source::passive());
        }
    }
}

/// The defaults, and what was read so far.
#[derive(Default)]
struct Document {
    config: Config,
    /// The places of the paths, in their order.
    sites: Vec<Site>,
    /// Where `[host] routes` is.
    routes: Option<Span>,
    listens: listen::Places,
    /// The paths that `[guard]` names.
    guarded: Vec<Located<String>>,
    /// The places of the sources' names, in their order.
    source_names: Vec<Span>,
    /// The places of the sets' names, in their order.
    set_names: Vec<Span>,
    unread_sets: Unread,
    /// The places of the sinks' names, in their order.
    sink_names: Vec<Span>,
    /// The places of the traces, in their order.
    trace_sites: Vec<trace::Site>,
    /// The places of the derived events, in their order.
    derived_sites: Vec<derived::Site>,
    /// The places of the tasks of probes, in their order.
    probe_sites: Vec<probe::Site>,
    /// The peers, and their places.
    peers: (Vec<Peer>, Vec<peers::Site>),
    unread_peers: Unread,
    unread_paths: Unread,
    /// The tables that were there.
    seen: HashMap<&'static str, Span>,
}

impl Document {
    /// Reads the file: only what ends the reading is returned as an error.
    fn read(
        &mut self,
        section: Section<'_>,
        shared: &Shared<'_>,
        host: &Host,
        problems: &mut Problems,
    ) -> Result<(), Problem> {
        let Section { base_bytes, text } = section;
        let parsed = DeTable::parse(text).map_err(|error| {
            let end = text.trim_end().len();
            let span = error.span().unwrap_or(end..end);
            syntax_error(error.message()).at(Span::new(base_bytes, span))
        })?;
        let root = Table::open(&parsed, TABLES, base_bytes, problems);
        self.check_repeated(&root, problems);
        if let Some(table) = root.table(agent::TABLE, agent::KEYS, problems) {
            self.config.agent = agent::read(&table, problems);
        }
        if let Some(table) = root.table(metrics::TABLE, metrics::KEYS, problems) {
            let (metrics, listen) = metrics::read(&table, problems);
            self.config.metrics = metrics;
            self.listens.note("[metrics] listen", listen);
        }
        if let Some(table) = root.table(limits::TABLE, limits::KEYS, problems) {
            self.config.limits = limits::read(&table, shared.max_buffer_bytes, problems);
        }
        if let Some(learn) = learn::read(&root, problems) {
            self.config.learn = Some(learn);
        }
        if let Some(table) = root.table(path_guards::TABLE, path_guards::KEYS, problems) {
            (self.config.guard, self.guarded) = path_guards::read(&table, problems);
        }
        if let Some(table) = root.table(log::TABLE, log::KEYS, problems) {
            self.config.log = log::read(&table, problems);
        }
        if let Some(table) = root.table(api::TABLE, api::KEYS, problems) {
            self.config.api = api::read(&table, host, problems);
            self.listens.note("[api] listen", table.place("listen"));
        }
        if let Some(table) = root.table(page::TABLE, page::KEYS, problems) {
            self.config.page = page::read(&table, problems);
            self.listens.note("[page] listen", table.place("listen"));
        }
        if let Some(table) = root.table(otlp::TABLE, otlp::KEYS, problems) {
            self.config.otlp = otlp::read(&table, problems);
        }
        if let Some(table) = root.table(kubernetes::TABLE, kubernetes::KEYS, problems) {
            self.config.kubernetes = kubernetes::read(&table, problems);
        }
        if let Some(table) = root.table(host_changes::TABLE, host_changes::KEYS, problems) {
            self.config.host = host_changes::read(&table, problems);
            self.routes = table.place("routes");
        }
        for table in root.tables(source::TABLE, source::KEYS, problems) {
            if let Some((source, name)) = source::read(&table, problems) {
                self.config.sources.push(source);
                self.source_names.push(name);
            }
        }
        for table in root.tables(set::TABLE, set::KEYS, problems) {
            match set::read(&table, problems) {
                Some((set, name)) => {
                    self.config.sets.push(set);
                    self.set_names.push(name);
                }
                None => self.unread_sets.note(&table),
            }
        }
        for table in root.tables(sink::TABLE, sink::KEYS, problems) {
            if let Some((sink, name)) = sink::read(&table, problems) {
                self.config.sinks.push(sink);
                self.sink_names.push(name);
            }
        }
        for table in root.tables(trace::TABLE, trace::KEYS, problems) {
            if let Some((trace, site)) = trace::read(&table, host, problems) {
                self.config.traces.push(trace);
                self.trace_sites.push(site);
            }
        }
        for table in root.tables(derived::TABLE, derived::KEYS, problems) {
            // One too many is an error already; the rest would take long.
            if self.derived_sites.len() > derived::MAX_DERIVED {
                break;
            }
            let read = derived::read(&table, &self.config.derived, problems);
            if let Some((definition, site)) = read {
                self.config.derived.0.push(definition);
                self.derived_sites.push(site);
            }
        }
        if let Some(table) = root.table(probe::TABLE, probe::KEYS, problems) {
            self.read_probe(&table, problems);
        }
        if let Some(table) = root.table(peers::TABLE, peers::KEYS, problems) {
            self.config.peers = peers::read(&table, problems);
            self.listens.note("[peers] listen", table.place("listen"));
        }
        for table in root.tables(peers::PEER_TABLE, peers::PEER_KEYS, problems) {
            match peers::read_peer(&table, problems) {
                Some((peer, site)) => {
                    self.peers.0.push(peer);
                    self.peers.1.push(site);
                }
                None => self.unread_peers.note(&table),
            }
        }
        if let Some(table) = root.table(inherit::DEFAULTS, fields::keys(), problems) {
            inherit::check_defaults(&table, problems);
        }
        for table in root.tables(path::TABLE, fields::keys(), problems) {
            let mut table = shared.complete(table, problems);
            let (read, of_path) = loop {
                let mut of_path = Problems::default();
                let read = path::read(&table, host, shared.most(), &mut of_path);
                // A value from elsewhere that is of no use here is not this path's.
                let idle = of_path.idle().filter(|at| table.is_from_elsewhere(*at));
                let idle: Vec<Span> = idle.collect();
                if idle.is_empty() {
                    break (read, of_path);
                }
                table.hide(idle);
            };
            match read {
                Some((policy, site)) => {
                    self.config.paths.push(policy);
                    self.sites.push(site);
                }
                None => self.unread_paths.note(&table),
            }
            let name = table.place("name").unwrap_or(table.at);
            problems.push_all_of(of_path, name, |at| table.is_from_elsewhere(at));
        }
        Ok(())
    }

    fn check_peers(&mut self, problems: &mut Problems) {
        let (peers, sites) = std::mem::take(&mut self.peers);
        let place = self.seen.get(peers::TABLE).copied();
        let unread = &self.unread_peers;
        let names = peers.iter().map(|peer| &*peer.name).collect();
        consent::check_peers((&self.config.paths, &self.sites), (&names, unread), problems);
        if let Some(probe) = &self.config.probe {
            probe::check_peers((probe, &self.probe_sites), (&peers, unread), problems);
        }
        peers::check((&mut self.config.peers, place), (peers, &sites, unread), problems);
    }

    fn check_derived(&self, problems: &mut Problems) {
        if self.derived_sites.is_empty() {
            return;
        }
        let paths = self.config.paths.iter().map(|path| path.name.as_str()).collect();
        let (derived, sites) = (&self.config.derived, &self.derived_sites);
        derived::check((derived, sites), (&paths, &self.unread_paths), problems);
    }

    fn check_traces(&self, problems: &mut Problems) {
        if self.trace_sites.is_empty() {
            return;
        }
        let Config { traces, sinks, derived, paths, .. } = &self.config;
        let paths = paths.iter().map(|path| path.name.as_str()).collect();
        let rest = trace::Rest { sinks, derived, paths, unread_paths: &self.unread_paths };
        trace::check(traces, &self.trace_sites, &rest, problems);
    }

    /// TOML forbids it, but sees one section at a time.
    fn check_repeated(&mut self, root: &Table<'_>, problems: &mut Problems) {
        let is_single = |name: &&str| !ARRAYS.contains(name) && *name != OF_TABLES;
        for name in TABLES.iter().map(|key| key.name).filter(is_single) {
            let Some(at) = root.place(name) else { continue };
            if let Some(before) = self.seen.insert(name, at) {
                let fault = Fault::new(format!("[{name}] is there twice"), "the second");
                problems.push(fault.at(at).also(before, "the first"));
            }
        }
    }

    /// Reads what a part of the file has of probes. Its tasks may stand in all parts.
    fn read_probe(&mut self, table: &Table<'_>, problems: &mut Problems) {
        let tasks = table.tables(probe::TASK_TABLE, probe::TASK_KEYS, problems);
        let tasks = tasks.iter().filter_map(|table| probe::read_task(table, problems));
        let (tasks, sites): (Vec<_>, Vec<_>) = tasks.unzip();
        let known = self.config.probe.get_or_insert_default();
        if probe::has_own_keys(table) {
            let before = self.seen.insert(probe::TABLE, table.at);
            if let Some(before) = before {
                let fault = Fault::new("[probe] is there twice", "the second");
                problems.push(fault.at(table.at).also(before, "the first"));
            }
            *known =
                Probe { tasks: std::mem::take(&mut known.tasks), ..probe::read(table, problems) };
        }
        known.tasks.extend(tasks);
        self.listens.note("[probe] listen", table.place("listen"));
        self.listens.note("[probe] answer", table.place("answer"));
        self.probe_sites.extend(sites);
    }
}

fn syntax_error(message: &str) -> Fault {
    let help = match message {
        "duplicate key" => "keep one of the two",
        _ => "text and addresses stand in quotes, a path begins with [[path]]",
    };
    // That nothing was expected where there is something goes without saying.
    let label = message.strip_suffix(", expected nothing").unwrap_or(message);
    Fault::new("this is not TOML", label).help(help)
}
