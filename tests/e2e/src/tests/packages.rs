//! A package comes to a host of its distribution, is upgraded, taken back to the version
//! before, removed and purged, while connections come and go: under the distribution's own package manager and systemd.
//! Roots of distributions take minutes to make, so `cargo xtask package --check` runs this.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_testbed::{
    inventory::Inventory,
    process::run_command,
    stand::{Stand, until},
    sysctl,
    systemd::Systemd,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
};

use super::systemd::{is_tuned, path, with_newcomers};
use crate::book;

const LIMIT: Duration = Duration::from_secs(20);

/// Sysctls that a path with buffers of a given size changes.
const SYSCTLS: [&str; 2] = ["net.core.wmem_max", "net.core.rmem_max"];

/// Package managers note things for themselves here, which stay.
const NOTES: [&str; 9] = [
    "/var/cache/apt/",
    "/var/cache/debconf/",
    "/var/lib/apt/",
    "/var/lib/dpkg/",
    "/var/log/alternatives.log",
    "/var/log/apt/",
    "/var/log/dpkg.log",
    // Debian's rpm has its database in the home of whoever calls it.
    "/root/.rpmdb",
    "/var/lib/rpm",
];

/// A host of a distribution.
struct Host {
    systemd: Systemd,
    /// The package manager is Debian's, or else RPM.
    is_debian: bool,
}

/// Lets two versions of a package live in the root of a distribution.
pub fn live(root: &Path, earlier: &Path, package: &Path) -> Result<()> {
    let stand = Stand::set_up("package")?;
    let folder = tempfile::tempdir()?;
    let mounted = package.parent().context("a package is in a folder")?;
    let systemd = Systemd::start_in(stand.cgroup(), folder.path(), root, mounted)?;
    let is_debian = package.extension().is_some_and(|ending| ending == "deb");
    let host = Host { systemd, is_debian };
    host.live(earlier, package).with_context(|| {
        let log = host.run(&["cat", "/run/wad.log"]).unwrap_or_default();
        format!("{} in {}; {log}", package.display(), root.display())
    })
}

impl Host {
    fn live(&self, earlier: &Path, package: &Path) -> Result<()> {
        let kernel = Inventory::take()?;
        let sysctls = sysctls()?;
        let files = self.files()?;
        let wait = || Ok::<_, anyhow::Error>(Inventory::take()?.since(&kernel));

        if self.is_debian {
            self.is_tuning(false)?;
            self.install_by_the_book(package)?;
            self.is_tuning(true)?;
            self.purge()?;
            self.is_tuning(false)?;
            until("the kernel has nothing of it", LIMIT, wait, Inventory::is_empty)?;
            println!("three lines of the book install it");
        }

        self.install(earlier)?;
        ensure!(self.state()? == "inactive", "without a policy it is {}", self.state()?);
        ensure!(Inventory::take()? == kernel, "to install it puts something into the kernel");
        let enabled = self.systemd.property("UnitFileState")?;
        // RPM asks the distribution's presets, of which Debian has none: all are enabled.
        ensure!(enabled == "enabled", "it is {enabled}");

        self.write_policy("")?;
        self.systemd.systemctl(&["start", "wad.service"])?;
        self.is_tuning(true)?;
        with_newcomers(|stream, transfer, wire| {
            stream.await_more(50)?;
            // There and back, as where an upgrade was no good after all.
            for next in [package, earlier, package] {
                self.replace_by(next)?;
                stream.await_more(50)?;
                transfer.exchange(1_000_000)?;
                let flow = transfer.near_flow(wire.a())?;
                ensure!(is_tuned(&flow), "{}: {flow:?}", next.display());
            }
            Ok(())
        })?;

        self.remove()?;
        self.is_tuning(false)?;
        ensure!(sysctls == self::sysctls()?, "sysctls are not as before");
        until("the kernel has nothing of it", LIMIT, wait, Inventory::is_empty)?;

        // An agent that is gone while its tuning goes on is nobody's to clean up but the
        // package's.
        self.install(package)?;
        self.write_policy("[agent]\non_exit = 'keep'\n")?;
        self.systemd.systemctl(&["restart", "wad.service"])?;
        self.is_tuning(true)?;
        self.systemd.systemctl(&["stop", "wad.service"])?;
        self.is_tuning(true)?;
        // Another agent, as the chart's, has its state in the same folders.
        self.run(&["touch", "/run/wad/other.state_dir"])?;
        self.purge()?;
        self.is_tuning(false)?;
        until("the kernel has nothing of it", LIMIT, wait, Inventory::is_empty)?;
        ensure!(sysctls == self::sysctls()?, "sysctls are not as before");
        self.run(&["rm", "-r", "/run/wad/other.state_dir", "/var/lib/wad"])?;
        let left: Vec<String> = self.files()?.difference(&files).cloned().collect();
        ensure!(left.is_empty(), "left over: {left:?}");
        Ok(())
    }

