//! `wad check`: reads a configuration as `wad run` would, and says what comes
//! of it. Buffers are the arguments of SO_SNDBUF and SO_RCVBUF, in bytes.

mod certificate;
mod derived;
mod guards;
mod host;
mod kernel;
mod lists;
mod memory;
mod peers;
mod report;
mod sets;
mod shares;
#[cfg(test)]
mod tests;
mod unwritable;

use std::{
    fmt::{self, Display},
    fs,
    path::Path,
};

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use wad_policy::config::{
    Config, ConfigError, Cut, CutBuffers, Host, KubernetesSettings, Learn, Most, OnExit, Otlp,
    PathPolicy, Probe, Texts, Trace, covers_ipv4, fields,
};
use wad_toolbox::{amounts::Bytes, text_table::TextTable};
use wad_tuning::{
    ceilings::{Ceilings, RMEM_MAX, TCP_RMEM, TCP_WMEM, WMEM_MAX},
    kernel_modules,
};

use self::{host::There, memory::Memory};
pub use self::{kernel::Kernel, report::Report};
use crate::{arguments::ConfigFile, output, progress::Progress};

/// Paths and notes shown; the rest is a number.
const SHOWN: usize = 50;

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub config: ConfigFile,
    /// Show instead which BPF programs this kernel takes, by loading each, and what goes without
    /// the others
    #[arg(long, conflicts_with = "config")]
    pub host: bool,
    /// Print JSON: all paths, notes and errors
    #[arg(long)]
    pub json: bool,
}

/// Checks a file and prints its paths, or the programs that this kernel takes.
pub fn run(args: &Check) -> anyhow::Result<()> {
    if args.host {
        return kernel::run(args.json);
    }
    let file = &args.config.file;
    let host = Host::read()?;
    let progress = Progress::of(format!("reading {}", file.display()));
    let texts = Texts::read(file)?;
    let loaded = Config::check(&texts, &host);
    drop(progress);
    let fragments: Vec<String> = texts.fragments().map(str::to_owned).collect();
    if args.json
        && let Err(ConfigError::Invalid { errors, mistakes, .. }) = &loaded
    {
        output::print_json(&Report::refused(file, &fragments, (*errors, mistakes)))?;
    }
    let config = loaded?;
    let ceilings = Ceiling::all(&config, read_sysctl);
    let memory = Memory::of(&config, memory::default_bytes());
    let there = There::look(&config.paths);
    let sets = sets::read(&config);
    let files = [peers::files, certificate::files, unwritable::files];
    let files = files.into_iter().flat_map(|files| files(&config, &texts)).collect();
    let config = &config;
    let page = Page { file, fragments, config, host: &host, ceilings, memory, there, sets, files };
    if args.json { output::print_json(&Report::of(&page)) } else { output::print(page) }
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(config: &Config, host: &Host) {
    let ceilings = Ceiling::all(config, |_| None);
    let memory = Memory::of(config, None);
    let file = Path::new("wad.toml");
    let (there, sets, files) = (There::default(), Vec::new(), Vec::new());
    let fragments = Vec::new();
    let page = Page { file, fragments, config, host, ceilings, memory, there, sets, files };
    assert!(page.to_string().ends_with("no error\n"));
    assert!(serde_json::to_string(&Report::of(&page)).is_ok());
}

/// The current value, of several the last; None where this network namespace does not show it.
fn read_sysctl(name: &str) -> Option<u64> {
    let file = Path::new("/proc/sys").join(name.replace('.', "/"));
    fs::read_to_string(file).ok()?.split_whitespace().next_back()?.parse().ok()
}

/// A sysctl that bounds the buffers of all paths: of those with three numbers, the last.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Ceiling {
    sysctl: &'static str,
    needed_bytes: u64,
    /// Its present value; null where this network namespace does not show it.
    now_bytes: Option<u64>,
}

impl Ceiling {
    /// Returns the settings of the kernel that the configuration needs.
    fn all(config: &Config, read: impl Fn(&str) -> Option<u64>) -> Vec<Self> {
        let Ceilings { rcvbuf_bytes, sndbuf_bytes, tuned_bytes } = Ceilings::of(&config.paths);
        let fixed = [(WMEM_MAX, sndbuf_bytes), (RMEM_MAX, rcvbuf_bytes)];
        let tuned = [(TCP_WMEM, tuned_bytes), (TCP_RMEM, tuned_bytes)];
        fixed
            .into_iter()
            .chain(tuned)
            .filter(|(_, needed_bytes)| *needed_bytes > 0)
            .map(|(sysctl, needed_bytes)| Self { sysctl, needed_bytes, now_bytes: read(sysctl) })
            .collect()
    }
}

