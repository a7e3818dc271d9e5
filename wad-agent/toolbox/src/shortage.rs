//! A shortage is what the kernel refuses for want of descriptors, threads or memory. Those
//! who meet one say what goes without; here it is counted, for the whole process.

use std::{
    error::Error,
    fmt, io,
    sync::atomic::{AtomicU64, Ordering},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Open files, of the process (`RLIMIT_NOFILE`) or the host.
    Descriptors,
    /// Threads, of the cgroup (`pids.max`), the user or the host.
    Threads,
    Memory,
}

/// How often something has failed for want of each.
pub type Counts = [u64; Shortage::ALL.len()];

static COUNTS: [AtomicU64; Shortage::ALL.len()] =
    [const { AtomicU64::new(0) }; Shortage::ALL.len()];

// Numbers of errors (include/uapi/asm-generic/errno-base.h, errno.h).
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOBUFS: i32 = 105;

impl Shortage {
    pub const ALL: [Self; 3] = [Self::Descriptors, Self::Threads, Self::Memory];

    /// Returns what metrics call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
            Self::Memory => "memory",
        }
    }

    /// Returns what an error of the kernel is for want of.
    #[must_use]
    pub fn behind(error: &io::Error) -> Option<Self> {
        if error.get_ref().is_some_and(|inner| inner.is::<NoThread>()) {
            return Some(Self::Threads);
        }
        match error.raw_os_error()? {
            EMFILE | ENFILE => Some(Self::Descriptors),
            ENOMEM | ENOBUFS => Some(Self::Memory),
            _ => None,
        }
    }

    pub fn count(self) {
        COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The errno that clone(2) gives when no thread can be had is that of much else, too
/// (EAGAIN).
#[derive(Debug)]
struct NoThread(io::Error);

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no thread can be had: {}", self.0)
    }
}

impl Error for NoThread {}

/// Says of an error that it is one of making a thread.
#[must_use]
pub fn of_threads(error: io::Error) -> io::Error {
    io::Error::other(NoThread(error))
}

/// Counts what an error, or what caused it, is for want of.
pub fn note(error: &(dyn Error + 'static)) {
    let kernel = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().and_then(Shortage::behind)
    };
    if let Some(shortage) = anyhow::Chain::new(error).find_map(kernel) {
        shortage.count();
    }
}

#[must_use]
pub fn counts() -> Counts {
    COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_found_behind_what_it_has_caused() {
        let of = |errno| Shortage::behind(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::EMFILE), Some(Shortage::Descriptors));
        assert_eq!(of(libc::ENFILE), Some(Shortage::Descriptors));
        assert_eq!(of(libc::ENOMEM), Some(Shortage::Memory));
        assert_eq!(of(libc::ENOBUFS), Some(Shortage::Memory));
        assert_eq!((of(libc::EPERM), of(libc::EAGAIN)), (None, None));
        let no_thread = of_threads(io::Error::from_raw_os_error(libc::EAGAIN));
        assert_eq!(Shortage::behind(&no_thread), Some(Shortage::Threads));
        assert!(no_thread.to_string().starts_with("no thread can be had: Resource"), "{no_thread}");

        let before = counts();
        for error in [libc::EMFILE, libc::EPERM] {
            let error = anyhow::Error::from(io::Error::from_raw_os_error(error));
            note(error.context("cannot look").as_ref());
        }
        assert_eq!(counts(), [before[0] + 1, before[1], before[2]]);
    }
}
