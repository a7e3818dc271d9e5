//! An inventory lists all that an agent may change on a host: settings, routes, rules, queues and
//! links of the network namespaces, what is pinned, its objects of BPF, and its files.

use std::{
    collections::BTreeMap,
    fmt, fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use wad_testbed::{bpf, mutex::locked, netns::Netns, process::run, wad::Home};

use crate::traced::Objects;

/// Lines, each with how often it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory(BTreeMap<String, usize>);

/// Lines of files that outlive tuning by intent, as what sets hold, begin so.
const KEPT: &str = "state/";
/// Settings of the whole host, which others may change meanwhile.
const OF_HOST: [&str; 4] =
    ["core/rmem_max", "core/wmem_max", "core/netdev_max_backlog", "netfilter/nf_conntrack_count"];
/// Lists of all congestion controls of the host, those of other agents among them.
const LISTS: [&str; 2] =
    ["ipv4/tcp_available_congestion_control", "ipv4/tcp_allowed_congestion_control"];

/// `ip` is asked this, of each family.
const QUESTIONS: &str = "link show\nrule show\nroute show table all\n";

impl Inventory {
    /// Takes the inventory of these network namespaces, of an agent's home, and of the objects
    /// that its processes have made.
    pub fn take(
        namespaces: [&Netns; 2],
        cgroup: &Path,
        home: &Home,
        objects: &Objects,
    ) -> Result<Self> {
        let (mut all, suffix) = (Self::default(), home.suffix());
        let questions = home.folder().join("questions");
        if !questions.exists() {
            fs::write(&questions, QUESTIONS)?;
        }
        for (netns, side) in namespaces.into_iter().zip(["a", "b"]) {
            netns.run(|| all.add_settings(side, &suffix))??;
            all.add_network(netns, side, &questions)?;
        }
        all.add_pins(home)?;
        all.add_objects(objects, &suffix)?;
        all.add_attached(cgroup)?;
        all.add_files(home)?;
        Ok(all)
    }

    /// Says what differs from what is expected: what is missing, and what is too much.
    pub fn difference(&self, expected: &Self) -> Difference {
        let beyond = |a: &Self, b: &Self| -> Vec<String> {
            let more = a.0.iter().filter(|(line, count)| b.0.get(*line).unwrap_or(&0) < count);
            more.map(|(line, count)| format!("{line} ({count})")).collect()
        };
        Difference { missing: beyond(expected, self), more: beyond(self, expected) }
    }

    /// Returns it without the constants of programs: laws that were loaded together share them,
    /// others have their own.
    pub fn without_constants(mut self) -> Self {
        self.0.retain(|line, _| line != "Map .rodata");
        self
    }

    /// Returns what is left where all of tuning is gone: without the files that stay.
    pub fn without_kept(&self) -> Self {
        let lines = self.0.iter().filter(|(line, _)| !line.starts_with(KEPT));
        Self(lines.map(|(line, count)| (line.clone(), *count)).collect())
    }

    /// Returns the files that stay and are not among those of another inventory.
    pub fn kept_beyond(&self, other: &Self) -> Vec<String> {
        let lines = self.0.keys().filter(|line| line.starts_with(KEPT));
        lines.filter(|line| !other.0.contains_key(*line)).cloned().collect()
    }

    fn add(&mut self, line: String) {
        *self.0.entry(line).or_default() += 1;
    }

    /// Adds all settings of the calling thread's network namespace.
    fn add_settings(&mut self, side: &str, suffix: &str) -> Result<()> {
        let root = Path::new("/proc/sys/net");
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                // Some can only be written to.
                let Ok(value) = fs::read_to_string(&path) else { continue };
                if OF_HOST.contains(&name.as_str()) {
                    continue;
                }
                let mut words: Vec<_> = value.split_whitespace().collect();
                if LISTS.contains(&name.as_str()) {
                    words.retain(|word| word.starts_with("wad_") && word.ends_with(suffix));
                    words.iter_mut().for_each(|word| *word = without(word, suffix));
                    words.sort_unstable();
                }
                self.add(format!("{side} {name} = {}", words.join(" ")));
            }
        }
        Ok(())
    }

    fn add_network(&mut self, netns: &Netns, side: &str, questions: &Path) -> Result<()> {
        let questions = questions.to_string_lossy();
        let of = |family| netns.ip(&[family, "-details", "-batch", &questions]);
        let text = format!("{}\n{}", of("-4")?, of("-6")?);
        let is_volatile = |line: &&str| !line.trim_start().starts_with("link/");
        text.lines().filter(is_volatile).for_each(|line| self.add(format!("{side} {line}")));
        let queues = run("tc", &["-n", netns.name(), "qdisc", "show"])?;
        queues.lines().for_each(|line| self.add(format!("{side} {line}")));
        Ok(())
    }

    /// Adds what is pinned. Builds differ in the name of a folder, and the two policy sets take
    /// turns.
    fn add_pins(&mut self, home: &Home) -> Result<()> {
        let suffix = home.suffix();
        let lock = home.pins().with_file_name(format!("{}:lock", home.instance()));
        for (root, name) in [(home.pins(), "pins"), (lock, "lock")] {
            if root.exists() {
                self.add(format!("{name} {:o}", fs::metadata(&root)?.mode()));
                self.add_below(&root, name, &|path| match path.split_once('/') {
                    Some((_, pin)) if pin.starts_with("policies_") => "LAYOUT/policies".to_owned(),
                    Some((_, pin)) => format!("LAYOUT/{}", without(pin, &suffix)),
                    None => "LAYOUT".to_owned(),
                })?;
            }
        }
        Ok(())
    }

    fn add_below(&mut self, root: &Path, name: &str, shown: &dyn Fn(&str) -> String) -> Result<()> {
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let metadata = fs::symlink_metadata(&path)?;
                let below = shown(&path.strip_prefix(root)?.to_string_lossy());
                self.add(format!("{name}/{below} {:o}", metadata.mode()));
                if metadata.is_dir() {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }

    /// Adds the objects that are still in the kernel, by name, and forgets the others.
    fn add_objects(&mut self, objects: &Objects, suffix: &str) -> Result<()> {
        let mut objects = locked(objects);
        for object in objects.clone() {
            let (kind, id) = object;
            match bpf::name(kind, id).with_context(|| format!("{kind:?} {id}"))? {
                Some(name) => self.add(format!("{kind:?} {}", without(&name, suffix))),
                None => drop(objects.remove(&object)),
            }
        }
        Ok(())
    }

    fn add_attached(&mut self, cgroup: &Path) -> Result<()> {
        let shown = run("bpftool", &["--json", "cgroup", "show", &cgroup.to_string_lossy()])?;
        let all: serde_json::Value = serde_json::from_str(&shown).unwrap_or_default();
        for program in all.as_array().into_iter().flatten() {
            let (hook, name) = (&program["attach_type"], &program["name"]);
            self.add(format!("attached {hook} {name}"));
        }
        Ok(())
    }

    fn add_files(&mut self, home: &Home) -> Result<()> {
        let state = home.state();
        if state.exists() {
            self.add(format!("{KEPT} {:o}", fs::metadata(&state)?.mode()));
            self.add_below(&state, "state", &|path| path.replace(home.instance(), "INSTANCE"))?;
        }
        for entry in fs::read_dir("/run/wad").into_iter().flatten() {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix(&format!("{}.", home.instance())) else { continue };
            // Others' files come and go, but these.
            let metadata = entry.metadata()?;
            let kind = if metadata.file_type().is_socket() { "socket" } else { "file" };
            self.add(format!("run {kind} {rest} {:o}", metadata.mode()));
        }
        Ok(())
    }
}

/// Returns the name of a law without the instance's end.
fn without<'a>(name: &'a str, suffix: &str) -> &'a str {
    name.strip_suffix(suffix).filter(|law| law.starts_with("wad_")).unwrap_or(name)
}

/// An inventory lacks the one, and has the other beyond what is expected.
#[derive(Debug)]
pub struct Difference {
    missing: Vec<String>,
    more: Vec<String>,
}

impl Difference {
    /// Adds what is too much for another reason.
    pub fn with(mut self, more: Vec<String>) -> Self {
        self.more.extend(more);
        self
    }

    pub const fn is_none(&self) -> bool {
        self.missing.is_empty() && self.more.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 12;
        let lines = |sign: &'static str, lines: &'_ [String]| {
            lines.iter().take(MOST).map(|line| format!("\n    {sign} {line}")).collect::<String>()
        };
        write!(out, "{}{}", lines("missing:", &self.missing), lines("too much:", &self.more))
    }
}
