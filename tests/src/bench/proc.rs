//! Processor time and memory from /proc.

use std::{fs, io};

/// Time that all processors were busy since the start of the machine, in ticks
/// of USER_HZ (proc_stat(5)): all but idle and iowait.
///
/// # Errors
/// When /proc cannot be read.
pub fn busy_ticks() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; the guest times are part
    // of user and nice.
    Ok(ticks.iter().take(8).sum::<u64>() - ticks[3] - ticks[4])
}

/// Resident memory of a process.
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

/// Processor time that a process has had, with its threads that have ended, to a
/// tick of USER_HZ (proc_pid_stat(5)).
///
/// # Errors
/// When it is gone.
pub fn processor_seconds(pid: u32) -> io::Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may hold anything; user and system time are the 12th
    // and the 13th field after it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
    Ok(ticks.iter().sum::<u64>() as f64 / TICKS_PER_SECOND)
}
