//! `cargo xtask dist`: `wad` as it is shipped, one static file for each machine,
//! at `target/dist/<arch>/wad`.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::{
    elf::Elf,
    exec,
    setup::{self, For, SHIPPED},
};

/// Most that a file may take.
const MAX_BYTES: usize = 10 << 20;

pub fn run() -> Result<()> {
    setup::run(For::Shipping)?;
    SHIPPED.into_iter().try_for_each(ship)
}

fn ship(target: &'static str) -> Result<()> {
    let arch = target.split('-').next().unwrap_or_default();
    // The compiler brings its own linker and C library for these targets: no
    // compiler for C, and none for other machines, is needed.
    let linker = format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase());
    exec::prepare(
        exec::cargo(["build", "--release", "--package", "wad-agent", "--target", target])
            .env(linker, "rust-lld"),
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

    let folder = exec::target().join("dist").join(arch);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let shipped = folder.join("wad");
    fs::copy(&built, &shipped).with_context(|| shipped.display().to_string())?;
    println!("{} ({} bytes)", shipped.display(), file.len());
    Ok(())
}
