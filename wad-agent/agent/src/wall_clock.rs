//! The kernel side has a clock that begins with the host: what it tells of is put to the time of
//! day here.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the time of day, as the time since 1970, at a time of CLOCK_MONOTONIC; None where
/// nobody can tell.
pub fn at(monotonic_ns: u64) -> Option<Duration> {
    let now = |clock| clock_gettime(clock).map(Duration::from).ok();
    let (wall, monotonic) = (now(ClockId::CLOCK_REALTIME)?, now(ClockId::CLOCK_MONOTONIC)?);
    wall.checked_sub(monotonic.saturating_sub(Duration::from_nanos(monotonic_ns)))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_is_past_is_as_long_ago_and_what_is_to_come_is_now() {
        const SECOND: Duration = Duration::from_secs(1);
        let wall = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let monotonic = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        let ago = monotonic / 2;
        let then = at((monotonic - ago).as_nanos() as u64).unwrap();
        assert!((wall() - ago).abs_diff(then) < SECOND, "{then:?}");
        assert!(wall().abs_diff(at(u64::MAX).unwrap()) < SECOND);
    }
}
