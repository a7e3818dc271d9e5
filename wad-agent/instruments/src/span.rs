//! A span says what a flow did over a time: since its start, or since another reading.

use crate::{Flow, name};

/// A flow now, and at an earlier reading.
pub struct Span<'a> {
    pub now: &'a Flow,
    /// The reading before; None for the time since the flow's start.
    pub before: Option<&'a Flow>,
}

/// Who holds a flow back most of the time.
const LIMITS: [(&str, &str); 3] = [
    (name::SND_LIM_TIME_RWIN, "receiver"),
    (name::SND_LIM_TIME_CWND, "network"),
    (name::SND_LIM_TIME_SNDBUF, "send buffer"),
];

impl Span<'_> {
    /// Returns what a count grew by.
    fn growth(&self, name: &str) -> Option<f64> {
        let now = self.now.instruments.get(name)?;
        match self.before {
            None => Some(now),
            Some(before) => Some(now - before.instruments.get(name)?),
        }
    }

    /// Returns the length of the time; None for what is not known of a flow that was
    /// found running: the kernel has counted from its start, the clock here runs
    /// since it was found.
    fn seconds(&self) -> Option<f64> {
        if self.before.is_none() && self.now.role == "running" {
            return None;
        }
        self.growth(name::ELAPSED_SECS).filter(|seconds| *seconds > 0.0)
    }

    /// Returns the rate in both directions.
    pub fn bits_per_second(&self) -> Option<f64> {
        let octets = self.growth(name::HC_THRU_OCTETS_ACKED)?
            + self.growth(name::HC_THRU_OCTETS_RECEIVED)?;
        Some(octets * 8.0 / self.seconds()?)
    }

    /// Returns the part retransmitted of the segments that were sent with data.
    pub fn retransmitted(&self) -> Option<f64> {
        let sent = self.growth(name::DATA_SEGS_OUT).filter(|sent| *sent > 0.0)?;
        Some(self.growth(name::SEGS_RETRANS)? / sent)
    }

    /// Returns what held the flow back, and for how many milliseconds, as far as that is
    /// known.
    pub fn limits_ms(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let limits = LIMITS.map(|(name, who)| Some((who, self.growth(name)?)));
        let limited: f64 = limits.iter().flatten().map(|(_, ms)| ms).sum();
        // The rest of the time nothing was left to be acknowledged.
        let idle = self.seconds().map(|seconds| ("application", seconds * 1e3 - limited));
        limits.into_iter().flatten().chain(idle)
    }

    /// Returns what held the flow back for most of the time, if it had anything to
    /// send.
    pub fn limited_by(&self) -> Option<&'static str> {
        let (who, ms) = self.limits_ms().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (ms > 0.0).then_some(who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::flow;

    #[test]
    fn a_span_is_since_the_start_or_since_another_reading() {
        let (before, now) = (flow(1, 10.0, 1e6), flow(1, 11.0, 3e6));
        let since_start = Span { now: &now, before: None };
        let rate = since_start.bits_per_second().unwrap();
        assert!((rate - 24e6 / 11.0).abs() < 1e-3, "{rate}");
        let span = Span { now: &now, before: Some(&before) };
        assert!((span.bits_per_second().unwrap() - 16e6).abs() < 1e-3);
        // It was held back, but not in that second.
        assert_eq!(since_start.limited_by(), Some("network"));
        assert_eq!(span.limited_by(), Some("application"));
        assert_eq!(span.retransmitted(), None);
    }

    #[test]
    fn of_a_flow_that_was_found_running_the_start_is_not_known() {
        let mut now = flow(1, 11.0, 3e6);
        now.role = "running".into();
        let span = Span { now: &now, before: None };
        assert_eq!((span.bits_per_second(), span.limited_by()), (None, Some("network")));
    }
}
