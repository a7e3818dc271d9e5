//! The compiler and linker of the BPF programs are the nightly that
//! `wad-ebpf/rust-toolchain.toml` names, and a bpf-linker built against it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::tool_folders;

/// This version of bpf-linker is used.
pub const LINKER_VERSION: &str = "0.13.0";

/// Holds what the BPF programs are compiled with.
pub struct BpfToolchain {
    root: PathBuf,
    /// Name of the nightly, as rustup knows it.
    pub pin: String,
}

/// These settings of the user's are what a cargo started from another cargo keeps. What
/// else begins with CARGO or RUST the outer one has set for itself: its compiler, its
/// flags, its lints.
const KEPT: [&str; 8] = [
    "CARGO_BUILD_JOBS",
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_MAKEFLAGS",
    "CARGO_NET_",
    "CARGO_REGISTR",
    "CARGO_TERM_",
    "RUSTUP_",
];

impl BpfToolchain {
    /// Reads which nightly is pinned; `root` is the root of the repository.
    pub fn read(root: &Path) -> io::Result<Self> {
        let file = root.join("wad-ebpf/rust-toolchain.toml");
        let text = fs::read_to_string(&file)?;
        let pin = text
            .lines()
            .find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'))
            .ok_or_else(|| {
                let problem = format!("{}: no line `channel = \"...\"`", file.display());
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })?;
        Ok(Self { root: root.to_path_buf(), pin: pin.to_owned() })
    }

    /// Returns where the nightly is installed, if it is.
    pub fn sysroot(&self) -> Option<PathBuf> {
        let output = Command::new("rustup")
            .args(["which", "--toolchain", &self.pin, "rustc"])
            .env("RUSTUP_AUTO_INSTALL", "0")
            .env_remove("RUST_BACKTRACE")
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let rustc = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        // From <sysroot>/bin/rustc.
        Some(rustc.parent()?.parent()?.to_path_buf())
    }

    /// Returns the folder that bpf-linker is installed in. The pinned nightly decides
    /// which LLVM it is built against.
    pub fn linker_folder(&self) -> PathBuf {
        let name = format!("bpf-linker-{LINKER_VERSION}-{}", self.pin);
        tool_folders::folder(&self.root, &name)
    }

    /// Returns the linker, whether or not it is there yet.
    pub fn linker(&self) -> PathBuf {
        self.linker_folder().join("bin/bpf-linker")
    }

    /// Returns a cargo of the nightly, in wad-ebpf, with the flags for programs that
    /// read the registers of `arch` (as in `CARGO_CFG_TARGET_ARCH`).
    pub fn cargo(&self, arch: &str) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", &self.pin, "cargo"]).current_dir(self.root.join("wad-ebpf"));
        for (name, _) in env::vars_os() {
            let Some(name) = name.to_str() else { continue };
            let of_cargo = name.starts_with("CARGO") || name.starts_with("RUST");
            if of_cargo && !KEPT.iter().any(|kept| name.starts_with(kept)) {
                command.env_remove(name);
            }
        }
        let mut flags = vec![
            format!("--cfg=bpf_target_arch=\"{arch}\""),
            // Atomic operations that return what was there: Linux 5.12.
            "-Ctarget-cpu=v3".to_owned(),
            "-Clink-arg=--btf".to_owned(),
            // Else each array that is set to zeros is, byte by byte, by a function.
            "-Clink-arg=--disable-expand-memcpy-in-order".to_owned(),
        ];
        flags.extend(remaps(&self.root));
        if let Some(sysroot) = self.sysroot() {
            flags.push(remap(&sysroot, "/rust"));
        }
        // Joined by the separator that lets paths have spaces.
        command
            .env_remove("RUSTUP_TOOLCHAIN")
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            // Not among the flags: cargo names crates by a hash of these, the compiler
            // sorts by the names, and the programs would differ by the folder of the linker.
            .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", self.linker())
            // One folder for all profiles of the agent: `core` is built once.
            .env("CARGO_TARGET_DIR", self.root.join("target/bpf").join(arch));
        command
    }
}

/// Returns the flags by which what is built does not depend on where the repository and
/// cargo's folder are: names of files stand in it.
pub fn remaps(root: &Path) -> impl Iterator<Item = String> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let cargo = cargo.map(|cargo| remap(&cargo, "/cargo"));
    [remap(root, "/wad")].into_iter().chain(cargo)
}

fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}

/// These arguments make a cargo build for the kernel.
pub const TARGET: [&str; 4] = ["--target", "bpfel-unknown-none", "-Z", "build-std=core"];
