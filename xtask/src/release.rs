//! `cargo xtask release` makes all that is published of a version, in
//! `target/dist/wad-<version>`: tarballs, packages, the image, the chart, lists of what
//! is in the binaries, where all of it is from, and checksums. It is made twice, here and in
//! a clone, and has to be the same.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use wad_toolchain::BpfToolchain;

use crate::{
    again,
    bill::{self, Bill},
    chart, dist, exec, image, package,
    setup::{self, For},
    source::{Source, VERSION},
    tree::{Tree, gzip, sha256},
};

/// A release may be made in these ways.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Where the sources are.
    pub url: Option<&'a str>,
    /// No version is published: what is not yet one's in CHANGELOG.md is taken, without
    /// a tag.
    pub is_unreleased: bool,
    /// It is made once: this is the second time.
    pub once: bool,
}

/// Documents of a tarball, as they are in the repository.
const DOCUMENTS: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Configurations of a tarball, as they are in the repository.
const CONFIGURATIONS: [&str; 4] = [
    "config/grafana/wad.json",
    "config/prometheus/wad-rules.yaml",
    "config/systemd/wad.service",
    "config/wad.toml",
];

pub fn run(options: Options) -> Result<()> {
    setup::run(For::Shipping)?;
    let source = Source::read()?;
    let commit = commit(&source)?;
    if !options.is_unreleased {
        let tags = exec::output(Command::new("git").arg("-C").arg(exec::root()).args([
            "tag",
            "--points-at",
            "HEAD",
        ]));
        let tag = format!("v{VERSION}");
        ensure!(
            tags.is_some_and(|tags| tags.lines().any(|line| line == tag)),
            "the commit has no tag {tag}; `--unreleased` makes all without publishing"
        );
    }
    let section = if options.is_unreleased { "Unreleased" } else { VERSION };
    let path = exec::root().join("CHANGELOG.md");
    let changelog = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    has_changes(&changelog, section).with_context(|| path.display().to_string())?;

    let folder = exec::target().join(format!("dist/wad-{VERSION}"));
    let files = make(&folder, &source, commit, options.url)?;
    if !options.once {
        let mut arguments = vec!["release", "--once"];
        arguments.extend(options.is_unreleased.then_some("--unreleased"));
        arguments.extend(options.url.iter().flat_map(|url| ["--source", url]));
        again::compare(&arguments, &files)?;
    }
    println!("{}", folder.display());
    Ok(())
}

fn commit(source: &Source) -> Result<&str> {
    match &source.revision {
        Some(commit) if !commit.ends_with("-dirty") => Ok(commit),
        _ => bail!("a release is of a commit: there is none, or files differ from it"),
    }
}

/// Makes all files in a folder, and returns where they are.
fn make(folder: &Path, source: &Source, commit: &str, url: Option<&str>) -> Result<Vec<PathBuf>> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| folder.display().to_string());
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    // By their names.
    let mut digests = BTreeMap::new();
    let mut add = |name: String, bytes: &[u8]| {
        let path = folder.join(&name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        digests.insert(name, sha256(bytes));
        anyhow::Ok(path)
    };
    let mut files = Vec::new();
    let built = [image::build(&[], url)?, chart::pack(source)?].into_iter();
    for path in built.chain(package::build(&[])?.into_iter().map(|built| built.path)) {
        let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        files.push(add(name, &bytes)?);
    }
    let share = dist::share()?;
    for target in dist::targets(&[]) {
        let name = format!("wad-{VERSION}-{}", dist::arch(target));
        let wad = dist::ship(target)?;
        let wad = fs::read(&wad).with_context(|| wad.display().to_string())?;
        let bill = Bill::of(target)?;
        files.push(add(format!("{name}.cdx.json"), bill.sbom(source, &sha256(&wad))?.as_bytes())?);
        let tree = tarball(&name, wad, &bill, &share)?;
        files.push(add(format!("{name}.tar.gz"), &gzip(&tree.tar(source.seconds())?)?)?);
    }
    let statement = provenance(&digests, source, commit, url)?;
    files.push(add_last(folder, "provenance.intoto.json", &statement)?);
    digests.insert("provenance.intoto.json".to_owned(), sha256(statement.as_bytes()));
    let sums: String = digests.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    files.push(add_last(folder, "SHA256SUMS", &sums)?);
    Ok(files)
}

