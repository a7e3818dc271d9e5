//! Values that sources gave and that do not count are kept here with the reason, the last
//! one of a metric of a path. A jump waits here for a second measurement that agrees.

use std::collections::HashMap;

use wad_policy::{
    config::Metric,
    tuning_plan::{Expected, Refusal},
};

use super::{Reading, Sample};

/// Clocks differ by so much at most: what was measured later than that after now was
/// not, and its age is not known.
pub const CLOCKS_DIFFER_SECONDS: f64 = 300.0;

/// The log says the same of a metric of a path again after this time.
const SAID_AGAIN_SECONDS: f64 = 3_600.0;

/// A value that does not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Doubt {
    pub sample: Sample,
    pub refusal: Refusal,
    /// A later one counted.
    is_over: bool,
    /// When the log said it last, for each reason.
    said_at_seconds: [f64; Refusal::ALL.len()],
}

/// The doubts of one source, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    of: HashMap<(usize, Metric), Doubt>,
    counts: [u64; Refusal::ALL.len()],
    /// The log has still to say these.
    news: Vec<(usize, Metric, Doubt)>,
}

/// A value is judged by this.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    pub expected: Expected,
    /// The value that counted last.
    pub held: Option<Sample>,
    /// The path's own flows: what they got, they got. A jump of theirs is none.
    pub is_passive: bool,
    pub now_seconds: f64,
}

impl Doubts {
    /// Says whether a value counts, and keeps it in mind if it does not.
    pub fn takes(&mut self, reading: Reading, evidence: Evidence) -> bool {
        let Reading { target, metric, sample } = reading;
        let before = self.of.get(&(target, metric)).copied();
        let doubted = before.filter(|doubt| !doubt.is_over);
        let verdict = judge(reading, doubted, evidence);
        // The same measurement, with another poll. Only time makes another of it.
        let is_same = |doubt: Doubt| doubt.sample == sample;
        if doubted.is_some_and(|doubt| is_same(doubt) && verdict == Err(doubt.refusal)) {
            return false;
        }
        match verdict {
            Ok(()) => {
                if let Some(doubt) = self.of.get_mut(&(target, metric)) {
                    doubt.is_over = true;
                }
                true
            }
            Err(refusal) => {
                let count = &mut self.counts[refusal as usize];
                *count = count.saturating_add(1);
                let now_seconds = evidence.now_seconds;
                let never = [f64::NEG_INFINITY; Refusal::ALL.len()];
                let mut said_at_seconds = before.map_or(never, |before| before.said_at_seconds);
                let said_at = &mut said_at_seconds[refusal as usize];
                let lasts = doubted.is_some_and(|doubt| doubt.refusal == refusal);
                let is_said =
                    lasts || (0.0..SAID_AGAIN_SECONDS).contains(&(now_seconds - *said_at));
                if !is_said {
                    *said_at = now_seconds;
                }
                let doubt = Doubt { sample, refusal, is_over: false, said_at_seconds };
                self.of.insert((target, metric), doubt);
                if !is_said {
                    self.news.push((target, metric, doubt));
                }
                false
            }
        }
    }

    /// The last value of a metric of a path, if it does not count.
    pub fn get(&self, target: usize, metric: Metric) -> Option<Doubt> {
        self.of.get(&(target, metric)).copied().filter(|doubt| !doubt.is_over)
    }

    pub const fn count(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize]
    }

    /// Returns what the log has not said yet.
    pub fn take_news(&mut self) -> Vec<(usize, Metric, Doubt)> {
        std::mem::take(&mut self.news)
    }

    /// Keeps from before a change of the configuration what it counted. Paths may be
    /// others now: what is in doubt comes again with the next poll.
    pub const fn take_over(&mut self, before: &Self) {
        self.counts = before.counts;
    }
}

fn judge(reading: Reading, doubted: Option<Doubt>, evidence: Evidence) -> Result<(), Refusal> {
    let Reading { metric, sample, .. } = reading;
    let Evidence { expected, held, is_passive, now_seconds } = evidence;
    if is_from_future(sample, now_seconds) {
        return Err(Refusal::Future);
    }
    if !matches!(metric, Metric::Bandwidth | Metric::Rtt) {
        return Ok(());
    }
    if is_passive {
        return if expected.allows(sample.value) { Ok(()) } else { Err(Refusal::Band) };
    }
    let jumped = doubted.filter(|doubt| {
        // A second measurement was made at another time.
        doubt.refusal == Refusal::Jump
            && doubt.sample.measured_at_seconds != sample.measured_at_seconds
    });
    expected.judge(
        sample.value,
        held.map(|held| held.value),
        jumped.map(|jumped| jumped.sample.value),
    )
}

