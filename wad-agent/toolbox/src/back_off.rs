//! The wait before what has failed is tried again.

use std::time::Duration;

use crate::chance::chance;

pub const FIRST_BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(30);
/// Part of a wait that is up to chance, so that hosts do not all come at once.
const JITTER: f64 = 0.5;

/// Returns the wait after so many failures before this one: twice as long with each in a row.
pub fn back_off(failures: u32) -> Duration {
    let doubled = FIRST_BACK_OFF.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    doubled.min(MAX_BACK_OFF).mul_f64(1.0 - JITTER * chance())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_vary() {
        for (failures, most_ms) in [(0, 250), (1, 500), (6, 16_000), (7, 30_000), (99, 30_000)] {
            let most = Duration::from_millis(most_ms);
            for _ in 0..100 {
                assert!((most / 2..=most).contains(&back_off(failures)), "{failures}");
            }
        }
    }
}
