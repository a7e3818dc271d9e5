//! A token bucket, given the time in nanoseconds of one monotonic clock: how many
//! lines a second may be logged before the rest is only counted.

const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub struct Budget {
    /// Time that one line costs; a second's worth is the most that is saved up.
    line_ns: u64,
    saved_ns: u64,
    last_ns: u64,
    held_back: u64,
}

impl Budget {
    /// Makes a budget, which starts full. `per_second` is at least 1.
    #[must_use]
    pub const fn new(per_second: u32) -> Self {
        let line_ns = SECOND_NS / per_second as u64;
        Self { line_ns, saved_ns: SECOND_NS, last_ns: 0, held_back: 0 }
    }

    /// Whether one more line may be logged now. A time before the last one, as
    /// events of several processors may have, counts as the last one.
    pub fn spend(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.saved_ns = self.saved_ns.saturating_add(passed_ns).min(SECOND_NS);
        match self.saved_ns.checked_sub(self.line_ns) {
            Some(rest_ns) => {
                self.saved_ns = rest_ns;
                true
            }
            None => {
                self.held_back = self.held_back.saturating_add(1);
                false
            }
        }
    }

    /// Lines held back since the last call.
    pub fn take_held_back(&mut self) -> u64 {
        std::mem::take(&mut self.held_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(budget: &mut Budget, times_ns: impl Iterator<Item = u64>) -> usize {
        times_ns.filter(|now_ns| budget.spend(*now_ns)).count()
    }

    #[test]
    fn a_burst_of_a_second_then_the_rate() {
        let mut budget = Budget::new(20);
        let day_ns = 86_400 * SECOND_NS;
        assert_eq!(spent(&mut budget, (0..1000).map(|_| day_ns)), 20);
        assert_eq!(budget.take_held_back(), 980);
        assert_eq!(budget.take_held_back(), 0);
        // A thousand a second for ten seconds.
        let times_ns = (1..=10_000).map(|ms| day_ns + ms * 1_000_000);
        assert_eq!(spent(&mut budget, times_ns), 200);
        assert_eq!(budget.take_held_back(), 9800);
    }

    #[test]
    fn below_the_rate_nothing_is_held_back() {
        let mut budget = Budget::new(20);
        assert_eq!(spent(&mut budget, (0..1000).map(|index| index * SECOND_NS / 20)), 1000);
    }

    #[test]
    fn a_year_of_quiet_saves_no_more_than_a_second() {
        let mut budget = Budget::new(20);
        assert_eq!(spent(&mut budget, (0..100).map(|_| u64::MAX)), 20);
    }

    #[test]
    fn time_that_runs_backwards_earns_nothing() {
        let mut budget = Budget::new(1);
        assert!(budget.spend(10 * SECOND_NS));
        assert!(!budget.spend(9 * SECOND_NS));
        assert!(!budget.spend(10 * SECOND_NS));
        assert!(budget.spend(11 * SECOND_NS));
    }
}
