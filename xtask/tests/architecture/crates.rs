//! The crates of the repository, as cargo knows them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use crate::files;

/// A crate of the repository.
pub struct Crate {
    pub name: String,
    pub manifest: PathBuf,
    /// The crates of ours that it depends on, for its tests and its build script too.
    pub depends_on: BTreeSet<String>,
    /// Files that cargo builds something from, each the first of a tree of modules.
    pub roots: BTreeSet<PathBuf>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    /// The package's own name, whatever the manifest calls it.
    name: String,
    /// The folder, where it is not from a registry.
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

/// Reads the crates of the workspace in this folder. What a path leads to is among
/// them, whether or not it is listed.
pub fn read(root: &Path) -> Vec<Crate> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("cargo's metadata");

    let names: BTreeSet<_> = metadata.packages.iter().map(|own| own.name.clone()).collect();
    let is_ours = |other: &Dependency| other.path.is_some() || names.contains(&other.name);
    let packages = metadata.packages.into_iter();
    let crates = packages.map(|own| Crate {
        name: own.name,
        manifest: own.manifest_path,
        depends_on: own.dependencies.into_iter().filter(is_ours).map(|other| other.name).collect(),
        roots: own.targets.into_iter().map(|target| target.src_path).collect(),
    });
    crates.collect()
}

/// Finds manifests of the repository that are of none of these crates, and crates that are
/// made of another's files.
pub fn refused(root: &Path, crates: &[Crate]) -> Vec<String> {
    let of_workspace = root.join("Cargo.toml");
    let is_known = |file: &PathBuf| {
        *file == of_workspace || crates.iter().any(|known| known.manifest == *file)
    };
    let manifests = files::ending(root, "Cargo.toml");
    let tell = |file: &PathBuf| {
        format!("{}: not in the workspace: list it in its members", file.display())
    };
    let mut refused: Vec<_> = manifests.iter().filter(|file| !is_known(file)).map(tell).collect();
    for own in crates {
        let is_of_another = |start: &&PathBuf| {
            let above = start.ancestors().skip(1).map(|folder| folder.join("Cargo.toml"));
            above.into_iter().find(|file| file.is_file()).as_ref() != Some(&own.manifest)
        };
        refused.extend(own.roots.iter().filter(is_of_another).map(|start| {
            let file = start.display();
            format!("{}: builds {file}, which is another's: depend on that crate", own.name)
        }));
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"low\"]\n";

    #[test]
    fn all_that_cargo_builds_is_found() {
        let manifest = "package = { name = \"low\", edition = \"2024\" }\n\
                        [[bin]]\nname = \"far\"\npath = \"targets/far.rs\"\nrequired-features = [\"x\"]\n\
                        [features]\nx = []\n";
        let files = [
            ("Cargo.toml", WORKSPACE),
            ("low/Cargo.toml", manifest),
            ("low/src/lib.rs", ""),
            ("low/src/bin/one.rs", ""),
            ("low/targets/far.rs", ""),
            ("low/examples/shown.rs", ""),
            ("low/tests/outside.rs", ""),
            ("low/benches/slow.rs", ""),
            ("low/build.rs", ""),
        ];
        let folder = files::folder(&files);
        let found = read(folder.path());
        let expected: BTreeSet<_> =
            files[2..].iter().map(|(file, _)| folder.path().join(file)).collect();
        assert_eq!(found[0].roots, expected);
    }

    #[test]
    fn a_crate_goes_by_its_own_name_and_need_not_be_listed() {
        let manifest = "package = { name = \"low\" }\n\
                        [target.'cfg(windows)'.build-dependencies]\n\
                        innocent = { package = \"high\", path = \"../high\" }\n";
        let folder = files::folder(&[
            ("Cargo.toml", WORKSPACE),
            ("low/Cargo.toml", manifest),
            ("low/src/lib.rs", ""),
            ("high/Cargo.toml", "package = { name = \"high\" }\n"),
            ("high/src/lib.rs", ""),
        ]);
        let found = read(folder.path());
        let low = found.iter().find(|own| own.name == "low").expect("listed");
        assert_eq!(low.depends_on, BTreeSet::from(["high".to_owned()]));
        assert!(found.iter().any(|own| own.name == "high"));
    }

    #[test]
    fn a_crate_of_a_workspace_of_its_own_is_told() {
        let folder = files::folder(&[
            ("Cargo.toml", WORKSPACE),
            ("low/Cargo.toml", "package = { name = \"low\" }\n"),
            ("low/src/lib.rs", ""),
            ("apart/Cargo.toml", "package = { name = \"apart\" }\nworkspace = {}\n"),
        ]);
        let [found] = &refused(folder.path(), &read(folder.path()))[..] else { panic!("one is") };
        assert!(found.contains("apart/Cargo.toml: not in the workspace"), "{found}");
    }

    #[test]
    fn a_crate_that_is_made_of_anothers_files_is_told() {
        let manifest = "package = { name = \"low\" }\n\
                        [[bin]]\nname = \"taken\"\npath = \"../high/src/lib.rs\"\n";
        let folder = files::folder(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"low\", \"high\"]\n"),
            ("low/Cargo.toml", manifest),
            ("low/src/lib.rs", ""),
            ("high/Cargo.toml", "package = { name = \"high\" }\n"),
            ("high/src/lib.rs", ""),
        ]);
        let [found] = &refused(folder.path(), &read(folder.path()))[..] else { panic!("one is") };
        assert!(found.starts_with("low: builds ") && found.contains("another's"), "{found}");
    }
}
