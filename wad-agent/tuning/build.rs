//! Builds the BPF programs and leaves them in OUT_DIR as `tuner.o` and
//! `congestion.o`, which the agent embeds.
//!
//! Without the pinned nightly and bpf-linker both are empty: the workspace can
//! then be checked, linted and tested, and `wad run` says what is missing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};
use wad_toolchain::{BpfToolchain, TARGET};

/// The objects: one for each binary of wad-ebpf.
const OBJECTS: [&str; 2] = ["tuner", "congestion"];

/// The programs' inputs: what they are made of, beside the linker.
const INPUTS: [&str; 7] = [
    "Cargo.lock",
    "Cargo.toml",
    "wad-common/Cargo.toml",
    "wad-common/src",
    "wad-ebpf/Cargo.toml",
    "wad-ebpf/rust-toolchain.toml",
    "wad-ebpf/src",
];

fn main() {
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2).expect("this folder is two below the repository's");
    let out = PathBuf::from(variable("OUT_DIR"));

    let toolchain = match BpfToolchain::read(root) {
        Ok(toolchain) => toolchain,
        Err(error) => panic!("cannot tell which nightly builds the BPF programs: {error}"),
    };
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo::rerun-if-changed={}", toolchain.linker().display());
    for of_its_folder in ["XDG_CACHE_HOME", "HOME"] {
        println!("cargo::rerun-if-env-changed={of_its_folder}");
    }

    let missing = if toolchain.sysroot().is_none() {
        Some(format!("the compiler {} is not installed", toolchain.pin))
    } else if !toolchain.linker().exists() {
        Some("bpf-linker is not installed".to_owned())
    } else {
        None
    };
    if let Some(missing) = missing {
        println!(
            "cargo::warning=no BPF programs embedded, this `wad` cannot tune: {missing}; \
             run `cargo xtask setup`"
        );
        for object in OBJECTS {
            write(&out.join(object).with_extension("o"), &[]);
        }
        return;
    }

    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let mut cargo = toolchain.cargo(&arch);
    // Standard output is the channel to the outer cargo.
    cargo
        .args(["build", "--profile", "bpf", "--features", "programs", "--locked"])
        .args(TARGET)
        .stdout(Stdio::null());
    match cargo.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "the BPF programs do not build ({status}; the compiler's messages are above); \
             if a tool is amiss, `cargo xtask setup` mends it"
        ),
        Err(error) => panic!("cannot start rustup to build the BPF programs: {error}"),
    }
    let built = root.join("target/bpf").join(&arch).join("bpfel-unknown-none/bpf");
    for object in OBJECTS {
        let path = built.join(object);
        match fs::read(&path) {
            Ok(bytes) => write(&out.join(object).with_extension("o"), &without_debug(&bytes)),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

/// An object without its DWARF, which is nine tenths of it, and without the relocations of its
/// BTF, which is right as it stands. The kernel reads BTF.
fn without_debug(object: &[u8]) -> Vec<u8> {
    let mut builder = Builder::read(object).expect("bpf-linker writes ELF");
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        let unread: [&[u8]; 3] = [b".debug_", b".rel.debug_", b".rel.BTF"];
        section.delete = unread.iter().any(|unread| name.starts_with(unread));
    }
    // Their symbols go with them.
    builder.delete_orphans();
    // LLVM has the names of sections among those of symbols.
    let names = builder.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped).expect("what was read can be written");
    stripped
}

/// A variable that cargo sets for build scripts.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn write(path: &Path, bytes: &[u8]) {
    if let Err(error) = fs::write(path, bytes) {
        panic!("{}: {error}", path.display());
    }
}
