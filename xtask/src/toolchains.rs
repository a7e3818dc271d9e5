//! rustup brings the compilers: the one in use, and the pinned nightly.

use std::process::Command;

use anyhow::{Context as _, Result};
use wad_toolchain::BpfToolchain;

use crate::exec;

/// These components of the nightly are needed.
const BPF_COMPONENTS: [&str; 2] = ["rust-src", "clippy"];

/// Makes sure that the toolchain in use has these components and targets.
pub fn ensure_host(components: &[&str], targets: &[&str]) -> Result<()> {
    if components.is_empty() && targets.is_empty() {
        return Ok(());
    }
    let installed = exec::output(rustup().args(["component", "list", "--installed"]))
        .context("rustup is needed for the compilers and targets: see https://rustup.rs")?;
    let components: Vec<_> =
        components.iter().filter(|component| !has(&installed, component)).collect();
    if !components.is_empty() {
        exec::prepare(rustup().args(["component", "add"]).args(components))?;
    }
    let targets: Vec<_> =
        targets.iter().filter(|target| !has(&installed, &format!("rust-std-{target}"))).collect();
    if !targets.is_empty() {
        exec::prepare(rustup().args(["target", "add"]).args(targets))?;
    }
    Ok(())
}

/// Makes sure that the nightly of the BPF programs is there. It is asked for by
/// name: rustup may have been told not to install what a folder's
/// rust-toolchain.toml names.
pub fn ensure_bpf(bpf: &BpfToolchain) -> Result<()> {
    let installed =
        exec::output(rustup().args(["component", "list", "--installed", "--toolchain", &bpf.pin]));
    if installed.is_some_and(|list| BPF_COMPONENTS.iter().all(|component| has(&list, component))) {
        return Ok(());
    }
    exec::prepare(
        rustup()
            .args(["toolchain", "install", &bpf.pin, "--profile", "minimal", "--no-self-update"])
            .args(["--component", &BPF_COMPONENTS.join(",")]),
    )
    .context("rustup is needed for the compiler of the BPF programs: see https://rustup.rs")
}

fn rustup() -> Command {
    let mut command = Command::new("rustup");
    command.env("RUSTUP_AUTO_INSTALL", "0").env_remove("RUST_BACKTRACE");
    command
}

/// Tells whether a list of `rustup component list --installed` has a component, which
/// most are named in with the machine they are for: `clippy-x86_64-...`.
fn has(installed: &str, component: &str) -> bool {
    installed.lines().any(|line| {
        line.strip_prefix(component).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn components_are_found_by_their_whole_name() {
        let installed = "clippy-x86_64-unknown-linux-gnu\nrust-src\n\
                         rust-std-x86_64-unknown-linux-gnu\n";
        assert!(has(installed, "clippy"));
        assert!(has(installed, "rust-src"));
        assert!(has(installed, "rust-std-x86_64-unknown-linux-gnu"));
        assert!(!has(installed, "rust-std-x86_64-unknown-linux-musl"));
        assert!(!has(installed, "rustfmt"));
        assert!(!has("rust-src-extra\nclippy2\n", "clippy"));
    }
}
