//! `cargo xtask setup`: whatever is missing, and nothing where nothing is.

use std::env::consts::ARCH;

use anyhow::{Context as _, Result};
use wad_toolchain::BpfToolchain;

use crate::{
    exec, linker,
    packages::{self, Package},
    toolchains,
    tools::{DENY, MDBOOK},
};

/// Tells what the set-up is for: no command waits for more than it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// Compiling for this machine.
    Building,
    /// The lab with its own programs.
    Demo,
    /// Linting and formatting as well.
    Linting,
    /// Compiling libFuzzer as well.
    Fuzzing,
    /// Compiling for every machine that is shipped for.
    Shipping,
    /// The lab with other people's programs, and the tests as root.
    Testing,
    /// The tests under other kernels.
    Machines,
    /// All of these purposes.
    Everything,
}

/// Binaries are shipped for these targets.
pub const SHIPPED: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// Returns the one of the shipped targets that this machine runs.
pub fn own_target() -> Result<&'static str> {
    target_of(ARCH)
}

/// Returns the one of the shipped targets that a machine of that name runs.
pub fn target_of(machine: &str) -> Result<&'static str> {
    let target = SHIPPED.into_iter().find(|target| target.starts_with(machine));
    target.with_context(|| format!("wad is not shipped for {machine}"))
}

/// Makes sure that all is there.
pub fn run(purpose: For) -> Result<()> {
    let targets = match purpose {
        For::Shipping | For::Machines | For::Everything => SHIPPED.to_vec(),
        For::Testing => vec![own_target()?],
        _ => Vec::new(),
    };
    let components: &[&str] = match purpose {
        For::Linting | For::Everything => &["clippy", "rustfmt"],
        _ => &[],
    };
    let packages: Vec<&Package> = match purpose {
        For::Machines | For::Everything => packages::ALL.iter().collect(),
        For::Testing => {
            let others =
                |package: &&Package| package.for_vm || package.for_shipping || package.for_fuzzing;
            packages::ALL.iter().filter(|package| !others(package)).collect()
        }
        For::Shipping => packages::ALL.iter().filter(|package| package.for_shipping).collect(),
        For::Fuzzing => packages::ALL.iter().filter(|package| package.for_fuzzing).collect(),
        For::Demo => packages::ALL.iter().filter(|package| package.for_demo).collect(),
        _ => Vec::new(),
    };
    let bpf = BpfToolchain::read(exec::root())?;
    toolchains::ensure_host(components, &targets)?;
    toolchains::ensure_bpf(&bpf)?;
    linker::ensure(&bpf)?;
    if purpose == For::Everything {
        DENY.ensure()?;
        MDBOOK.ensure()?;
    }
    packages::ensure(&packages)
}
