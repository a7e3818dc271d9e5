//! bpf-linker is installed here. It has to use the LLVM that the compiler of the BPF
//! programs uses, and the nightly brings that along: no LLVM package is needed, and
//! none of the machine's gets in the way.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use wad_toolchain::{BpfToolchain, LINKER_VERSION};

use crate::tools::Tool;

const LINKER: Tool = Tool { name: "bpf-linker", version: LINKER_VERSION, options: &[] };

/// Makes sure that bpf-linker is there, of this version, and built against the
/// pinned nightly.
pub fn ensure(bpf: &BpfToolchain) -> Result<()> {
    let sysroot = bpf.sysroot().with_context(|| format!("{} is not installed", bpf.pin))?;
    // It starts only if it finds the nightly's library.
    LINKER.ensure_in(&bpf.linker_folder(), |cargo, folder| {
        let llvm = find_llvm(&sysroot.join("lib"))?;
        // Under the name that the build script of llvm-sys looks for.
        let link = folder.join("llvm/lib/libLLVM.so");
        let parent = link.parent().expect("the link is in a folder");
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        symlink(&llvm.path, &link).with_context(|| link.display().to_string())?;
        cargo
            .args(["--no-default-features", "--features", &llvm.feature])
            .env("LLVM_PREFIX", folder.join("llvm"))
            .env("RUSTFLAGS", format!("-Clink-arg=-Wl,-rpath,{}", sysroot.join("lib").display()));
        Ok(())
    })?;
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
