//! The kernel's clock goes by ticks, in which it counts what it has to count often.

use std::{io, time::Duration};

use nix::time::{ClockId, clock_getres};

/// Returns how long a tick is: the coarse clocks have just this resolution.
pub fn tick() -> io::Result<Duration> {
    Ok(clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONFIG_HZ is 100 to 1000 (kernel/Kconfig.hz).
    #[test]
    fn a_tick_is_as_kernels_have_it() {
        let tick = tick().unwrap();
        assert!((Duration::from_millis(1)..=Duration::from_millis(10)).contains(&tick), "{tick:?}");
    }
}
