//! The process's own use of the host, as each client of Prometheus tells it.

use std::{fs, io, time::Duration};

use nix::{
    sys::resource::{Resource, UsageWho, getrlimit, getrusage},
    sys::time::TimeValLike as _,
    unistd::{SysconfVar, sysconf},
};

/// Holds what the process uses. What the host does not tell is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time of processors, the process's own and the kernel's for it.
    pub cpu: Option<Duration>,
    pub resident_bytes: Option<u64>,
    pub open_descriptors: Option<u64>,
    pub max_descriptors: Option<u64>,
}

impl Usage {
    /// Reads it now.
    #[must_use]
    pub fn now() -> Self {
        Self {
            cpu: cpu(),
            resident_bytes: resident_bytes(),
            open_descriptors: open_descriptors().ok(),
            max_descriptors: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
        }
    }
}

fn cpu() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    u64::try_from(us).ok().map(Duration::from_micros)
}

/// Returns the second number of `statm`, which counts pages (proc_pid_statm(5)).
fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages.checked_mul(page_bytes.try_into().ok()?)
}

/// Counts the descriptors, but for the one that the count takes.
fn open_descriptors() -> io::Result<u64> {
    let count = fs::read_dir("/proc/self/fd")?.count();
    Ok(count.saturating_sub(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_what_is_used() {
        let before = Usage::now();
        let memory = vec![1_u8; 32 << 20];
        let files: Vec<_> = (0..400).map(|_| fs::File::open("/proc/self/statm").unwrap()).collect();
        let until = std::time::Instant::now() + Duration::from_millis(50);
        while std::time::Instant::now() < until {
            std::hint::black_box(&memory);
        }
        let after = Usage::now();
        assert!(after.cpu.unwrap() >= before.cpu.unwrap() + Duration::from_millis(10));
        // Other tests run beside this one, and may give some back: a hundred descriptors and more.
        assert!(after.resident_bytes.unwrap() > before.resident_bytes.unwrap() + (16 << 20));
        assert!(after.open_descriptors.unwrap() > before.open_descriptors.unwrap() + 200);
        assert!(after.max_descriptors.unwrap() >= after.open_descriptors.unwrap());
        drop((memory, files));
    }
}
