//! When the runs of a task are wanted. All times are counted from the host's boot, its
//! suspension included; the wall clock, which may be set, is for people alone.

use std::time::Duration;

use wad_toolbox::clock::Moment;

use super::chance::{self, Chance};

/// A timing says when runs of a task begin and end at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The length of a period, which has one run.
    pub every: Duration,
    /// A run is due up to so much after its period begins, by chance.
    pub jitter: Duration,
    /// It may start up to so much after it is due, where others hold it up.
    pub slip: Duration,
    /// It ends so much after its start.
    pub timeout: Duration,
}

impl Timing {
    /// Says whether every run ends within its period, whatever holds it up.
    pub fn fits(&self) -> bool {
        let latest = self.jitter.checked_add(self.slip);
        let end = latest.and_then(|latest| latest.checked_add(self.timeout));
        end.is_some_and(|end| !self.every.is_zero() && end <= self.every)
    }

    /// Returns the begin of the first period that begins at `now` or later.
    ///
    /// Periods begin at the same times of the wall clock whenever the service is started, so
    /// that a restart neither repeats a run nor puts one off; which times these are is up to
    /// chance, so that neither tasks nor hosts that start together go on together.
    pub fn first(&self, task: Chance, now: Moment, since_1970: Duration) -> Moment {
        let every = self.every.as_nanos();
        let offset = task.part_of(self.every).as_nanos();
        // The offset is less than a period.
        let passed = (since_1970.as_nanos() + every - offset) % every;
        let left = if passed == 0 { 0 } else { every - passed };
        now + nanos(left)
    }

    /// Returns how long after its begin the run of a period is due.
    pub fn delay(&self, task: Chance, period: u64) -> Duration {
        task.of(period).part_of(self.jitter + chance::TICK)
    }
}

/// Times that are given fit into 64 bits of nanoseconds, which are 584 years.
fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn timing(jitter: u64, slip: u64, timeout: u64) -> Timing {
        let seconds = Duration::from_secs;
        Timing {
            every: MINUTE,
            jitter: seconds(jitter),
            slip: seconds(slip),
            timeout: seconds(timeout),
        }
    }

    #[test]
    fn a_run_ends_within_its_period_or_the_timing_does_not_fit() {
        assert!(timing(10, 20, 30).fits());
        assert!(!timing(10, 20, 31).fits());
        assert!(!Timing { every: Duration::ZERO, ..timing(0, 0, 0) }.fits());
        assert!(!Timing { slip: Duration::MAX, ..timing(1, 0, 0) }.fits());
    }

    #[test]
    fn a_restart_finds_the_periods_where_they_were() {
        let timing = timing(0, 0, 1);
        let task = Chance::new(7).of_text("tokyo");
        let now = Duration::from_secs(1_000);
        let today = Duration::from_secs(1_800_000_003);
        let first = timing.first(task, now, today);
        assert!((now..now + MINUTE).contains(&first));
        // The host was started anew in between.
        for later in [1, 59, 60, 61, 86_400, 999_999] {
            let later = Duration::from_secs(later);
            let again = timing.first(task, Duration::ZERO, today + later);
            let apart = (again + later + now).abs_diff(first).as_nanos();
            assert_eq!(apart % MINUTE.as_nanos(), 0, "{later:?}");
            assert!(again < MINUTE);
        }
    }

    #[test]
    fn tasks_and_hosts_are_spread_over_the_period() {
        let timing = timing(0, 0, 1);
        let mut quarters = [0; 4];
        for task in 0..1_000 {
            let task = Chance::new(7).of_text(&format!("task-{task}"));
            let first = timing.first(task, Duration::ZERO, Duration::ZERO);
            quarters[first.as_secs() as usize / 15] += 1;
        }
        assert!(quarters.iter().all(|tasks| (200..300).contains(tasks)), "{quarters:?}");
        let of_host = |seed| Chance::new(seed).of_text("tokyo").part_of(MINUTE);
        assert_ne!(of_host(1), of_host(2));
    }

    #[test]
    fn runs_are_due_by_chance_within_the_jitter() {
        let timing = timing(10, 20, 30);
        let task = Chance::new(7).of_text("tokyo");
        let delays: Vec<_> = (0..1_000).map(|period| timing.delay(task, period)).collect();
        assert!(delays.iter().all(|delay| *delay <= timing.jitter));
        assert!(delays.iter().any(|delay| *delay < timing.jitter / 10));
        assert!(delays.iter().any(|delay| *delay > timing.jitter * 9 / 10));
        assert_eq!(timing.delay(task, 3), timing.delay(task, 3));
        assert_eq!(Timing { jitter: Duration::ZERO, ..timing }.delay(task, 3), Duration::ZERO);
    }
}
