//! bpf-linker, in target/tools. It has to use the LLVM that the compiler of the
//! BPF programs uses, and the nightly brings that along: no LLVM package is
//! needed, and none of the machine's gets in the way.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{bpf_toolchain::BpfToolchain, exec};

/// Version of bpf-linker.
const VERSION: &str = "0.13.0";

/// Makes sure that bpf-linker is there, of this version, and built against the
/// pinned nightly.
pub fn ensure(bpf: &BpfToolchain) -> Result<()> {
    let sysroot = bpf.sysroot().with_context(|| format!("{} is not installed", bpf.pin))?;
    let llvm = find_llvm(&sysroot.join("lib"))?;
    let tools = bpf.tools();
    // Under the name that the build script of llvm-sys looks for.
    let link = tools.join("llvm/lib/libLLVM.so");
    if bpf.linker().exists() && fs::read_link(&link).is_ok_and(|to| to == llvm.path) {
        let installed = fs::read_to_string(tools.join(".crates.toml")).unwrap_or_default();
        if installed.contains(&format!("\"bpf-linker {VERSION} ")) {
            return Ok(());
        }
    }

    eprintln!("building bpf-linker {VERSION} against {} (takes half a minute)", bpf.pin);
    // The link tells which nightly an installed bpf-linker is for: that must go
    // before the link changes, in case this is interrupted.
    remove(&bpf.linker())?;
    remove(&link)?;
    let folder = link.parent().expect("the link is in a folder");
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    symlink(&llvm.path, &link).with_context(|| link.display().to_string())?;
    let mut cargo = exec::cargo(["install", "bpf-linker", "--locked", "--force"]);
    cargo
        .args(["--version", VERSION, "--no-default-features", "--features", &llvm.feature])
        .arg("--root")
        .arg(&tools)
        .env("LLVM_PREFIX", tools.join("llvm"))
        .env("RUSTFLAGS", format!("-Clink-arg=-Wl,-rpath,{}", sysroot.join("lib").display()))
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    exec::prepare(&mut cargo)?;
    // It starts only if it finds the library.
    exec::output(Command::new(bpf.linker()).arg("--version"))
        .with_context(|| format!("{} does not start", bpf.linker().display()))?;
    Ok(())
}

/// A compiler's LLVM.
#[derive(Debug, PartialEq, Eq)]
struct Llvm {
    path: PathBuf,
    /// The feature of bpf-linker that stands for its version.
    feature: String,
}

/// Finds the shared LLVM among a compiler's libraries: a file such as
/// `libLLVM.so.22.1-rust-1.97.0-nightly`.
fn find_llvm(libraries: &Path) -> Result<Llvm> {
    let folder = || libraries.display().to_string();
    for entry in fs::read_dir(libraries).with_context(folder)? {
        let path = entry.with_context(folder)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(version) = name.strip_prefix("libLLVM.so.") {
            let major: String = version.chars().take_while(char::is_ascii_digit).collect();
            return Ok(Llvm { feature: format!("llvm-{major}"), path });
        }
    }
    bail!("{}: no libLLVM.so.*, which bpf-linker is to be built against", folder())
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| file.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Llvm, find_llvm};

    #[test]
    fn the_library_names_its_version() {
        let folder = tempfile::tempdir().unwrap();
        find_llvm(folder.path()).unwrap_err();
        fs::write(folder.path().join("libLLVM-22-rust-1.97.0-nightly.so"), "").unwrap();
        let path = folder.path().join("libLLVM.so.22.1-rust-1.97.0-nightly");
        fs::write(&path, "").unwrap();
        let expected = Llvm { path, feature: "llvm-22".to_owned() };
        assert_eq!(find_llvm(folder.path()).unwrap(), expected);
    }
}
