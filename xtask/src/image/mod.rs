//! `cargo xtask image` builds an OCI image from scratch, without a daemon: the static
//! binary, the certificates of those whom TLS trusts, and licences; one image for each
//! machine, in one index. The same commit gives the same bytes.

mod certificates;
mod check;
mod layout;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{
    again,
    bill::Bill,
    dist, exec,
    setup::{self, For},
    source::{DESCRIPTION, LICENCES, Source, VERSION},
    tree::{Tree, sha256},
};
use layout::{Annotations, Layout, Name};

/// Builds the image for the named machines, or for all.
pub fn run(machines: &[String], url: Option<&str>) -> Result<()> {
    setup::run(For::Shipping)?;
    println!("{}", build(machines, url)?.display());
    Ok(())
}

/// Builds it here and in a clone elsewhere, which give the same.
pub fn twice(machines: &[String], url: Option<&str>) -> Result<()> {
    setup::run(For::Shipping)?;
    let archive = build(machines, url)?;
    let mut arguments = vec!["image"];
    arguments.extend(machines.iter().map(String::as_str));
    arguments.extend(url.iter().flat_map(|url| ["--source", url]));
    again::compare(&arguments, &[archive])
}

pub use check::run as check;

/// Builds the archive, and returns where it is; beside the binaries are lists of what is
/// in their images.
pub fn build(machines: &[String], url: Option<&str>) -> Result<PathBuf> {
    let source = Source::read()?;
    let mut layout = Layout::new(annotations(&source, url));
    for target in dist::targets(machines) {
        let wad = dist::ship(target)?;
        let wad = fs::read(&wad).with_context(|| wad.display().to_string())?;
        let bill = Bill::of(target)?.with(certificates::CRATE)?;
        let folder = dist::folder(target);
        write(&folder.join("image.cdx.json"), &bill.sbom(&source, &sha256(&wad))?)?;
        let files = files(wad, &bill)?;
        layout.image(architecture(target), config(), &files, &source)?;
    }
    let name = Name { name: "localhost/wad", tag: VERSION };
    let archive = layout.archive(&name, source.seconds())?;
    let machine = machines.iter().map(|machine| format!("-{machine}")).collect::<String>();
    let path = exec::target().join(format!("dist/wad-{VERSION}{machine}.oci.tar"));
    write(&path, &archive)?;
    Ok(path)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Returns the machine's name in images, which is Go's.
fn architecture(target: &'static str) -> &'static str {
    match dist::arch(target) {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the root of the file system.
fn files(wad: Vec<u8>, bill: &Bill) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.program("usr/bin/wad", wad);
    tree.file("etc/ssl/certs/ca-certificates.crt", certificates::pem());
    // What is mounted there, has a place even where the root is read-only.
    tree.folder("etc/wad", 0o755);
    tree.folder("run/wad", 0o711);
    tree.folder("var/lib/wad", 0o700);
    tree.folder("var/log/wad", 0o750);
    let documents = |file| format!("usr/share/doc/wad/{file}");
    tree.file(&documents("THIRD-PARTY-NOTICES"), bill.notices()?);
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "config/wad.toml"] {
        let name = file.rsplit('/').next().unwrap_or(file);
        tree.copy(&documents(name), &exec::root().join(file))?;
    }
    Ok(tree)
}

/// Returns what a runtime is told. The user is root, as the capabilities that are left
/// to a container are root's alone.
fn config() -> Value {
    json!({
        "User": "0:0",
        "Env": ["PATH=/usr/bin"],
        "Entrypoint": ["wad"],
        "Cmd": ["run"],
    })
}

fn annotations(source: &Source, url: Option<&str>) -> Annotations {
    let all = [
        ("org.opencontainers.image.title", Some("wad".to_owned())),
        ("org.opencontainers.image.description", Some(DESCRIPTION.to_owned())),
        ("org.opencontainers.image.version", Some(VERSION.to_owned())),
        ("org.opencontainers.image.licenses", Some(LICENCES.to_owned())),
        ("org.opencontainers.image.created", Some(source.time.to_string())),
        ("org.opencontainers.image.revision", source.revision.clone()),
        ("org.opencontainers.image.source", url.map(str::to_owned)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
