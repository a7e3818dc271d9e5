//! The memory that TCP holds, as the kernel counts it in /proc/net/sockstat: of the whole
//! host, whatever network namespace asks. What others hold is not taken off. Counts are
//! in bytes; a processor may be ahead of the kernel's by a MiB (SK_MEMORY_PCPU_RESERVE).

use std::{
    fs, io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use wad_testbed::sysctl::{self, SysctlError};

const FILE: &str = "/proc/net/sockstat";
const EVERY: Duration = Duration::from_secs(1);
/// A watch notices this soon that it is to stop.
const STEP: Duration = Duration::from_millis(50);

/// So much was held during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// An agent's bound by default.
    pub limit_bytes: u64,
    /// So much was held at the start, and at each second after it.
    pub held_bytes: Vec<u64>,
}

impl Memory {
    /// Returns the most that was held.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        self.held_bytes.iter().copied().max().unwrap_or(0)
    }

    /// Returns the most that was held, over the bound.
    #[must_use]
    pub fn most_of_limit(&self) -> f64 {
        self.most_bytes() as f64 / self.limit_bytes as f64
    }
}

/// Tells what kept the memory from being watched.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error("net.ipv4.tcp_mem is \"{value}\", not three numbers")]
    Bound { value: String },
    #[error("cannot read what TCP holds in {FILE}")]
    Held(#[from] io::Error),
}

/// Returns the bound that an agent has by default: the first number of `tcp_mem`.
///
/// # Errors
/// When it cannot be read: in a network namespace other than the host's first.
pub fn default_limit_bytes() -> Result<u64, MemoryError> {
    let value = sysctl::get("net.ipv4.tcp_mem")?;
    let pages = value.split_whitespace().next().and_then(|pages| pages.parse::<u64>().ok());
    pages.map(in_bytes).ok_or(MemoryError::Bound { value })
}

/// Does some work, and returns what was held meanwhile.
///
/// # Errors
/// When it cannot be read.
pub fn watched<T>(work: impl FnOnce() -> T) -> Result<(T, Memory), MemoryError> {
    let limit_bytes = default_limit_bytes()?;
    let is_over = AtomicBool::new(false);
    let (done, held_bytes) = thread::scope(|scope| {
        let watch = scope.spawn(|| each_second(&is_over));
        let over = Over(&is_over);
        let done = work();
        drop(over);
        (done, watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    Ok((done, Memory { limit_bytes, held_bytes: held_bytes? }))
}

/// Ends a watch when dropped, after a panic as well: the scope waits for it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn each_second(is_over: &AtomicBool) -> io::Result<Vec<u64>> {
    let mut held_bytes = Vec::new();
    let mut next = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        held_bytes.push(held()?);
        next += EVERY;
        while !is_over.load(Ordering::Relaxed) && Instant::now() < next {
            thread::sleep(next.saturating_duration_since(Instant::now()).min(STEP));
        }
    }
    Ok(held_bytes)
}

fn held() -> io::Result<u64> {
    let pages = pages(&fs::read_to_string(FILE)?).ok_or(io::ErrorKind::InvalidData)?;
    Ok(in_bytes(pages))
}

/// Reads the number behind `mem` of the line of TCP. It may be below zero for a moment, as
/// processors count in advance.
fn pages(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    let pages: i64 = line.split_once("mem ")?.1.split(' ').next()?.parse().ok()?;
    Some(u64::try_from(pages).unwrap_or(0))
}

fn in_bytes(pages: u64) -> u64 {
    // SAFETY: it reads a constant of the system.
    let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    pages.saturating_mul(page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_tcp_is_found_among_the_others() {
        let text =
            |mem| format!("TCP: inuse 9 orphan 0 tw 4 alloc 11 mem {mem}\nUDP: inuse 3 mem 7\n");
        assert_eq!(pages(&text("62")), Some(62));
        assert_eq!(pages(&text("-3")), Some(0));
        assert_eq!(pages("UDP: inuse 3 mem 7\n"), None);
    }

    #[test]
    fn memory_is_looked_at_each_second() {
        let begun = Instant::now();
        let (done, memory) = watched(|| {
            thread::sleep(EVERY * 5 / 2);
            7
        })
        .unwrap();
        let most = begun.elapsed().as_secs() as usize + 1;
        assert_eq!(done, 7);
        assert!((2..=most).contains(&memory.held_bytes.len()), "{memory:?}");
        assert!(memory.limit_bytes > 1 << 20);
    }

    #[test]
    fn the_most_counts() {
        let memory = Memory { limit_bytes: 50, held_bytes: vec![10, 60, 20] };
        assert_eq!((memory.most_bytes(), memory.most_of_limit()), (60, 1.2));
    }
}
