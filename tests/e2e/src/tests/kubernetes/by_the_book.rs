//! The lines of the book bring the image into a registry, and the chart onto the cluster.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use wad_testbed::{kubernetes::Registry, process::run_command, sysctl::Changed};

use super::Node;
use crate::book;

/// The page's path asks for so much, which an agent raises in the host's own network namespace
/// alone.
const ROOM: (&str, &str) = ("net.core.wmem_max", "125000000");

/// Installs it as a newcomer does, in a folder with what is published and a configuration,
/// and removes it again.
pub fn installs(node: &Node<'_>, image: &Path, chart: &Path) -> Result<()> {
    let _room = Changed::to(ROOM.0, ROOM.1)?;
    let _registry = Registry::start(node.cluster)?;
    let folder = node.folder.join("by-the-book");
    fs::create_dir(&folder)?;
    let version = env!("CARGO_PKG_VERSION");
    fs::copy(image, folder.join(format!("wad-{version}.oci.tar")))?;
    fs::copy(chart, folder.join(format!("wad-{version}.tgz")))?;
    // In a network namespace of its own Linux does not tell how much memory TCP may take.
    let policy = book::block(book::KUBERNETES, book::ON_A_CLUSTER, "toml")?;
    let limits = "\n[limits]\nmax_memory = '1GiB'\n";
    fs::write(folder.join("wad.toml"), policy.to_owned() + limits)?;

    let lines = book::block(book::KUBERNETES, book::ON_A_CLUSTER, "sh")?;
    let lines = format!("cd {}\n{lines}", folder.display());
    run_command(node.cluster.command("sh").args(["-euc", &lines]))?;
    let pod = node.rolled_out()?;
    let paths = ["exec", "--namespace=wad", &pod, "--", "wad", "paths"];
    let paths = node.cluster.kubectl(&paths)?;
    ensure!(paths.contains("archive"), "{paths}");
    let remove = book::block(book::KUBERNETES, "Remove it", "sh")?;
    node.uninstall(&["sh", "-euc", remove])
}
