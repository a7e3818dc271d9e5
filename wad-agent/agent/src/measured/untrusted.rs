//! The log and `wad paths` say this of a value that does not count.

use std::fmt;

use wad_policy::{config::Metric, tuning_plan::Refusal};

use crate::sources::{CLOCKS_DIFFER_SECONDS, Refused, Store};

/// A value that does not count, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Untrusted {
    pub metric: Metric,
    pub value: f64,
    /// The source's name.
    pub source: String,
    pub refusal: Refusal,
    pub measured_at_seconds: f64,
}

impl Untrusted {
    pub fn new(refused: &Refused, store: &Store) -> Self {
        let Refused { source, metric, doubt, .. } = *refused;
        Self {
            metric,
            value: doubt.sample.value,
            source: store.name(source).to_owned(),
            refusal: doubt.refusal,
            measured_at_seconds: doubt.sample.measured_at_seconds,
        }
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, value, source, refusal, .. } = self;
        match metric {
            Metric::Bandwidth => write!(f, "a bandwidth of {} Mbit/s", digits(value / 1e6))?,
            Metric::Rtt => write!(f, "an RTT of {} ms", digits(value * 1e3))?,
            Metric::Loss => write!(f, "a loss of {}", digits(*value))?,
            Metric::Reordering => write!(f, "a reordering of {}", digits(*value))?,
        }
        write!(f, " by source {} ", source.escape_debug())?;
        match refusal {
            Refusal::Band => f.write_str(
                "does not count: it is too far from the file's own value (`measured_band`)",
            ),
            Refusal::Jump => f.write_str(
                "waits for a second measurement that agrees: it is more than twice or less than \
                 half of what holds",
            ),
            Refusal::Future => write!(
                f,
                "does not count: it is dated more than {CLOCKS_DIFFER_SECONDS:.0} s ahead of this \
                 host's clock"
            ),
        }
    }
}

/// Three digits that mean something, whatever the size.
fn digits(value: f64) -> String {
    if (0.01..1e6).contains(&value) { format!("{value:.2}") } else { format!("{value:.2e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_count_is_said_with_the_reason() {
        let said = |metric, value, refusal| {
            let source = "mon\nitor".to_owned();
            let untrusted = Untrusted { metric, value, source, refusal, measured_at_seconds: 0.0 };
            untrusted.to_string()
        };
        assert_eq!(
            said(Metric::Bandwidth, 622.0, Refusal::Band),
            "a bandwidth of 6.22e-4 Mbit/s by source mon\\nitor does not count: it is too far \
             from the file's own value (`measured_band`)"
        );
        assert!(said(Metric::Rtt, 0.3, Refusal::Jump).starts_with("an RTT of 300.00 ms by"));
        assert!(said(Metric::Loss, 0.3, Refusal::Future).contains("300 s ahead"));
    }
}
