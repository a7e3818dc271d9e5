//! The crates of a binary, as cargo resolves them for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::exec;

/// A crate's name and version, of which there is only one of a kind.
pub type Key = (String, String);

/// One crate.
pub struct Crate {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: String,
    pub repository: Option<String>,
    /// Where its files are.
    pub folder: PathBuf,
    /// The digest of its package, in hexadecimal figures; crates of this repository have
    /// none.
    pub sha256: Option<String>,
    /// The crates that it is made with.
    pub uses: BTreeSet<Key>,
}

impl Crate {
    pub fn key(&self) -> Key {
        (self.name.clone(), self.version.clone())
    }

    /// Tells whether it is a crate of this repository.
    pub fn is_own(&self) -> bool {
        self.folder.starts_with(exec::root())
    }
}

/// The BPF programs are in the binary, too, by way of the crate that embeds them.
const EMBEDS: (&str, &str) = ("wad-tuning", "wad-ebpf");

/// Returns the crates of the `wad` for a target, its own one first.
pub fn of(target: &str) -> Result<Vec<Crate>> {
    let program = tree(&["--package", "wad", "--target", target])?;
    let bpf =
        tree(&["--package", EMBEDS.1, "--features", "programs", "--target", "bpfel-unknown-none"])?;
    let mut uses = parse(&program)?;
    for (key, more) in parse(&bpf)? {
        uses.entry(key).or_default().extend(more);
    }
    let embedded = uses.keys().find(|key| key.0 == EMBEDS.1).cloned();
    let embedded = embedded.context("the BPF programs have no crate")?;
    let embedding = uses.iter_mut().find(|(key, _)| key.0 == EMBEDS.0);
    embedding.context("no crate embeds the BPF programs")?.1.insert(embedded);

    let packages = packages()?;
    let mut crates: Vec<Crate> = Vec::new();
    for (key, uses) in uses {
        let package = packages.get(&key);
        let package = package.with_context(|| format!("{} {} is unknown", key.0, key.1))?;
        crates.push(package.found(uses)?);
    }
    crates.sort_by_key(|found| (found.name != "wad", found.key()));
    ensure!(crates.first().is_some_and(|first| first.name == "wad"), "wad itself is missing");
    Ok(crates)
}

/// Returns the only crate of that name that anything here is made with.
pub fn named(name: &str) -> Result<Crate> {
    let packages = packages()?;
    let mut of_name = packages.values().filter(|package| package.name == name);
    match (of_name.next(), of_name.next()) {
        (Some(package), None) => package.found(BTreeSet::new()),
        (_, several) => anyhow::bail!("{name}: {}", if several.is_some() { "two" } else { "none" }),
    }
}

/// Returns the version of the compiler in use.
pub fn compiler() -> Result<String> {
    let printed = exec::output(Command::new("rustc").current_dir(exec::root()).arg("--version"));
    let printed = printed.context("rustc does not say its version")?;
    Ok(printed.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// Returns what `cargo tree` prints: a line for each use, indented by a number.
fn tree(arguments: &[&str]) -> Result<String> {
    let mut command = exec::cargo(["tree", "--locked", "--edges", "normal,no-proc-macro"]);
    command.args(["--prefix", "depth", "--format", " {p}"]).args(arguments);
    exec::output(&mut command).with_context(|| format!("cargo tree {} fails", arguments.join(" ")))
}

/// Returns who uses whom.
fn parse(tree: &str) -> Result<BTreeMap<Key, BTreeSet<Key>>> {
    let mut uses: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
    let mut above: Vec<Key> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let mut word = || words.next().with_context(|| format!("cargo tree prints {line:?}"));
        let (depth, name, version) = (word()?.parse::<usize>()?, word()?, word()?);
        let key = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth);
        if let Some(parent) = above.last() {
            uses.entry(parent.clone()).or_default().insert(key.clone());
        }
        uses.entry(key.clone()).or_default();
        above.push(key);
    }
    Ok(uses)
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
    #[serde(skip)]
    checksum: Option<String>,
}

impl Package {
    fn found(&self, uses: BTreeSet<Key>) -> Result<Crate> {
        let Self { name, version, license, repository, manifest_path, checksum } = self;
        let licence = license.as_ref().with_context(|| format!("{name}: has no licence"))?;
        Ok(Crate {
            name: name.clone(),
            version: version.clone(),
            // Before SPDX expressions a slash stood for "or".
            licence: licence.replace('/', " OR "),
            repository: repository.clone(),
            folder: manifest_path.parent().context("a manifest is in a folder")?.to_owned(),
            sha256: checksum.clone(),
            uses,
        })
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Returns all that anything in the repository is made with.
fn packages() -> Result<BTreeMap<Key, Package>> {
    let metadata = exec::output(&mut exec::cargo(["metadata", "--format-version=1", "--locked"]));
    let metadata: Metadata = serde_json::from_str(&metadata.context("cargo metadata fails")?)?;
    let lock = exec::root().join("Cargo.lock");
    let text = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
    let lock: Lock = toml::from_str(&text).with_context(|| lock.display().to_string())?;
    let mut checksums: BTreeMap<Key, Option<String>> = lock
        .package
        .into_iter()
        .map(|locked| ((locked.name, locked.version), locked.checksum))
        .collect();
    let packages = metadata.packages.into_iter().map(|mut package| {
        let key = (package.name.clone(), package.version.clone());
        package.checksum = checksums.remove(&key).flatten();
        (key, package)
    });
    Ok(packages.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        (name.to_owned(), "1.0.0".to_owned())
    }

    #[test]
    fn uses_are_read_by_their_depth() {
        let uses = parse("0 a v1.0.0 (/a)\n1 b v1.0.0\n2 c v1.0.0\n1 d v1.0.0\n2 c v1.0.0 (*)\n");
        let uses = uses.unwrap();
        assert_eq!(uses[&key("a")], [key("b"), key("d")].into());
        assert_eq!(uses[&key("b")], [key("c")].into());
        assert_eq!(uses[&key("d")], [key("c")].into());
        assert!(uses[&key("c")].is_empty());
        parse("no depth\n").unwrap_err();
    }

    #[test]
    fn the_binary_is_made_of_its_crates_alone() {
        let crates = of("x86_64-unknown-linux-musl").unwrap();
        let has = |name: &str| crates.iter().any(|found| found.name == name);
        assert!(has("tokio") && has("aya-ebpf") && has("wad-common"));
        // A procedural macro, a crate of the tests, one of a build script.
        assert!(!has("serde_derive") && !has("proptest") && !has("wad-toolchain"));
        for found in &crates {
            assert_eq!(found.sha256.is_none(), found.is_own(), "{}", found.name);
        }
    }
}
