//! A thing that fails is tried again later, less and less often as that goes on, and is said once.

use std::time::Instant;

use crate::back_off::back_off;

/// Knows how often in a row a thing has failed, and when it is tried again.
#[derive(Debug, Default)]
pub struct Attempts {
    failures: u32,
    again: Option<Instant>,
}

impl Attempts {
    #[must_use]
    pub const fn new() -> Self {
        Self { failures: 0, again: None }
    }

    /// Returns when it may be tried; None for at once.
    #[must_use]
    pub const fn again(&self) -> Option<Instant> {
        self.again
    }

    /// Whether it may be tried.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.again.is_none_or(|again| now >= again)
    }

    /// Notes that it has failed; says whether that is news.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.again = Some(now + back_off(self.failures));
        self.failures = self.failures.saturating_add(1);
        self.failures == 1
    }

    /// Notes that it has not failed; says whether that is news.
    pub const fn worked(&mut self) -> bool {
        let is_news = self.failures > 0;
        (self.failures, self.again) = (0, None);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_change_is_news_once_and_failures_are_farther_apart() {
        let (mut attempts, mut now) = (Attempts::default(), Instant::now());
        assert!(attempts.is_due(now) && !attempts.worked());
        let waits: Vec<Duration> = (0..10)
            .map(|failure| {
                let failed_at = now;
                assert_eq!(attempts.failed(now), failure == 0);
                assert!(!attempts.is_due(now));
                while !attempts.is_due(now) {
                    now += Duration::from_millis(10);
                }
                now.duration_since(failed_at)
            })
            .collect();
        assert!(waits[0] < Duration::from_secs(1), "{waits:?}");
        assert!((15..=31).contains(&waits[9].as_secs()), "{waits:?}");
        assert_eq!([attempts.worked(), attempts.worked()], [true, false]);
        assert!(attempts.is_due(now) && attempts.failed(now));
    }
}
