//! A process gets no more of something than a test lets it have: descriptors, threads.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use crate::cgroup;

/// Tells which limit could not be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}", path = path.display())]
pub struct LimitsError {
    path: PathBuf,
    source: io::Error,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> LimitsError {
    move |source| LimitsError { path: path.to_owned(), source }
}

/// Returns how many descriptors a process has open.
///
/// # Errors
/// When there is no such process.
pub fn descriptors(process: u32) -> Result<usize, LimitsError> {
    let path = PathBuf::from(format!("/proc/{process}/fd"));
    Ok(fs::read_dir(&path).map_err(failed(&path))?.count())
}

/// Returns how many descriptors whoever started this process has left to it and all that it starts,
/// beyond the standard three: they take room of those that a process may have.
///
/// # Errors
/// Without /proc.
pub fn inherited() -> Result<u64, LimitsError> {
    let folder = Path::new("/proc/self/fdinfo");
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        let number: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // That of the folder is closed by now, or is closed for others.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        let stays = flags.is_some_and(|flags| flags & libc::O_CLOEXEC == 0);
        count += u64::from(stays && number > Some(2));
    }
    Ok(count)
}

/// Bounds the descriptors of a process that runs, by its soft limit: to lift the hard one
/// again takes a privilege.
///
/// # Errors
/// Without root.
pub fn bound_descriptors(process: u32, most: u64) -> Result<(), LimitsError> {
    let path = PathBuf::from(format!("/proc/{process}/limits"));
    let process = process.cast_signed();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one limit and reads none, and then the other way round.
    let result = unsafe {
        match libc::prlimit(process, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) {
            0 => {
                limit.rlim_cur = most.min(limit.rlim_max);
                let limit = &raw const limit;
                libc::prlimit(process, libc::RLIMIT_NOFILE, limit, std::ptr::null_mut())
            }
            error => error,
        }
    };
    if result == 0 { Ok(()) } else { Err(failed(&path)(io::Error::last_os_error())) }
}

/// A cgroup that bounds the threads of a process; it lets go of it when dropped.
#[derive(Debug)]
pub struct ThreadBound {
    path: PathBuf,
}

impl ThreadBound {
    /// Takes a process, which gets no thread from here on beyond those that it has.
    ///
    /// # Errors
    /// Without root, or the controller `pids`.
    pub fn of(process: u32) -> Result<Self, LimitsError> {
        let root = root()?;
        let path = root.join(format!("wad-{}-threads-{process}", process::id()));
        fs::create_dir(&path).map_err(failed(&path))?;
        let bound = Self { path };
        bound.write("cgroup.procs", &process.to_string())?;
        bound.allow("0")?;
        Ok(bound)
    }

    /// Lets it have so many threads, or `max`.
    ///
    /// # Errors
    /// Without root.
    pub fn allow(&self, most: &str) -> Result<(), LimitsError> {
        self.write("pids.max", most)
    }

    /// Returns how often a thread was refused.
    ///
    /// # Errors
    /// When the cgroup is gone.
    pub fn refused(&self) -> Result<u64, LimitsError> {
        let path = self.path.join("pids.events");
        let events = fs::read_to_string(&path).map_err(failed(&path))?;
        let count = events.lines().find_map(|line| line.strip_prefix("max ")?.parse().ok());
        Ok(count.unwrap_or(0))
    }

    fn write(&self, file: &str, value: &str) -> Result<(), LimitsError> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(failed(&path))
    }
}

impl Drop for ThreadBound {
    fn drop(&mut self) {
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let above = self.path.parent().map(|above| above.join("cgroup.procs"));
        for process in members.lines() {
            let _ = above.as_ref().map(|above| fs::write(above, process));
        }
        if let Err(error) = fs::remove_dir(&self.path) {
            crate::say(&format!("cgroup {} stays behind: {error}", self.path.display()));
        }
    }
}

/// Returns where cgroups have the controller `pids`: a hierarchy of its own (version 1), or
/// the one of all (version 2), which is told to have it.
fn root() -> Result<PathBuf, LimitsError> {
    let table = Path::new("/proc/self/mountinfo");
    let mounts = fs::read_to_string(table).map_err(failed(table))?;
    let own = mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut filesystem = filesystem.split(' ');
        let is_of_it = filesystem.next() == Some("cgroup")
            && filesystem.next_back()?.split(',').any(|option| option == "pids");
        is_of_it.then(|| mount.split(' ').nth(4)).flatten().map(PathBuf::from)
    });
    if let Some(own) = own {
        return Ok(own);
    }
    let no_root = |error| failed(table)(io::Error::other(error));
    let root = cgroup::mount_point().map_err(no_root)?;
    let control = root.join("cgroup.subtree_control");
    fs::write(&control, "+pids").map_err(failed(&control))?;
    Ok(root)
}