    fn run(&self, command: &[&str]) -> Result<String> {
        let mut process = self.systemd.command(command[0]);
        Ok(run_command(process.args(&command[1..]).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))?)
    }

    /// Enters the lines that a newcomer does, in a folder with the package and a policy.
    fn install_by_the_book(&self, package: &Path) -> Result<()> {
        let policy = book::block(book::FIRST_POLICY, "A first policy", "toml")?;
        let folder = package.parent().context("a package is in a folder")?;
        fs::write(folder.join("wad.toml"), policy.to_owned() + &path("p", ADDRESSES_V4[1]))?;
        let lines = book::block(book::INSTALL, book::ON_A_HOST, "sh")?;
        // The book has the package of one machine.
        let name = package.file_name().context("a package is a file")?.to_string_lossy();
        let machine = name.rsplit(['_', '.']).nth(1).context("a package is for a machine")?;
        let lines = lines.replace("_amd64", &format!("_{machine}"));
        self.run(&["sh", "-euc", &format!("cd /mnt\n{lines}")])?;
        Ok(())
    }

    fn install(&self, package: &Path) -> Result<()> {
        let name = package.file_name().context("a package is a file")?.to_string_lossy();
        let file = format!("/mnt/{name}");
        if self.is_debian {
            self.run(&["dpkg", "--install", &file])?;
        } else {
            let upgrade = ["rpm", "--upgrade", "--oldpackage", "--nodeps", "--force-debian", &file];
            self.run(&upgrade)?;
        }
        Ok(())
    }

    /// Has another build's package take the place of the one that is installed, whose agent
    /// runs.
    fn replace_by(&self, package: &Path) -> Result<()> {
        let name = package.display();
        let first = self.systemd.property("MainPID")?;
        let digest = || self.run(&["sha256sum", "/usr/bin/wad"]);
        let before = digest()?;
        self.install(package)?;
        ensure!(digest()? != before, "{name}: the program is as before");
        ensure!(self.state()? == "active", "{name}: it is {}", self.state()?);
        ensure!(self.systemd.property("MainPID")? != first, "{name}: the agent is the one before");
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        let with = if self.is_debian { ["dpkg", "--remove"] } else { ["rpm", "--erase"] };
        self.run(&[&with[..], &["wad"]].concat())?;
        Ok(())
    }

    /// Removes it with its configuration, which under RPM is the administrator's to do.
    fn purge(&self) -> Result<()> {
        if self.is_debian {
            self.run(&["dpkg", "--purge", "wad"])?;
        } else {
            self.remove()?;
            self.run(&["rm", "-r", "/etc/wad"])?;
        }
        Ok(())
    }

    fn write_policy(&self, more: &str) -> Result<()> {
        let text = path("p", ADDRESSES_V4[1]) + more;
        self.run(&[
            "sh",
            "-euc",
            "mkdir -p /etc/wad; printf %s \"$1\" >/etc/wad/wad.toml",
            "sh",
            &text,
        ])?;
        Ok(())
    }

    fn state(&self) -> Result<String> {
        Ok(self.systemd.property("ActiveState")?)
    }

    /// Looks whether a new connection is tuned.
    fn is_tuning(&self, is_wanted: bool) -> Result<()> {
        let wire = Wire::start()?;
        let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7002))?;
        let flow = connection.near_flow(wire.a())?;
        ensure!(is_tuned(&flow) == is_wanted, "should be tuned: {is_wanted}; {flow:?}");
        Ok(())
    }

    /// Returns all files of the host that are not the package managers' own notes.
    fn files(&self) -> Result<BTreeSet<String>> {
        let found = self.run(&["find", "/", "-xdev"])?;
        let is_note = |path: &&str| NOTES.iter().any(|note| path.starts_with(note));
        Ok(found.lines().filter(|path| !is_note(path)).map(str::to_owned).collect())
    }
}

fn sysctls() -> Result<Vec<String>> {
    SYSCTLS.iter().map(|name| Ok(sysctl::get(name)?)).collect()
}
