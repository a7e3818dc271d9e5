//! A real Kubernetes: control plane, kubelet and containerd, on one node that has namespaces
//! and cgroups of its own. Nothing that it mounts, routes, pins or sets is the host's.

mod hierarchies;
mod image;
mod registry;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use self::hierarchies::Hierarchies;
pub use self::{image::Image, registry::Registry};
use crate::{
    first_process,
    process::{Place, Process, ProcessError, run_command},
    signal::Interrupted,
    stand::{Late, until},
};

/// The name of the node.
pub const NODE: &str = "node1";
/// The address of the node; pods have others.
pub const ADDRESS: &str = "10.250.0.2";

const CERTIFICATES: &str = include_str!("kubernetes/certificates.sh");
const BOOT: &str = include_str!("kubernetes/node.sh");
/// Files are there by these names, with the folder in the place of @FOLDER@.
const FILES: [(&str, &str); 5] = [
    ("containerd.toml", include_str!("kubernetes/containerd.toml")),
    ("kubelet.yaml", include_str!("kubernetes/kubelet.yaml")),
    ("network/10-test.conflist", include_str!("kubernetes/network.conflist")),
    // skopeo looks in the home of whoever calls it.
    (".config/containers/registries.conf", include_str!("kubernetes/registries.conf")),
    ("registries/registry.example/hosts.toml", include_str!("kubernetes/hosts.toml")),
];

/// From nothing to a node that takes pods it is some ten seconds on two cores.
const START_LIMIT: Duration = Duration::from_secs(180);
/// Commands that wait for nothing get so many seconds.
const SOON: &str = "60";

/// Tells what went wrong with a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot write {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("a node takes cgroups of version 1 beside those of version 2, as hybrid hosts have")]
    Cgroups(#[source] io::Error),
}

/// A cluster of one node; it ends with all of its processes when dropped.
pub struct Cluster {
    /// The parent of process 1, which dies with it.
    outer: Process,
    /// Process 1, by its number outside.
    pid: u32,
    folder: PathBuf,
    programs: PathBuf,
    // Dropped last: they are empty when all processes are gone.
    _hierarchies: Hierarchies,
}

impl Cluster {
    /// Starts it with its files in a folder, and waits until it answers. `programs` is a
    /// folder with those of Kubernetes.
    ///
    /// # Errors
    /// Without root, or where something does not come up.
    pub fn start(folder: &Path, programs: &Path) -> Result<Self, ClusterError> {
        let hierarchies = Hierarchies::create().map_err(ClusterError::Cgroups)?;
        let written = |name: &str, text: &str| {
            let path = folder.join(name);
            let write = || {
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
                fs::write(&path, text.replace("@FOLDER@", &folder.display().to_string()))
            };
            write().map_err(|source| ClusterError::Folder { path: path.clone(), source })
        };
        FILES.iter().try_for_each(|(name, text)| written(name, text))?;
        let script = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-euc", text, "sh"]).arg(folder);
            command
        };
        run_command(script(CERTIFICATES).args([NODE, ADDRESS]))?;

        let enter = hierarchies.entrances().map(|file| format!("echo $$ > {}\n", file.display()));
        let enter: String = enter.collect();
        let mut command = script(&format!("{enter}shift\nexec unshare \"$@\""));
        command.args(["--cgroup", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork"]);
        command.args(["--kill-child", "--mount-proc", "--propagation", "private"]);
        command.args(["sh", "-euc", BOOT, "sh"]).arg(folder).arg(programs).args([NODE, ADDRESS]);
        let log = folder.join("node.log");
        let failed = |source| ClusterError::Folder { path: log.clone(), source };
        let out = File::create(&log).map_err(failed)?;
        let errors = out.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        let outer = Place::default().spawn(command)?;
        let pid = first_process::number::<ClusterError>(&outer, START_LIMIT)?;
        let cluster = Self {
            outer,
            pid,
            folder: folder.to_owned(),
            programs: programs.to_owned(),
            _hierarchies: hierarchies,
        };
        let node = || {
            let mut command = cluster.command("kubectl");
            command.args(["get", "node", NODE, "--output", "jsonpath={.status.conditions}"]);
            Ok::<_, ClusterError>(run_command(&mut command).unwrap_or_default())
        };
        let is_there = |conditions: &String| !conditions.is_empty();
        until("the node is known", START_LIMIT, node, is_there)?;
        let account = ["--namespace=default", "--for=create", "serviceaccount/default"];
        cluster.kubectl(&[&["wait"], &account[..]].concat())?;
        Ok(cluster)
    }

    /// Returns a command that runs in the node's namespaces.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_within(SOON, program)
    }

    /// Returns one that is ended after so many seconds.
    fn command_within(&self, seconds: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = first_process::command(self.pid, "timeout");
        command.args(["--kill-after=5", seconds]).arg(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs.display()));
        command.env("KUBECONFIG", self.kubeconfig());
        command.env("CONTAINERD_ADDRESS", self.folder.join("containerd/containerd.sock"));
        command.env("CONTAINERD_NAMESPACE", "k8s.io");
        // helm keeps what it caches there, and skopeo looks there for its configuration.
        command.env("HOME", &self.folder);
        command
    }

    /// Returns a command that runs there for as long as it wants.
    #[must_use]
    pub fn server(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_within("0", program)
    }

    /// Returns what identifies an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("pki/admin.kubeconfig")
    }

    /// Returns what `kubectl` prints.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, ProcessError> {
        run_command(self.command_within("180", "kubectl").args(arguments))
    }

    /// Returns what `helm` prints.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn helm(&self, arguments: &[&str]) -> Result<String, ProcessError> {
        run_command(self.command_within("180", "helm").args(arguments))
    }

    /// Has the node have the images of an archive.
    ///
    /// # Errors
    /// When it is none that containerd takes.
    pub fn import(&self, archive: &Path) -> Result<(), ProcessError> {
        run_command(self.command("ctr").args(["images", "import"]).arg(archive)).map(drop)
    }

    /// Returns the last lines of what components and events say, for a test that failed.
    #[must_use]
    pub fn report(&self) -> String {
        let asked: [&[&str]; 3] = [
            &["get", "pods", "--all-namespaces", "--output", "wide"],
            &["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"],
            &["logs", "--namespace=wad", "--selector=app.kubernetes.io/name=wad", "--prefix"],
        ];
        let said = |arguments: &&[&str]| match self.kubectl(arguments) {
            Ok(text) => text,
            Err(error) => error.to_string(),
        };
        let mut report: String = asked.iter().map(said).collect();
        for name in ["kubelet", "containerd", "apiserver"] {
            let log = self.folder.join("log").join(name).with_extension("log");
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(20)..].join("\n");
            report.push_str(&format!("{name}:\n{last}\n"));
        }
        report
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.outer.signal(Signal::SIGKILL);
        // All others die with process 1.
        let begun = Instant::now();
        let gone = Path::new("/proc").join(self.pid.to_string());
        while gone.exists() && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}