impl Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sysctl, needed_bytes, now_bytes } = self;
        // Of those that are three numbers.
        let is_tuned = matches!(*sysctl, TCP_WMEM | TCP_RMEM);
        let sysctl = format!("{}{sysctl}", if is_tuned { "the last of " } else { "" });
        match now_bytes {
            None => write!(f, "{sysctl} must be {needed_bytes} or more; it can't be read here"),
            Some(now) if now >= needed_bytes => write!(f, "{sysctl} is {now}, which is enough"),
            Some(now) => {
                write!(
                    f,
                    "{sysctl} is {now}; `wad run` raises it to {needed_bytes} while it runs"
                )?;
                if is_tuned {
                    write!(f, ", for all flows of its network namespace that the kernel tunes")?;
                }
                Ok(())
            }
        }
    }
}

/// All that is printed.
struct Page<'a> {
    file: &'a Path,
    /// The files of the folder beside it.
    fragments: Vec<String>,
    config: &'a Config,
    host: &'a Host,
    ceilings: Vec<Ceiling>,
    memory: Memory,
    there: There,
    /// Sentences on sets, and on paths by what these hold.
    sets: Vec<String>,
    /// Sentences on files that the configuration names.
    files: Vec<String>,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = &self.config.paths;
        if !paths.is_empty() {
            let rows = paths.iter().take(SHOWN).map(row);
            TextTable::new(titles()).with_rows(rows).fmt(f)?;
            write_more(f, paths.len())?;
            writeln!(f)?;
        }
        shares::write(f, paths)?;
        let settings: Vec<_> =
            paths.iter().map(|path| (path, words(path))).filter(|(_, s)| !s.is_empty()).collect();
        for (path, settings) in settings.iter().take(SHOWN) {
            lists::write(f, &format!("path {}", path.name), settings)?;
        }
        write_more(f, settings.len())?;
        shares::modelled(paths, shares::NAMED).iter().try_for_each(|said| writeln!(f, "{said}"))?;
        let loaded = self.loaded_at_start();
        if !loaded.is_empty() {
            writeln!(f, "`wad run` has the kernel load {}", loaded.join(", "))?;
        }
        for ceiling in &self.ceilings {
            writeln!(f, "{ceiling}")?;
        }
        self.memory.fmt(f)?;
        if self.config.agent.on_exit == OnExit::Keep {
            writeln!(
                f,
                "when `wad run` ends, all of it stays until the next start or `wad cleanup`"
            )?;
        }
        host::changes(self.config).iter().try_for_each(|change| writeln!(f, "{change}"))?;
        guards::write(f, self.config)?;
        let sinks = self.config.sinks.iter();
        let sinks: Vec<_> =
            sinks.map(|sink| format!("{} ({})", sink.name, sink.kind.name())).collect();
        if !sinks.is_empty() {
            writeln!(f, "`wad run` tells events to {}", sinks.join(", "))?;
        }
        if let Some(probe) = &self.config.probe {
            writeln!(f, "{}", probe_note(probe))?;
        }
        for Trace { name, file, max_bytes, keep, .. } in &self.config.traces {
            let (file, size) = (file.display(), Bytes(*max_bytes));
            writeln!(f, "`wad run` writes trace {name} to {file}, {keep} of {size} at most")?;
        }
        if let Some(Otlp { url, interval, .. }) = &self.config.otlp {
            let seconds = interval.as_secs_f64();
            writeln!(f, "`wad run` exports metrics to {url}, by OTLP, each {seconds} s")?;
        }
        if let Some(page) = &self.config.page {
            writeln!(f, "`wad run` has a page for browsers at {}", page.listen)?;
        }
        derived::write(f, &self.config.derived)?;
        for set in self.sets.iter().take(SHOWN) {
            writeln!(f, "{set}")?;
        }
        write_more(f, self.sets.len())?;
        let notes = self.notes();
        for note in notes.iter().take(SHOWN) {
            writeln!(f, "{note}")?;
        }
        write_more(f, notes.len())?;
        if !self.fragments.is_empty() {
            lists::write(f, "read beside it", &self.fragments)?;
        }
        let s = if paths.len() == 1 { "" } else { "s" };
        writeln!(f, "{}: {} path{s}, no error", self.file.display(), paths.len())
    }
}

impl Page<'_> {
    /// Returns what is to be known of paths beside what they get.
    fn notes(&self) -> Vec<String> {
        let is_routed = self.config.host.routes;
        let learn = self.config.learn;
        let learned = learn.map(|Learn { max_paths }| {
            format!("`wad run` learns up to {max_paths} paths, from connections on none of these")
        });
        let of = |path: &PathPolicy| {
            [
                note(path),
                choice_note(path),
                learn.and_then(|_| learn_note(path)),
                self.there.cgroup_note(path),
                self.there.pods_note(path),
                self.there.interface_note(path),
                cut_note(path),
                host::reorder_note(path, is_routed),
                host::ecn_note(path, is_routed),
                host::port_note(path, is_routed),
            ]
        };
        let kubernetes = kubernetes_note(&self.config.kubernetes);
        kubernetes
            .into_iter()
            .chain(learned)
            .chain(self.files.iter().cloned())
            .chain(self.config.paths.iter().flat_map(of).flatten())
            .collect()
    }

    /// The kernel's congestion controls that are not there yet.
    fn loaded_at_start(&self) -> Vec<String> {
        kernel_modules::missing(&self.config.paths, self.host)
    }
}

