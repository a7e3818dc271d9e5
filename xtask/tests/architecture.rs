//! The layers hold: no crate depends on one above it, and within a crate no files go in
//! a circle. ARCHITECTURE.md says what each layer is for.
//!
//! A module may use what lies below it in its own folder, and children may use their
//! parent: so among the modules of one folder, each taken with all that lies below it,
//! there must be an order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Item, ItemMod, Meta, UseTree,
    visit::{self, Visit},
};

/// The crates, lowest first: each may depend on those before it alone.
const LAYERS: [&str; 19] = [
    "wad-toolchain",
    "wad-common",
    "wad-struct-ops",
    "wad-toolbox",
    "wad-http",
    "wad-instruments",
    "wad-linux",
    "wad-policy",
    "wad-tuning",
    "wad-observing",
    "wad-agent",
    "wad-commands",
    "wad",
    "wad-testbed",
    "wad-lab",
    "wad-e2e-attribute",
    "wad-e2e",
    "wad-fuzz",
    "xtask",
];

/// These crates may depend on the ones of ours beside their names alone, wherever they
/// stand.
const ALONE: [(&str, &[&str]); 8] = [
    // It could be offered to aya.
    ("wad-struct-ops", &[]),
    ("wad-toolchain", &[]),
    ("wad-common", &[]),
    ("xtask", &["wad-toolchain"]),
    // Tests of the whole look at it from outside.
    ("wad-testbed", &[]),
    ("wad-e2e-attribute", &[]),
    ("wad-lab", &["wad-common", "wad-testbed"]),
    ("wad-e2e", &["wad-common", "wad-testbed", "wad-lab", "wad-e2e-attribute"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in the repository")
}

/// A crate of the repository.
struct Crate {
    name: String,
    folder: PathBuf,
    /// The crates of ours that it depends on, for its tests too.
    depends_on: BTreeSet<String>,
}

/// Finds all crates by their manifests.
fn crates() -> Vec<Crate> {
    let workspace = toml(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("a list");
    let folders = members.iter().map(|member| root().join(member.as_str().expect("a folder")));
    let mut all: Vec<_> = folders.map(read_crate).collect();
    let ours: BTreeSet<_> = all.iter().map(|own| own.name.clone()).collect();
    for own in &mut all {
        own.depends_on.retain(|name| ours.contains(name));
    }
    all
}

fn read_crate(folder: PathBuf) -> Crate {
    let manifest = toml(&folder.join("Cargo.toml"));
    let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets =
        targets.into_iter().flat_map(|all| all.values().filter_map(toml::Value::as_table));
    let places = of_targets.chain([&manifest]);
    let tables =
        places.flat_map(|place| kinds.iter().filter_map(|kind| place.get(*kind)?.as_table()));
    let depends_on = tables.flat_map(|table| table.keys().cloned()).collect();
    Crate { name, folder, depends_on }
}

fn toml(file: &Path) -> toml::Table {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn no_crate_depends_on_one_above_it() {
    let mut wrong = Vec::new();
    for Crate { name, depends_on, .. } in crates() {
        // The BPF programs are for the kernel: nothing depends on them.
        if name == "wad-ebpf" {
            assert_eq!(depends_on, BTreeSet::from(["wad-common".to_owned()]));
            continue;
        }
        let place = |name: &str| LAYERS.iter().position(|layer| *layer == name);
        let own = place(&name).unwrap_or_else(|| panic!("{name} is not among the layers"));
        let alone = ALONE.iter().find(|(known, _)| *known == name).map(|(_, allowed)| *allowed);
        for other in depends_on {
            let is_below = place(&other).is_some_and(|other| other < own);
            if !is_below || alone.is_some_and(|allowed| !allowed.contains(&other.as_str())) {
                wrong.push(format!("{name} depends on {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "upward:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_of_a_crate_go_in_a_circle() {
    let mut circles = Vec::new();
    let mut files = 0;
    for own in crates() {
        for start in ["src/lib.rs", "src/main.rs"].map(|file| own.folder.join(file)) {
            if !start.is_file() {
                continue;
            }
            let tree = Tree::read(&start);
            files += tree.modules.len();
            circles
                .extend(tree.circles().into_iter().map(|circle| format!("{}: {circle}", own.name)));
        }
    }
    assert!(files > 300, "{files} files: were they found?");
    assert!(circles.is_empty(), "{} circles:\n{}", circles.len(), circles.join("\n"));
}

/// A module by the names that lead to it from its crate.
type Name = Vec<String>;

/// The modules of a crate that have a file of their own, and which others each names.
#[derive(Default)]
struct Tree {
    modules: BTreeMap<Name, Vec<Name>>,
}

impl Tree {
    fn read(start: &Path) -> Self {
        let mut tree = Self::default();
        tree.add(Vec::new(), start, start.parent().expect("a file"));
        tree
    }

    /// Adds the module of a file, and those below it, whose files are in this folder.
    fn add(&mut self, name: Name, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).expect("a source");
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut seen = Seen { module: name.clone(), named: Vec::new() };
        seen.visit_file(&parsed);
        self.modules.insert(name.clone(), seen.named);
        for item in parsed.items {
            let Item::Mod(ItemMod { ident, content: None, attrs, .. }) = item else { continue };
            if attrs.iter().any(is_for_tests) {
                continue;
            }
            let below = folder.join(ident.to_string());
            let file = [below.with_extension("rs"), below.join("mod.rs")];
            let Some(file) = file.iter().find(|file| file.is_file()) else { continue };
            let mut child = name.clone();
            child.push(ident.to_string());
            self.add(child, file, &below);
        }
    }

    /// Finds circles among the modules of each folder.
    fn circles(&self) -> Vec<String> {
        let mut circles = Vec::new();
        for parent in self.modules.keys() {
            let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (module, named) in &self.modules {
                let Some(from) = child(parent, module) else { continue };
                for path in named {
                    // What is no file is an item of the module that it stands in.
                    if let Some(to) = child(parent, path)
                        && to != from
                        && self.modules.contains_key(&path[..=parent.len()])
                    {
                        edges.entry(from).or_default().insert(to);
                    }
                }
            }
            circles.extend(circle(&edges).map(|names| {
                let folder = if parent.is_empty() { "crate".to_owned() } else { parent.join("::") };
                format!("{folder}: {}", names.join(" > "))
            }));
        }
        circles
    }
}

/// Returns the module right below the parent by which another is reached.
fn child<'m>(parent: &[String], module: &'m [String]) -> Option<&'m str> {
    (module.len() > parent.len() && module.starts_with(parent))
        .then(|| module[parent.len()].as_str())
}

/// Returns one circle, if there is any: what is left when all that ends somewhere is
/// taken away.
fn circle<'m>(edges: &BTreeMap<&'m str, BTreeSet<&'m str>>) -> Option<Vec<&'m str>> {
    let mut left = edges.clone();
    loop {
        let names: BTreeSet<_> = left.keys().copied().collect();
        for to in left.values_mut() {
            to.retain(|name| names.contains(name));
        }
        let before = left.len();
        left.retain(|_, to| !to.is_empty());
        if left.len() == before {
            break;
        }
    }
    let mut path = vec![*left.keys().next()?];
    loop {
        let next = left[path.last()?].iter().next().copied()?;
        if let Some(begin) = path.iter().position(|name| *name == next) {
            path.push(next);
            return Some(path.split_off(begin));
        }
        path.push(next);
    }
}

/// Holds which paths of its own crate a file names.
struct Seen {
    module: Name,
    named: Vec<Name>,
}

impl Seen {
    fn note(&mut self, segments: &[String]) {
        let Some(first) = segments.first() else { return };
        let mut path = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => {
                let mut above = self.module.clone();
                above.pop();
                above
            }
            _ => return,
        };
        for segment in &segments[1..] {
            match segment.as_str() {
                "super" => drop(path.pop()),
                "self" => {}
                name => path.push(name.to_owned()),
            }
        }
        self.named.push(path);
    }

    fn note_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.note_tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.note(&with(name.ident.to_string())),
            UseTree::Rename(rename) => self.note(&with(rename.ident.to_string())),
            UseTree::Glob(_) => self.note(before),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.note_tree(before, tree));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Seen {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }

    /// A macro takes no syntax tree but tokens: its paths are found by their text.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let text = item.tokens.to_string().replace(" ::", "::").replace(":: ", "::");
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let segments: Vec<_> = word.split("::").map(str::to_owned).collect();
            if segments.len() > 1 {
                self.note(&segments);
            }
        }
    }

    /// Tests may look at more; a module within the file is a level deeper.
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_none() || item.attrs.iter().any(is_for_tests) {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }
}

/// Tells whether an item is there in tests only, or for those of other crates.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let tokens = list.tokens.to_string();
    list.path.is_ident("cfg") && (tokens == "test" || tokens.starts_with("any (test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().expect("in the folder")).expect("writable");
            fs::write(file, text).expect("writable");
        }
        Tree::read(&folder.path().join("lib.rs")).circles()
    }

    #[test]
    fn a_circle_of_two_files_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() { crate::a::g() }"),
        ];
        assert_eq!(tree(&files), ["crate: a > b > a"]);
    }

    #[test]
    fn a_circle_through_what_lies_below_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod deep; pub use self::deep::Deep;"),
            ("a/deep.rs", "use crate::b::B;"),
            ("b.rs", "use super::a::Deep;"),
        ];
        assert_eq!(tree(&files), ["crate: a > b > a"]);
    }

    #[test]
    fn a_circle_through_what_a_macro_takes_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() { println!(\"{}\", super::a::MOST) }"),
        ];
        assert_eq!(tree(&files), ["crate: a > b > a"]);
    }

    #[test]
    fn parent_and_child_may_use_each_other_and_tests_anything() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod child; use self::child::C; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("a/child.rs", "use super::Parent;"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(tree(&files), [""; 0]);
    }
}
