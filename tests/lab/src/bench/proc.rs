//! Processor time and memory are read from /proc.

use std::{fs, io, time::Instant};

/// The kernel counts processor time in ticks of USER_HZ.
const TICKS_PER_SECOND: f64 = 100.0;

/// The work of all processors from a moment on.
pub struct Work {
    begun: Instant,
    processors: usize,
    unused_ticks: u64,
}

impl Work {
    /// # Errors
    /// When /proc cannot be read.
    pub fn begin() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        // A line for all, and one for each.
        let processors = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
        Ok(Self { unused_ticks: unused_ticks(&stat), processors, begun: Instant::now() })
    }

    /// Returns the time that has gone by on all processors, less what was idle, waited
    /// or went to other virtual machines. The kernel measures those; its figures of
    /// work are what a tick finds, which misses work that a timer begins and that ends
    /// before the next one.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn seconds(&self) -> io::Result<f64> {
        let gone_by = self.begun.elapsed().as_secs_f64() * self.processors as f64;
        let unused_ticks = unused_ticks(&fs::read_to_string("/proc/stat")?);
        // iowait may go back.
        let unused_ticks = unused_ticks.saturating_sub(self.unused_ticks);
        Ok(gone_by - unused_ticks as f64 / TICKS_PER_SECOND)
    }
}

/// Returns the ticks of idle, iowait and steal (proc_stat(5)).
fn unused_ticks(stat: &str) -> u64 {
    let all = stat.lines().next().unwrap_or_default();
    // cpu user nice system idle iowait irq softirq steal
    let ticks = |n| all.split_whitespace().nth(n).and_then(|word| word.parse().ok()).unwrap_or(0);
    [4, 5, 8].into_iter().map(ticks).sum()
}

/// Returns the resident memory of a process.
///
/// # Errors
/// When it is gone.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok())
        .ok_or_else(|| io::Error::other("no VmRSS"))?;
    Ok(kilobytes * 1024)
}

/// Returns the processor time that a process has had, with its threads that have ended,
/// to a tick of USER_HZ (proc_pid_stat(5)).
///
/// # Errors
/// When it is gone.
pub fn processor_seconds(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may hold anything; user and system time are the 12th
    // and the 13th field after it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
    Ok(ticks.iter().sum::<u64>() as f64 / TICKS_PER_SECOND)
}
