//! What a flow did over a time: since its start, or since another reading.

use wad_instruments::Flow;

/// A flow now, and at an earlier reading.
pub struct Span<'a> {
    pub now: &'a Flow,
    /// None for since its start.
    pub before: Option<&'a Flow>,
}

/// Who holds a flow back most of the time.
const LIMITS: [(&str, &str); 3] = [
    ("SndLimTimeRwin", "receiver"),
    ("SndLimTimeCwnd", "network"),
    ("SndLimTimeSndbuf", "send buffer"),
];

impl Span<'_> {
    /// What a count grew by.
    fn growth(&self, name: &str) -> Option<f64> {
        let now = self.now.instruments.get(name)?;
        match self.before {
            None => Some(now),
            Some(before) => Some(now - before.instruments.get(name)?),
        }
    }

    /// None for what is not known of a flow that was found running: the kernel has
    /// counted from its start, the clock here runs since it was found.
    fn seconds(&self) -> Option<f64> {
        if self.before.is_none() && self.now.role == "running" {
            return None;
        }
        self.growth("ElapsedSecs").filter(|seconds| *seconds > 0.0)
    }

    /// In both directions.
    pub fn bits_per_second(&self) -> Option<f64> {
        let octets = self.growth("HCThruOctetsAcked")? + self.growth("HCThruOctetsReceived")?;
        Some(octets * 8.0 / self.seconds()?)
    }

    /// Of the segments that were sent with data.
    pub fn retransmitted(&self) -> Option<f64> {
        let sent = self.growth("DataSegsOut").filter(|sent| *sent > 0.0)?;
        Some(self.growth("SegsRetrans")? / sent)
    }

    /// What held it back for most of the time, if it had anything to send.
    pub fn limited_by(&self) -> Option<&'static str> {
        let limits = LIMITS.map(|(name, who)| Some((self.growth(name)?, who)));
        let limited: f64 = limits.iter().flatten().map(|(ms, _)| ms).sum();
        // The rest of the time nothing was left to be acknowledged.
        let idle = self.seconds().map(|seconds| (seconds * 1e3 - limited, "application"));
        let longest = limits.into_iter().flatten().chain(idle);
        let (ms, who) = longest.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (ms > 0.0).then_some(who)
    }
}

#[cfg(test)]
mod tests {
    use wad_instruments::testing::flow;

    use super::*;

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
