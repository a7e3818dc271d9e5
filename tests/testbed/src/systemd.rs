//! A real systemd, as process 1 of namespaces of its own: it knows one service, and what
//! that changes below /run, /var and /sys/fs/bpf is nobody else's.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    cgroup::{self, Cgroup},
    first_process,
    process::{Place, Process, ProcessError, run_command},
    signal::Interrupted,
    stand::{Late, until},
};

/// Tells what went wrong with systemd.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Process 1 does this first. The folder of units is `$1`. Mounts are shared below it, as on
/// a host: credentials come to a service by one.
const BOOT: &str = r#"
    mount --make-rprivate /
    mount -t proc proc /proc
    umount -R /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    while umount --lazy /sys/fs/bpf 2>/dev/null; do :; done
    mount -t bpf none /sys/fs/bpf
    for folder in /run /var/lib /var/log /var/cache; do mount -t tmpfs none $folder; done
    mount --make-rshared /
    export container=wad SYSTEMD_UNIT_PATH="$1"
    export SYSTEMD_PROC_CMDLINE=systemd.unified_cgroup_hierarchy=1
    exec /lib/systemd/systemd --system --unit=wad.target --log-target=console --show-status=no
"#;

/// Process 1 of another distribution does this first: its root is `$1`, of which nothing
/// is changed but in memory, in the folder `$2`; `$3` is to be its /mnt.
const BOOT_IN: &str = r#"
    mount --make-rprivate /
    mount -t tmpfs none "$2"
    root="$2/root"
    mkdir "$2/upper" "$2/work" "$root"
    mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" none "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs none "$root/sys"
    mount -t cgroup2 none "$root/sys/fs/cgroup"
    mount -t bpf none "$root/sys/fs/bpf"
    mount --rbind /dev "$root/dev"
    mount --bind "$3" "$root/mnt"
    mount -t tmpfs none "$root/run"
    units="$root/etc/systemd/system"
    mkdir "$units/wad.service.d" "$root/old"
    printf '[Unit]\nDefaultDependencies=no\n' | tee "$units/wad.target" >"$units/wad.service.d/test.conf"
    printf '[Service]\nStandardError=append:/run/wad.log\n' >>"$units/wad.service.d/test.conf"
    cd "$root"
    pivot_root . old
    umount --lazy old
    rmdir old
    export container=wad SYSTEMD_PROC_CMDLINE=systemd.unified_cgroup_hierarchy=1
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin
    exec /lib/systemd/systemd --system --unit=wad.target --log-target=console --show-status=no
"#;

/// Only what it is asked for is started, and the service does not wait for a machine.
const TARGET: &str = "[Unit]\nDefaultDependencies=no\n";

const LIMIT: Duration = Duration::from_secs(20);

/// A systemd with one service, `wad`; it ends with all of its processes when dropped.
pub struct Systemd {
    /// The parent of process 1, which dies with it.
    outer: Process,
    /// Process 1, by its number outside.
    pid: u32,
    cgroup: PathBuf,
}

impl Systemd {
    /// Starts it below a cgroup, with a unit and what a drop-in says beyond it, and waits
    /// until it answers. The units are written into the folder.
    ///
    /// # Errors
    /// Without root, or where systemd does not run.
    pub fn start(
        cgroup: &Cgroup,
        folder: &Path,
        unit: &Path,
        drop_in: &str,
    ) -> Result<Self, SystemdError> {
        let units = folder.join("units");
        let drop_ins = units.join("wad.service.d");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SystemdError::Write { path, source }
        };
        fs::create_dir_all(&drop_ins).map_err(failed(&drop_ins))?;
        fs::copy(unit, units.join("wad.service")).map_err(failed(unit))?;
        fs::write(units.join("wad.target"), TARGET).map_err(failed(&units))?;
        // Its configuration is the test's own.
        let unit = "[Unit]\nDefaultDependencies=no\nConditionPathExists=\n";
        let text = format!("{unit}{drop_in}");
        fs::write(drop_ins.join("test.conf"), text).map_err(failed(&drop_ins))?;
        Self::boot(cgroup, folder, BOOT, &[&units])
    }

    /// Starts the systemd of another distribution, whose root it is given, below a cgroup.
    /// A folder is at /mnt there.
    ///
    /// # Errors
    /// Without root, or where systemd does not run.
    pub fn start_in(
        cgroup: &Cgroup,
        folder: &Path,
        root: &Path,
        mounted: &Path,
    ) -> Result<Self, SystemdError> {
        let memory = folder.join("memory");
        fs::create_dir(&memory)
            .map_err(|source| SystemdError::Write { path: memory.clone(), source })?;
        Self::boot(cgroup, folder, BOOT_IN, &[root, &memory, mounted])
    }

    /// Starts process 1, which runs a script first, and waits until it answers.
    fn boot(
        cgroup: &Cgroup,
        folder: &Path,
        script: &str,
        arguments: &[&Path],
    ) -> Result<Self, SystemdError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SystemdError::Write { path, source }
        };
        let log = folder.join("systemd.log");
        let log = fs::File::create(&log).map_err(failed(&log))?;
        let errors = log.try_clone().map_err(failed(folder))?;
        let mut command = Command::new("unshare");
        command.args(["--cgroup", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-euc", script, "sh"]).args(arguments);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let outer = Place { netns: None, cgroup: Some(cgroup) }.spawn(command)?;
        let pid = first_process::number::<SystemdError>(&outer, LIMIT)?;
        let systemd = Self { outer, pid, cgroup: cgroup.path().to_owned() };
        let answers = || {
            let mut command = systemd.command("systemctl");
            let output = command.args(["show", "--property=Version"]).output();
            Ok::<_, SystemdError>(output.is_ok_and(|output| output.status.success()))
        };
        until("systemd answers", LIMIT, answers, |answers| *answers)?;
        Ok(systemd)
    }

    /// Returns a command that runs in its namespaces.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        first_process::command(self.pid, program)
    }

    /// Returns a command that runs in its namespaces, but on the network of whoever starts it.
    #[must_use]
    pub fn command_on_own_network(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        first_process::command_on_own_network(self.pid, program)
    }

    /// Returns what `systemctl` prints.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn systemctl(&self, arguments: &[&str]) -> Result<String, ProcessError> {
        run_command(self.command("systemctl").args(arguments))
    }

    /// Returns a property of the service, as `systemctl show` has it.
    ///
    /// # Errors
    /// When systemd does not answer.
    pub fn property(&self, name: &str) -> Result<String, ProcessError> {
        let value = self.systemctl(&["show", "--value", "--property", name, "wad.service"])?;
        Ok(value.trim().to_owned())
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.outer.signal(Signal::SIGKILL);
        // What systemd made goes first, innermost first, as soon as it is empty.
        for _ in 0..50 {
            if cgroup::remove_below(&self.cgroup) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        crate::say("cgroups of systemd are left over");
    }
}