fn add_last(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Returns what a host without packages takes, in one folder.
fn tarball(name: &str, wad: Vec<u8>, bill: &Bill, share: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.program(&format!("{name}/wad"), wad);
    tree.file(&format!("{name}/THIRD-PARTY-NOTICES"), bill.notices()?);
    for file in DOCUMENTS.into_iter().chain(CONFIGURATIONS) {
        tree.copy(&format!("{name}/{file}"), &exec::root().join(file))?;
    }
    tree.copy_all(&format!("{name}/share"), share)?;
    Ok(tree)
}

/// Says where the files are from: an in-toto statement with SLSA provenance 1, for whoever
/// publishes them to sign.
fn provenance(
    digests: &BTreeMap<String, String>,
    source: &Source,
    commit: &str,
    url: Option<&str>,
) -> Result<String> {
    let subjects: Vec<_> = digests
        .iter()
        .map(|(name, digest)| json!({ "name": name, "digest": { "sha256": digest } }))
        .collect();
    let sources = url.map_or_else(|| "git+file:.".to_owned(), |url| format!("git+{url}"));
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:wad:cargo-xtask-release:1",
                "externalParameters": { "command": "cargo xtask release", "version": VERSION },
                "internalParameters": { "SOURCE_DATE_EPOCH": source.seconds() },
                "resolvedDependencies": [
                    { "uri": sources, "digest": { "gitCommit": commit } },
                    { "uri": format!("pkg:generic/rustc@{}", bill::compiler()?) },
                    { "uri": format!("pkg:generic/rustc@{}", BpfToolchain::read(exec::root())?.pin) },
                ],
            },
            "runDetails": { "builder": { "id": "urn:wad:cargo-xtask-release" } },
        },
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&statement)?))
}

/// Looks whether a section of the changelog says anything.
fn has_changes(changelog: &str, section: &str) -> Result<()> {
    let title = format!("## [{section}]");
    let after = changelog.lines().skip_while(|line| !line.starts_with(&title));
    let mut lines = after.skip(1).take_while(|line| !line.starts_with("## "));
    ensure!(
        changelog.lines().any(|line| line.starts_with(&title)),
        "has no section `{title}`: give what is under [Unreleased] the version and the date"
    );
    ensure!(lines.any(|line| line.starts_with("- ")), "says no change under `{title}`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_changes() {
        let changelog =
            "# C\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- A thing.\n";
        has_changes(changelog, "0.2.0").unwrap();
        let empty = has_changes(changelog, "Unreleased").unwrap_err().to_string();
        assert!(empty.contains("says no change"), "{empty}");
        let missing = has_changes(changelog, "0.3.0").unwrap_err().to_string();
        assert!(missing.contains("no section `## [0.3.0]`"), "{missing}");
    }

    #[test]
    fn a_statement_names_each_file_and_the_commit() {
        let time = "2026-01-02T03:04:05Z".parse().unwrap();
        let source = Source { revision: Some("c0".to_owned()), time, maintainer: None };
        let digests = BTreeMap::from([("wad.deb".to_owned(), "aa".to_owned())]);
        let text = provenance(&digests, &source, "c0", None).unwrap();
        let statement: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(statement["subject"][0]["digest"]["sha256"], "aa");
        let build = &statement["predicate"]["buildDefinition"];
        assert_eq!(build["resolvedDependencies"][0]["digest"]["gitCommit"], "c0");
    }
}
