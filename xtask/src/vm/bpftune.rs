//! Oracle's bpftune for virtual machines, as Debian's sid has it, with the libraries that it was
//! built with: those of the machine's other tools are older ones.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{apt::Suite, kernel};

const PACKAGE: &str = "bpftune";
const SUITE: &str = "sid";
/// Debian has libraries here, bpftune its tuners below, and looks for them nowhere else.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// The machine has its libraries here, where no other program finds them.
const OWN: &str = "usr/lib/bpftune";
const START: &str = "#!/bin/sh\n\
    exec /usr/lib/bpftune/ld-linux-x86-64.so.2 --library-path /usr/lib/bpftune \
    /usr/lib/bpftune/bpftune \"$@\"\n";

/// Fetches it, unless it is there, and returns a folder of what a machine is to have.
pub fn fetch(folder: &Path) -> Result<PathBuf> {
    let suite = Suite::open(SUITE, folder.join("apt").join(SUITE))?;
    let newest = suite.show(PACKAGE)?;
    let version = kernel::field(&newest, "Version").context("bpftune has no version")?;
    let of_all = folder.join(PACKAGE);
    let root = of_all.join(version);
    if !root.exists() {
        // What the suite held before is of no use any more.
        let _ = fs::remove_dir_all(&of_all);
        let (unpacked, partial) = (of_all.join("unpacked"), of_all.join("partial"));
        kernel::extract(&suite, &with_dependencies(&suite)?, &unpacked)?;
        collect(&unpacked, &partial).with_context(|| partial.display().to_string())?;
        fs::remove_dir_all(&unpacked)?;
        fs::rename(&partial, &root)?;
    }
    Ok(root)
}

/// Returns the package and all that it needs, by name.
fn with_dependencies(suite: &Suite) -> Result<Vec<String>> {
    let mut known = BTreeSet::from([PACKAGE.to_owned()]);
    let mut new = vec![PACKAGE.to_owned()];
    while let Some(package) = new.pop() {
        let shown = suite.show(&package)?;
        for needed in kernel::dependencies(&shown) {
            if known.insert(needed.to_owned()) {
                new.push(needed.to_owned());
            }
        }
    }
    Ok(known.into_iter().collect())
}

/// Collects libraries, tuners, the program, and what starts it with those libraries.
fn collect(unpacked: &Path, root: &Path) -> Result<()> {
    let (libraries, own) = (unpacked.join(LIBRARIES), root.join(OWN));
    let tuners = root.join(LIBRARIES).join(PACKAGE);
    fs::create_dir_all(&own)?;
    copy_files(&libraries, &own)?;
    fs::create_dir_all(&tuners)?;
    copy_files(&libraries.join(PACKAGE), &tuners)?;
    fs::copy(unpacked.join("usr/sbin/bpftune"), own.join(PACKAGE))?;
    let start = root.join("usr/sbin/bpftune");
    fs::create_dir_all(root.join("usr/sbin"))?;
    fs::write(&start, START)?;
    Ok(fs::set_permissions(&start, fs::Permissions::from_mode(0o755))?)
}

/// Copies what a folder has of files, those that links lead to among them.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}