/// The titles of the columns: which flows, the fields that have one, and the share.
fn titles() -> impl Iterator<Item = &'static str> {
    let fields = fields::checked().iter().filter_map(|(_, checked)| checked.title);
    ["PATH", "REMOTE"].into_iter().chain(fields).chain(["SHARE"])
}

fn row(path: &PathPolicy) -> Vec<String> {
    let dash = || "-".to_owned();
    let remote = match path.remote.as_slice() {
        [] => dash(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} +{}", rest.len()),
    };
    let share = path.shares().map_or_else(dash, |share| shares::rounded(share.most()));
    let fields = fields::checked().iter().filter(|(_, checked)| checked.title.is_some());
    let cells = fields.map(|(_, checked)| (checked.text)(path).unwrap_or_else(dash));
    [path.name.clone(), remote].into_iter().chain(cells).chain([share]).collect()
}

/// Returns what a path gets beyond the columns, for the few that get it.
fn words(path: &PathPolicy) -> Vec<String> {
    let fields = fields::checked().iter().filter(|(_, checked)| checked.title.is_none());
    fields.filter_map(|(_, checked)| (checked.text)(path)).collect()
}

fn note(path: &PathPolicy) -> Option<String> {
    let wide = path.remote.iter().find(|net| net.addr().is_ipv6() && covers_ipv4(**net))?;
    Some(format!(
        "path {}: {wide} also covers IPv4, whose addresses are looked up as IPv6",
        path.name
    ))
}

/// Returns a note of what the path would rather have.
fn choice_note(path: &PathPolicy) -> Option<String> {
    let words = path.origin.passed_over_words()?;
    Some(format!("path {}: {words}", path.name))
}

/// Returns a line of the configuration as it stands in a sentence, behind what it is about.
fn place(line: Option<(String, usize)>) -> String {
    line.map(|(file, line)| format!(" ({file}:{line})")).unwrap_or_default()
}

/// Returns a note of buffers that are smaller than the path asks for.
fn cut_note(path: &PathPolicy) -> Option<String> {
    let CutBuffers { sndbuf, rcvbuf, autotune } = path.origin.cut;
    let all = [("sndbuf", sndbuf), ("rcvbuf", rcvbuf), ("buffers", autotune)];
    let said: Vec<_> = all
        .into_iter()
        .filter_map(|(key, cut)| {
            let Cut { from_bytes, to: Most { bytes, by } } = cut?;
            Some(format!("{by} cuts {key} from {from_bytes} to {bytes} bytes"))
        })
        .collect();
    (!said.is_empty()).then(|| format!("path {}: {}", path.name, said.join(", ")))
}

/// Returns a note of where pods are learned from, if that is not the usual.
fn kubernetes_note(settings: &KubernetesSettings) -> Option<String> {
    if *settings == KubernetesSettings::default() {
        return None;
    }
    let KubernetesSettings { kubelet_socket, api_server, node, .. } = settings;
    let server = api_server.as_ref().map_or_else(String::new, |url| format!(" {url}"));
    let node = node.as_ref().map_or("this node", |node| node);
    let socket = kubelet_socket.display();
    Some(format!(
        "`wad run` learns the pods of {node} from the API server{server}, or else from the kubelet, \
         at {socket}"
    ))
}

/// Returns a note of what is measured, and who is answered.
fn probe_note(probe: &Probe) -> String {
    let tasks = probe.tasks.len();
    let (s, per_day) = (if tasks == 1 { "" } else { "s" }, Bytes(probe.bytes_per_day()));
    let measures = match tasks {
        0 => "`wad run` measures no path itself".to_owned(),
        _ => format!("`wad run` measures by {tasks} task{s}, at most {per_day} a day"),
    };
    match &probe.answer {
        None => measures,
        Some(answer) => format!("{measures}, and answers others' probes at {}", answer.address),
    }
}

/// Returns a note of what a path keeps from being learned.
fn learn_note(path: &PathPolicy) -> Option<String> {
    path.is_conditional().then(|| {
        format!(
            "path {}: nothing is learned for its addresses, and so nothing for connections that \
             its other conditions leave out",
            path.name
        )
    })
}

fn write_more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(f, "and {more} more; --json has them all"),
    }
}
