//! `cargo xtask image --check`: the archive as programs of other people see it. skopeo
//! reads it, umoci unpacks it, and the kernel runs what is in it, with nothing else in
//! the root of its file system.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    slice,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use tar::Archive;

use super::{architecture, build};
use crate::{
    dist, exec,
    setup::{self, For},
    source::{Source, VERSION},
};

/// Checks the images of the named machines, or of all.
pub fn run(machines: &[String], url: Option<&str>) -> Result<()> {
    setup::run(For::Images)?;
    let archive = build(machines, url)?;
    let source = Source::read()?;
    for target in dist::targets(machines) {
        let machine = dist::arch(target).to_owned();
        let seen = inspect(&archive, target)?;
        seen.hold(&source, target)?;
        // umoci takes one machine's images alone; its image is the same there.
        let own = build(slice::from_ref(&machine), url)?;
        let alone = inspect(&own, target)?;
        ensure!(
            alone.layers == seen.layers,
            "{}: has another layer than {}",
            own.display(),
            archive.display()
        );
        let folder = tempfile::tempdir()?;
        let root = unpack(&own, folder.path())?;
        let unpacked_bytes = expect(&root)?;
        let packed_bytes = seen.packed_bytes(folder.path())?;
        let runs = if target.starts_with(env::consts::ARCH) {
            run_in(&root)?
        } else {
            "not run: it is for another machine".to_owned()
        };
        println!("{machine}: {packed_bytes} bytes, {unpacked_bytes} unpacked; {runs}");
    }
    println!("{}", archive.display());
    Ok(())
}

/// An image, as skopeo sees it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Seen {
    architecture: String,
    os: String,
    labels: BTreeMap<String, String>,
    layers: Vec<String>,
    env: Vec<String>,
    created: String,
}

fn inspect(archive: &Path, target: &'static str) -> Result<Seen> {
    let mut command = Command::new("skopeo");
    command.args(["--override-os", "linux", "--override-arch", architecture(target), "inspect"]);
    command.arg(format!("oci-archive:{}", archive.display()));
    let output = command.output().context("cannot start skopeo")?;
    ensure!(
        output.status.success(),
        "{}: skopeo says: {}",
        archive.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).with_context(|| format!("skopeo prints {text}"))
}

impl Seen {
    fn hold(&self, source: &Source, target: &'static str) -> Result<()> {
        let label = |name: &str| {
            self.labels.get(&format!("org.opencontainers.image.{name}")).map(String::as_str)
        };
        let time = source.time.to_string();
        for (what, seen, wanted) in [
            ("os", Some(&*self.os), Some("linux")),
            ("architecture", Some(&*self.architecture), Some(architecture(target))),
            ("created", Some(&*self.created), Some(&*time)),
            ("PATH", self.env.first().map(String::as_str), Some("PATH=/usr/bin")),
            ("title", label("title"), Some("wad")),
            ("version", label("version"), Some(VERSION)),
            ("revision", label("revision"), source.revision.as_deref()),
        ] {
            ensure!(seen == wanted, "{what}: skopeo sees {seen:?}, should be {wanted:?}");
        }
        Ok(())
    }

    /// Returns the size of the layers, as they are in the folder that [`unpack`] filled.
    fn packed_bytes(&self, folder: &Path) -> Result<u64> {
        let size = |digest: &String| {
            let blob = folder.join("layout/blobs").join(digest.replace(':', "/"));
            Ok(fs::metadata(&blob).with_context(|| blob.display().to_string())?.len())
        };
        self.layers.iter().map(size).sum()
    }
}

/// Unpacks the only image of an archive, and returns the root of its file system.
fn unpack(archive: &Path, into: &Path) -> Result<PathBuf> {
    let layout = into.join("layout");
    let file = fs::File::open(archive).with_context(|| archive.display().to_string())?;
    Archive::new(file).unpack(&layout).with_context(|| layout.display().to_string())?;
    let bundle = into.join("bundle");
    let mut command = Command::new("umoci");
    command.arg("unpack").arg("--image").arg(format!("{}:{VERSION}", layout.display()));
    if !exec::is_root()? {
        command.arg("--rootless");
    }
    exec::prepare(command.arg(&bundle))?;
    Ok(bundle.join("rootfs"))
}

/// Holds the files against what is to be there, and returns the bytes that they take.
fn expect(root: &Path) -> Result<u64> {
    let mut found = Vec::new();
    walk(root, root, &mut found)?;
    found.sort();
    let wanted = [
        ("etc/ssl/certs/ca-certificates.crt", 0o644),
        ("etc/wad/", 0o755),
        ("run/wad/", 0o711),
        ("usr/bin/wad", 0o755),
        ("usr/share/doc/wad/LICENSE-APACHE", 0o644),
        ("usr/share/doc/wad/LICENSE-MIT", 0o644),
        ("usr/share/doc/wad/THIRD-PARTY-NOTICES", 0o644),
        ("usr/share/doc/wad/wad.toml", 0o644),
        ("var/lib/wad/", 0o700),
        ("var/log/wad/", 0o750),
    ];
    let names: Vec<_> = found.iter().map(|(path, mode, _)| (path.as_str(), *mode)).collect();
    ensure!(names == wanted, "the image has {names:?}, should have {wanted:?}");
    Ok(found.iter().map(|(_, _, bytes)| bytes).sum())
}

/// Finds files and empty folders, with their modes and sizes.
fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, u32, u64)>) -> Result<()> {
    let failed = || folder.display().to_string();
    let mut is_empty = true;
    for entry in fs::read_dir(folder).with_context(failed)? {
        is_empty = false;
        let path = entry.with_context(failed)?.path();
        let data = fs::symlink_metadata(&path).with_context(|| path.display().to_string())?;
        if data.is_dir() {
            walk(root, &path, found)?;
        } else {
            found.push((below(root, &path)?, data.permissions().mode() & 0o7777, data.len()));
        }
    }
    if is_empty {
        let mode = fs::metadata(folder).with_context(failed)?.permissions().mode() & 0o7777;
        found.push((format!("{}/", below(root, folder)?), mode, 0));
    }
    Ok(())
}

fn below(root: &Path, path: &Path) -> Result<String> {
    Ok(path.strip_prefix(root)?.to_string_lossy().into_owned())
}

/// Runs the program with that root, where no other file of this machine is, and with what
/// a runtime brings.
fn run_in(root: &Path) -> Result<String> {
    let proc = root.join("proc");
    fs::create_dir(&proc).with_context(|| proc.display().to_string())?;
    let user: &[&str] = if exec::is_root()? { &[] } else { &["--user", "--map-root-user"] };
    let wad = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc=/proc"]).args(user);
        command.arg("--root").arg(root);
        command.arg("wad").args(arguments).env_clear().env("PATH", "/usr/bin:/bin");
        let output = command.output().context("cannot start unshare")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            bail!("wad {} in the image: {}", arguments.join(" "), text(&output.stderr));
        }
        Ok(text(&output.stdout))
    };
    let version = wad(&["--version"])?;
    ensure!(version.contains(VERSION), "the image's wad says {version}, should be {VERSION}");
    wad(&["check", "--config", "/usr/share/doc/wad/wad.toml"])?;
    Ok(format!("runs {version}, which takes its sample"))
}
