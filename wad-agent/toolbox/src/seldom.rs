//! A thing that would be said again and again is said seldom.

use std::time::{Duration, Instant};

/// The same is said so often at most.
const INTERVAL: Duration = Duration::from_secs(600);

/// Remembers when something was said last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seldom(Option<Instant>);

impl Seldom {
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Whether it may be said now; then it counts as said.
    pub fn may_say(&mut self) -> bool {
        self.may_say_at(Instant::now())
    }

    /// Whether it may be said at that time; then it counts as said.
    pub fn may_say_at(&mut self, now: Instant) -> bool {
        let may_say = self.0.is_none_or(|said| now.duration_since(said) >= INTERVAL);
        if may_say {
            self.0 = Some(now);
        }
        may_say
    }

    /// Forgets when it was said: the next time is news.
    pub const fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_again_after_a_while() {
        let (mut seldom, begun) = (Seldom::new(), Instant::now());
        let mut may_say = |after_s| seldom.may_say_at(begun + Duration::from_secs(after_s));
        assert_eq!([0, 5, 599, 600, 605].map(&mut may_say), [true, false, false, true, false]);
        seldom.forget();
        assert!(seldom.may_say_at(begun + Duration::from_secs(606)));
    }
}
