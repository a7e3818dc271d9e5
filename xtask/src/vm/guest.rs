//! A test machine boots into a first file system with this machine's own tools, a
//! kernel's modules, `wad`, and the tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{cpio::Archive, kernel::Kernel};
use crate::exec;

/// The tests and their helpers run these programs. Busybox has the others, and is
/// looked in last: some of its own are less than these.
const TOOLS: [&str; 17] = [
    "bash", "bpftool", "curl", "ethtool", "ip", "iperf3", "mount", "nginx", "openssl", "setpriv",
    "ss", "tc", "tcpdump", "tmux", "umount", "unshare", "zstd",
];

/// openssl asks for its settings where Debian has them.
const OPENSSL_SETTINGS: &str = "/usr/lib/ssl/openssl.cnf";

/// The locale says how letters are encoded, which tmux asks for.
const LOCALE: &str = "/usr/lib/locale/C.utf8";

const INIT: &str = include_str!("init.sh");

/// Tests name these users.
const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// The program to run, with its arguments.
pub struct Run {
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// A folder that it reads where it is on this machine.
    pub reads: Option<PathBuf>,
    /// A folder of what it runs beside itself, as that is to stand in the machine.
    pub beside: Option<PathBuf>,
}

/// Returns the archive, built for one kernel.
pub fn archive(kernel: &Kernel, folder: &Path, wad: &Path, run: &Run) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for empty in ["dev", "proc", "sys", "run", "tmp", "root", "var/lib", "etc"] {
        archive.folder(empty);
    }
    archive.link("var/run", "/run");
    archive.file("init", INIT.as_bytes());
    archive.file("etc/passwd", PASSWD.as_bytes());
    archive.file("etc/group", GROUP.as_bytes());
    add_tools(&mut archive)?;
    add_modules(&mut archive, kernel, folder)?;
    archive.file("usr/sbin/wad", &read(wad)?);

    archive.file(&format!("tests/{}", run.name), &read(&run.program)?);
    let list = format!("{} {}\n", run.name, run.arguments.join(" "));
    archive.file("tests/list", list.as_bytes());
    if let Some(folder) = &run.reads {
        add_folder(&mut archive, Path::new("/"), folder)?;
    }
    if let Some(root) = &run.beside {
        add_folder(&mut archive, root, root)?;
    }
    Ok(archive.finish())
}

fn add_tools(archive: &mut Archive) -> Result<()> {
    let mut libraries = BTreeSet::new();
    for tool in TOOLS {
        let path = find(tool)?;
        libraries.extend(libraries_of(&path)?);
        archive.file(&format!("usr/bin/{tool}"), &read(&path)?);
    }
    for library in libraries {
        archive.file(library.trim_start_matches('/'), &read(Path::new(&library))?);
    }
    add_folder(archive, Path::new("/"), Path::new(LOCALE))?;
    let settings = read(Path::new(OPENSSL_SETTINGS))?;
    archive.file(OPENSSL_SETTINGS.trim_start_matches('/'), &settings);
    let busybox = find("busybox")?;
    archive.file("busybox/busybox", &read(&busybox)?);
    let applets = exec::output(Command::new(&busybox).arg("--list"))
        .with_context(|| format!("{} names no applets", busybox.display()))?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        archive.link(&format!("busybox/{applet}"), "busybox");
    }
    archive.link("usr/bin/sh", "bash");
    archive.link("bin/sh", "/usr/bin/bash");
    // Where the kernel looks for it.
    archive.link("sbin/modprobe", "/busybox/busybox");
    Ok(())
}

fn find(program: &str) -> Result<PathBuf> {
    exec::find_program(program).with_context(|| format!("{program} is missing"))
}

/// Returns what the dynamic loader would load with a program, itself included: ldd
/// shows a path on each line, after an arrow where it had to be looked for.
fn libraries_of(program: &Path) -> Result<Vec<String>> {
    let shown = exec::output(Command::new("ldd").arg(program))
        .with_context(|| format!("ldd cannot read {}", program.display()))?;
    let paths =
        shown.lines().filter_map(|line| line.split_whitespace().find(|w| w.starts_with('/')));
    Ok(paths.map(str::to_owned).collect())
}

/// Tells whether a module is wanted, as are network devices, queue disciplines,
/// congestion controls, and what `ss` asks.
fn is_wanted(module: &str) -> bool {
    let families = ["tcp_", "sch_", "inet_diag", "mptcp_diag"];
    ["tun", "veth", "vrf"].contains(&module) || families.iter().any(|name| module.starts_with(name))
}

fn add_modules(archive: &mut Archive, kernel: &Kernel, folder: &Path) -> Result<()> {
    let root = folder.join("modules");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
    }
    kernel.copy_modules(&root, is_wanted)?;
    add_folder(archive, &root, &root)
}

fn add_folder(archive: &mut Archive, root: &Path, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            add_folder(archive, root, &path)?;
        } else {
            let within = path.strip_prefix(root)?;
            archive.file(&within.to_string_lossy(), &read(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_those_that_tests_use() {
        for module in ["tcp_highspeed", "sch_netem", "veth", "tcp_diag", "tun", "vrf"] {
            assert!(is_wanted(module), "{module}");
        }
        assert!(!is_wanted("e1000") && !is_wanted("tunnel4"));
    }
}
