//! `cargo xtask dist` builds `wad` as it is shipped, one static file for each machine,
//! at `target/dist/<arch>/wad`, and what is installed beside it in `target/dist/share`:
//! manual pages, completions, JSON Schemas.

use std::{env, fs, io, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use clap::builder::PossibleValuesParser;

use crate::{
    elf::Elf,
    exec,
    packages::OTHER_HEADERS,
    reference,
    setup::{self, For, SHIPPED},
    sizes::Sizes,
};

/// A file may take so many bytes at most. SQLite, which keeps what probes find out, has most of
/// a million of them, peers with their certificates and experiments with their report half of one
/// each, guards a quarter, the page for browsers a fifth, and the simulation less than a tenth.
const MAX_BYTES: usize = 13_300_000;

/// Returns the names of the machines, as the command line takes them.
pub fn machines() -> PossibleValuesParser {
    SHIPPED.map(arch).into()
}

/// Builds for the named machines, or for all; shows what takes the room if that is asked
/// for.
pub fn run(machines: &[String], shows_sizes: bool) -> Result<()> {
    setup::run(For::Shipping)?;
    for target in targets(machines) {
        let shipped = ship(target)?;
        let bytes = fs::metadata(&shipped).with_context(|| shipped.display().to_string())?.len();
        println!("{} ({bytes} bytes)", shipped.display());
        if shows_sizes {
            let map = map(target);
            let text = fs::read_to_string(&map).with_context(|| map.display().to_string())?;
            print!("{}", Sizes::parse(&text));
        }
    }
    println!("{}", share()?.display());
    Ok(())
}

/// Returns the targets of the named machines, or of all.
pub fn targets(machines: &[String]) -> impl Iterator<Item = &'static str> {
    let is_wanted = |target: &&'static str| {
        machines.is_empty() || machines.iter().any(|name| name == arch(target))
    };
    SHIPPED.into_iter().filter(is_wanted)
}

/// Returns the folder of what is made to ship for a target.
pub fn folder(target: &'static str) -> PathBuf {
    exec::target().join("dist").join(arch(target))
}

/// Makes what is installed beside the program, and returns where it is.
pub fn share() -> Result<PathBuf> {
    let folder = exec::target().join("dist/share");
    // What a build before has made and this one does not would be installed, too.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| folder.display().to_string());
        }
        _ => {}
    }
    reference::build()?;
    reference::write("share", &folder)?;
    Ok(folder)
}

/// Returns the name of a target's machine.
pub fn arch(target: &'static str) -> &'static str {
    target.split('-').next().unwrap_or_default()
}

/// Returns a cargo that compiles static programs for a target. The compiler brings its
/// own linker and C library for these. C takes this machine's compiler, or clang, which
/// knows other machines. That in ring, which TLS needs, uses no library. SQLite takes the
/// headers of glibc, and meets musl: of both it uses only what the kernel lays down for
/// machines of 64 bits, and functions of POSIX, but those that glibc has for itself
/// (`_FORTIFY_SOURCE`, which some compilers turn on) are not there.
pub fn cargo(subcommand: &str, target: &str, profile: &str) -> Command {
    let name = target.replace('-', "_");
    let linker = format!("CARGO_TARGET_{}_LINKER", name.to_uppercase());
    let mut flags = "-U_FORTIFY_SOURCE".to_owned();
    let compiler = if target.starts_with(env::consts::ARCH) {
        "cc"
    } else {
        flags = format!("{flags} -isystem {OTHER_HEADERS}");
        "clang"
    };
    let mut command = exec::cargo([subcommand, "--profile", profile, "--target", target]);
    // What is shipped is made by the compiler itself, whatever looks at what is built beside.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    command.env(linker, "rust-lld").env(format!("CC_{name}"), compiler);
    command.env(format!("CFLAGS_{name}"), flags);
    command
}

/// Returns where the linker writes what it put where in a target's file, which has no
/// symbols itself.
fn map(target: &'static str) -> PathBuf {
    folder(target).join("wad.map")
}

/// Builds `wad` for a target, and returns where it is.
pub fn ship(target: &'static str) -> Result<PathBuf> {
    let arch = arch(target);
    let (map, folder) = (map(target), folder(target));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let remaps: Vec<_> = wad_toolchain::remaps(exec::root()).collect();
    exec::prepare(
        cargo("rustc", target, "release")
            .env("CARGO_ENCODED_RUSTFLAGS", remaps.join("\u{1f}"))
            .args(["--locked", "--package", "wad", "--bin", "wad", "--"])
            .arg(format!("-Clink-arg=-Map={}", map.display()))
            // A list of the places that the loader writes to, 24 bytes for each, becomes
            // a bitmap.
            .arg("-Clink-arg=--pack-dyn-relocs=relr"),
    )?;

    let built = exec::target().join(target).join("release/wad");
    let file = fs::read(&built).with_context(|| built.display().to_string())?;
    let elf = Elf::parse(&file).with_context(|| built.display().to_string())?;
    let wanted = Elf { arch, is_static: true, is_stripped: true };
    ensure!(elf == wanted, "{}: is {elf:?}, should be {wanted:?}", built.display());
    ensure!(
        file.len() <= MAX_BYTES,
        "{}: {} bytes, should be at most {MAX_BYTES}",
        built.display(),
        file.len()
    );

    let shipped = folder.join("wad");
    fs::copy(&built, &shipped).with_context(|| shipped.display().to_string())?;
    Ok(shipped)
}
