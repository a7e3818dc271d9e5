//! The clock of what counts for a time: it goes on while the host is suspended, and nobody
//! sets it. [`std::time::Instant`] stands still with the host.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Time since the host's boot, its suspension included.
pub type Moment = Duration;

/// Returns the time since the host's boot.
#[must_use]
pub fn now() -> Moment {
    // It is there since Linux 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_the_time_since_the_boot() {
        // The kernel counts suspension there, too (fs/proc/uptime.c).
        let uptime = || {
            let text = fs::read_to_string("/proc/uptime").unwrap();
            let seconds = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_secs_f64(seconds)
        };
        // It is shown in hundredths.
        let (before, moment, after) = (uptime(), now(), uptime() + Duration::from_millis(10));
        assert!((before..=after).contains(&moment), "{before:?} {moment:?} {after:?}");
    }
}