/// Whether a sample is of a time that is yet to come, so that its age says nothing.
pub fn is_from_future(sample: Sample, now_seconds: f64) -> bool {
    sample.measured_at_seconds - now_seconds > CLOCKS_DIFFER_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1.7e9;

    struct Bench {
        doubts: Doubts,
        held: Option<Sample>,
        now_seconds: f64,
    }

    impl Bench {
        fn new() -> Self {
            Self { doubts: Doubts::default(), held: None, now_seconds: NOW }
        }

        /// A minute later a value is given.
        fn gives(&mut self, value: f64) -> bool {
            self.now_seconds += 60.0;
            self.gives_sample(Sample {
                value,
                measured_at_seconds: self.now_seconds,
                is_least: false,
            })
        }

        fn gives_sample(&mut self, sample: Sample) -> bool {
            let evidence = Evidence {
                expected: Expected { own: Some(0.1), band: 10.0 },
                held: self.held,
                is_passive: false,
                now_seconds: self.now_seconds,
            };
            let reading = Reading { target: 7, metric: Metric::Rtt, sample };
            let takes = self.doubts.takes(reading, evidence);
            if takes {
                self.held = Some(sample);
            }
            takes
        }

        fn counts(&self) -> [u64; 3] {
            Refusal::ALL.map(|refusal| self.doubts.count(refusal))
        }

        fn said(&mut self) -> Vec<Refusal> {
            self.doubts.take_news().into_iter().map(|(_, _, doubt)| doubt.refusal).collect()
        }
    }

    #[test]
    fn the_same_measurement_is_no_second_one() {
        let mut bench = Bench::new();
        let jump = Sample { value: 0.3, measured_at_seconds: NOW, is_least: false };
        for _ in 0..5 {
            assert!(!bench.gives_sample(jump));
        }
        assert_eq!((bench.counts(), bench.said()), ([0, 1, 0], vec![Refusal::Jump]));
        assert!(bench.gives_sample(Sample { measured_at_seconds: NOW + 30.0, ..jump }));
        assert_eq!(bench.doubts.get(7, Metric::Rtt), None);
    }

    #[test]
    fn each_is_counted_and_said_once_while_it_lasts() {
        let mut bench = Bench::new();
        assert!(bench.gives(0.1));
        for _ in 0..200 {
            assert!(!bench.gives(1e5));
        }
        assert_eq!((bench.counts(), bench.said()), ([200, 0, 0], vec![Refusal::Band]));
        assert_eq!(bench.doubts.get(7, Metric::Rtt).unwrap().refusal, Refusal::Band);
        // Now and then again: once in an hour.
        for _ in 0..60 {
            assert!(bench.gives(0.1) && !bench.gives(1e-5));
        }
        let said = bench.said();
        assert!((1..=3).contains(&said.len()), "{said:?}");
        // One reason and the other: each once in an hour.
        for _ in 0..30 {
            assert!(!bench.gives(1e5) && !bench.gives(0.3));
        }
        let said = bench.said();
        assert!((1..=3).contains(&said.len()), "{said:?}");
    }

    #[test]
    fn what_is_from_the_future_does_not_count_whatever_is_said_before_or_after() {
        let mut bench = Bench::new();
        let future = Sample { value: 0.1, measured_at_seconds: NOW + 1e6, is_least: false };
        assert!(!bench.gives_sample(future) && bench.gives(0.1));
        assert!(!bench.gives_sample(future));
        assert_eq!(bench.counts(), [0, 0, 2]);
        // Clocks differ.
        let ahead = bench.now_seconds + CLOCKS_DIFFER_SECONDS / 2.0;
        assert!(bench.gives_sample(Sample {
            value: 0.1,
            measured_at_seconds: ahead,
            is_least: false
        }));
    }

    #[test]
    fn what_is_outside_the_band_confirms_no_jump() {
        let mut bench = Bench::new();
        assert!(bench.gives(0.1) && !bench.gives(0.9));
        assert!(!bench.gives(1.7) && !bench.gives(0.9) && bench.gives(0.8));
    }
}
