//! `cargo xtask setup`: whatever is missing, and nothing where nothing is.

use std::env::consts::ARCH;

use anyhow::{Context as _, Result};
use wad_toolchain::BpfToolchain;

use crate::{
    exec, linker,
    packages::{self, Only, Package},
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
    /// Shipping, and a look at images by other people's programs.
    Images,
    /// Shipping, and packages under other people's eyes.
    Packages,
    /// The lab with other people's programs, and the tests as root.
    Testing,
    /// The tests as root, and a node of Kubernetes.
    Kubernetes,
    /// The tests under other kernels.
    Machines,
    /// All of these purposes but packages and Kubernetes, which take a hundred packages.
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

/// A pod of Kubernetes begins with a program of the first, which does nothing; its image comes
/// into a registry by the other.
const FOR_PODS: [&str; 2] = ["busybox-static", "skopeo"];

/// Makes sure that all is there.
pub fn run(purpose: For) -> Result<()> {
    let targets = match purpose {
        For::Shipping | For::Images | For::Packages | For::Machines | For::Everything => {
            SHIPPED.to_vec()
        }
        For::Testing | For::Kubernetes => vec![own_target()?],
        _ => Vec::new(),
    };
    let components: &[&str] = match purpose {
        For::Linting | For::Everything => &["clippy", "rustfmt"],
        _ => &[],
    };
    let is_wanted = |package: &&Package| match purpose {
        For::Machines | For::Everything => {
            !matches!(package.only, Some(Only::Packages | Only::Kubernetes))
        }
        For::Testing => package.only.is_none(),
        For::Kubernetes => {
            FOR_PODS.contains(&package.name)
                || matches!(package.only, None | Some(Only::Kubernetes))
        }
        For::Images => matches!(package.only, Some(Only::Shipping | Only::Images)),
        For::Packages => matches!(package.only, Some(Only::Shipping | Only::Packages)),
        For::Shipping => package.only == Some(Only::Shipping),
        For::Fuzzing => package.only == Some(Only::Fuzzing),
        For::Demo => package.for_demo,
        For::Building | For::Linting => false,
    };
    let packages: Vec<&Package> = packages::ALL.iter().filter(is_wanted).collect();
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
