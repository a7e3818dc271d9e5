//! The processors' time, as the kernel counts it. Where nothing of it is left, a rate is
//! that of the machine, not of what is tried on it.

use std::{fs, io};

/// The place of idle time, and of waiting for devices, in the first line of /proc/stat
/// (proc_stat(5)); guests' time, which comes last, stands in that of users already.
const IDLE: [usize; 2] = [3, 4];
const COUNTED: usize = 8;

/// All processors' time since the machine's start, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    all_ticks: u64,
    idle_ticks: u64,
}

impl Processors {
    /// Reads the processors' time.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read() -> io::Result<Self> {
        parse(&fs::read_to_string("/proc/stat")?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the share of the time since an earlier reading in which there was nothing
    /// to do; none where no time has passed.
    #[must_use]
    pub fn idle_share_since(&self, before: &Self) -> Option<f64> {
        let all_ticks = self.all_ticks.saturating_sub(before.all_ticks);
        let idle_ticks = self.idle_ticks.saturating_sub(before.idle_ticks);
        (all_ticks > 0).then(|| idle_ticks as f64 / all_ticks as f64)
    }
}

fn parse(text: &str) -> Option<Processors> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks = line.split_whitespace().take(COUNTED).map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    let idle: Option<u64> = IDLE.iter().map(|place| ticks.get(*place)).sum();
    Some(Processors { all_ticks: ticks.iter().sum(), idle_ticks: idle? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_what_nobody_used() {
        let before = parse("cpu  10 0 20 100 5 0 1 0 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n").unwrap();
        assert_eq!(before, Processors { all_ticks: 136, idle_ticks: 105 });
        let after = parse("cpu  40 0 50 130 5 0 11 0 9 0\n").unwrap();
        assert_eq!(after.idle_share_since(&before), Some(0.3));
        assert_eq!(after.idle_share_since(&after), None);
    }

    #[test]
    fn what_is_no_processors_time_is_refused() {
        for text in ["", "cpu0 1 2 3 4 5\n", "cpu  1 2 3\n", "cpu  1 2 3 x 5\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(Processors::read().unwrap().all_ticks > 0);
    }
}
