//! A named network namespace (as `ip netns` lists them) is deleted when dropped; so are
//! many at once.

use std::{
    env,
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use nix::sched::{CloneFlags, setns};

use crate::command::{ProcessError, run};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Tells what went wrong with a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    #[error("cannot create network namespace {name}")]
    Create { name: String, source: ProcessError },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("ip cannot {command} {count} network namespaces")]
    Batch { command: &'static str, count: usize, source: ProcessError },
    #[error("cannot open network namespace {path}", path = path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot enter network namespace {name}")]
    Enter { name: String, source: io::Error },
}

/// A network namespace with a name of this process's own.
#[derive(Debug)]
pub struct Netns {
    name: String,
    file: File,
}

impl Netns {
    /// Creates a namespace whose name holds `label` and is unique on the host.
    ///
    /// # Errors
    /// Without root, or where `ip netns` fails.
    pub fn create(label: &str) -> Result<Self, NetnsError> {
        Self::named(label, |name| run("ip", &["netns", "add", name]))
    }

    /// Gives the namespace that this process is in such a name, for as long as this
    /// lives.
    ///
    /// # Errors
    /// Without root, or where `ip netns` fails.
    pub fn own(label: &str) -> Result<Self, NetnsError> {
        let process = process::id().to_string();
        Self::named(label, |name| run("ip", &["netns", "attach", name, &process]))
    }

    fn named(
        label: &str,
        make: impl FnOnce(&str) -> Result<String, ProcessError>,
    ) -> Result<Self, NetnsError> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wad-{}-{count}-{label}", process::id());
        make(&name).map_err(|source| NetnsError::Create { name: name.clone(), source })?;
        let path = PathBuf::from("/run/netns").join(&name);
        match File::open(&path) {
            Ok(file) => Ok(Self { name, file }),
            Err(source) => {
                delete(&name);
                Err(NetnsError::Open { path, source })
            }
        }
    }

    /// Returns the name that `ip -n` takes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what other threads can enter it by, for as long as they like: its name may be gone
    /// before.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn handle(&self) -> io::Result<Handle> {
        Ok(Handle(self.file.try_clone()?))
    }

    /// Makes the calling thread a member for the rest of its life.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub fn enter(&self) -> Result<(), NetnsError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| NetnsError::Enter { name: self.name.clone(), source: errno.into() })
    }

    /// Runs code inside, on a thread of its own.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter().map(|()| inside()));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs iproute2's `ip` on this namespace.
    ///
    /// # Errors
    /// When it fails.
    pub fn ip(&self, arguments: &[&str]) -> Result<String, ProcessError> {
        let mut all = vec!["-n", &self.name];
        all.extend(arguments);
        run("ip", &all)
    }
}

/// A way into a network namespace.
#[derive(Debug)]
pub struct Handle(File);

impl Handle {
    /// Makes the calling thread a member for the rest of its life.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // What its sockets have not sent takes of the host's memory for TCP until they
        // give up: minutes, and the next test counts it.
        let _ = self.run(|| crate::sysctl::set("net.ipv4.tcp_orphan_retries", "1"));
        delete(&self.name);
    }
}

/// Many namespaces that nothing is in.
#[derive(Debug)]
pub struct Crowd {
    names: Vec<String>,
}

impl Crowd {
    /// Creates so many namespaces.
    ///
    /// # Errors
    /// Without root, or where `ip netns` fails.
    pub fn create(count: usize) -> Result<Self, NetnsError> {
        let first = COUNT.fetch_add(count as u32, Ordering::Relaxed);
        let name = |n| format!("wad-{}-{n}-crowd", process::id());
        let crowd = Self { names: (first..).take(count).map(name).collect() };
        crowd.batch("add")?;
        Ok(crowd)
    }

    /// Has one `ip` do it for all: a process each would take ten times as long.
    fn batch(&self, command: &'static str) -> Result<(), NetnsError> {
        let line = |name| format!("netns {command} {name}\n");
        let lines: String = self.names.iter().map(line).collect();
        let path = env::temp_dir().join(format!("wad-{}-{command}", self.names[0]));
        let written = fs::write(&path, lines);
        written.map_err(|source| NetnsError::Write { path: path.clone(), source })?;
        let done = run("ip", &["-force", "-batch", &path.to_string_lossy()]);
        let _ = fs::remove_file(&path);
        let count = self.names.len();
        done.map(drop).map_err(|source| NetnsError::Batch { command, count, source })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Err(error) = self.batch("del") {
            crate::say(&format!("namespaces stay behind: {error}"));
        }
    }
}

/// Deletes a namespace, or says that it could not.
pub fn delete(name: &str) {
    if let Err(error) = run("ip", &["netns", "del", name]) {
        crate::say(&format!("network namespace {name} stays behind: {error}"));
    }
}
