//! Fields that a path has from elsewhere: those of the path that it names with `inherit`,
//! and those of `[defaults]`; its own come first. And the bound of its buffers, `[limits]
//! max_buffer`. Which flows a path is for, and the consent to more than a fair share, are
//! always its own.

use std::collections::{HashMap, HashSet};

use toml::de::{DeTable, DeValue};

use super::{
    buffers,
    cut::Most,
    fault::{Fault, Problems, quoted},
    fields,
    keys::{Key, key},
    limits, path,
    sections::sections,
    table::{self, Layer, Located, Table},
    texts::Texts,
};

pub const DEFAULTS: &str = "defaults";
pub const INHERIT: &str = "inherit";

/// The table that is read here of a part of a file, beside those of paths.
const LIMITS: &[Key] = &[key(limits::TABLE)];

/// Most paths that others inherit from: they are kept while all are read.
const MOST_PARENTS: usize = 1_000;

/// Tables that paths have fields from, and what bounds them all.
#[derive(Default)]
pub struct Shared<'t> {
    /// The table, and where its section begins.
    defaults: Option<(usize, DeTable<'t>)>,
    parents: HashMap<String, (usize, DeTable<'t>)>,
    /// There are more parents than are kept.
    is_full: bool,
    /// `[limits] max_buffer`.
    pub max_buffer_bytes: Option<u32>,
}

impl<'t> Shared<'t> {
    /// Finds them before any path is read: they may stand behind those that have fields from
    /// them, in another file. What is wrong with tables is said when the texts are read.
    pub fn find(texts: &'t Texts, problems: &mut Problems) -> Self {
        let mut shared = Self::default();
        let mut names = HashSet::new();
        let all = || sections(texts).map_while(Result::ok);
        // What is written with escapes may be one of these words.
        let words = [DEFAULTS, INHERIT, limits::MAX_BUFFER, "\\"];
        let concerns = |text: &str| words.iter().any(|word| text.contains(word));
        for section in all().filter(|section| concerns(section.text)) {
            let Ok(root) = DeTable::parse(section.text) else { continue };
            let defaults = root.get_ref().get(DEFAULTS).and_then(|it| it.get_ref().as_table());
            if let Some(defaults) = defaults {
                shared.defaults.get_or_insert_with(|| (section.base_bytes, defaults.clone()));
            }
            let limits = Table::open(&root, LIMITS, section.base_bytes, &mut Problems::default());
            let most = limits::read_max_buffer(&limits, problems);
            shared.max_buffer_bytes = shared.max_buffer_bytes.or(most);
            for parent in paths(root.get_ref()).filter_map(|path| text(path, INHERIT)) {
                if names.len() < MOST_PARENTS {
                    names.insert(parent.to_owned());
                } else {
                    shared.is_full |= !names.contains(parent);
                }
            }
        }
        if names.is_empty() {
            return shared;
        }
        for section in all() {
            let Ok(root) = DeTable::parse(section.text) else { continue };
            for path in paths(root.get_ref()) {
                if let Some(name) = text(path, "name").filter(|name| names.contains(*name)) {
                    let kept = || (section.base_bytes, path.clone());
                    shared.parents.entry(name.to_owned()).or_insert_with(kept);
                }
            }
        }
        shared
    }

    /// Returns the bound of the buffers of all paths.
    pub fn most(&self) -> Most {
        buffers::most(self.max_buffer_bytes)
    }

    /// Returns the table of a path with all that it has from elsewhere.
    pub fn complete<'a>(&'a self, table: Table<'a>, problems: &mut Problems) -> Table<'a> {
        let mut layers = self.of_parents(&table, problems);
        let defaults = self.defaults.as_ref();
        layers.extend(defaults.map(|(base, entries)| Layer { entries, base_bytes: *base }));
        table.over(layers, fields::is_own)
    }

    /// Returns the paths that a path inherits from, the nearest first.
    fn of_parents<'a>(&'a self, table: &Table<'a>, problems: &mut Problems) -> Vec<Layer<'a>> {
        let mut layers = Vec::new();
        if !table.has(INHERIT) {
            return layers;
        }
        let read = |value: &DeValue<'_>| path::parse_name(table::text(value)?);
        let own = table.read("name", &mut Problems::default(), read).map(|name| name.value);
        let mut seen: HashSet<String> = own.into_iter().collect();
        let mut next = table.read(INHERIT, problems, read);
        while let Some(Located { value: name, at }) = next {
            let fault =
                |title: String, label: &str| Fault::new(format!("`{INHERIT}`: {title}"), label);
            let Some((base_bytes, entries)) = self.parents.get(&name) else {
                let problem = if !self.is_full {
                    fault(format!("no path is called {}", quoted(&name)), "not in any file")
                        .help("name the [[path]] whose fields this one is to have as well")
                } else {
                    let title = format!("more than {MOST_PARENTS} paths are inherited from");
                    fault(title, "one too many").help("use [defaults]")
                };
                problems.push(problem.at(at));
                break;
            };
            if seen.contains(&name) {
                let title = "paths inherit from each other in a circle".to_owned();
                let label = format!("it comes back to {}", quoted(&name));
                let fault = fault(title, &label).help("leave it out where the circle is to end");
                problems.push(fault.at(at));
                break;
            }
            seen.insert(name);
            layers.push(Layer { entries, base_bytes: *base_bytes });
            let parent = text(entries, INHERIT);
            next = parent.map(|parent| Located { value: parent.to_owned(), at });
        }
        layers
    }
}

/// Reports what no path can have from `[defaults]`.
pub fn check_defaults(table: &Table<'_>, problems: &mut Problems) {
    for field in fields::all().filter(|field| fields::is_own(field.key)) {
        if let Some(at) = table.place(field.key) {
            let title = format!("`{}` in [{DEFAULTS}]", field.key);
            let fault = Fault::new(title, "each path has its own");
            problems.push(fault.help("write it in every [[path]] that it is meant for").at(at));
        }
    }
}

fn paths<'a, 't>(root: &'a DeTable<'t>) -> impl Iterator<Item = &'a DeTable<'t>> {
    let paths = root.get(path::TABLE).and_then(|paths| paths.get_ref().as_array());
    paths.into_iter().flatten().filter_map(|path| path.get_ref().as_table())
}

fn text<'a>(table: &'a DeTable<'_>, key: &str) -> Option<&'a str> {
    table.get(key)?.get_ref().as_str()
}
