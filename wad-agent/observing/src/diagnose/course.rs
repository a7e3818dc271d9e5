//! A flow over a span of time: what its counters grew by, and what its gauges were.

use wad_instruments::{Flow, name};

/// The kernel's clock for the timers of a flow has ticks of 1 to 10 ms.
const LEAST_SECONDS: f64 = 1e-3;

/// A span is what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The flow from the first sample to the last.
    Watched,
    /// The flow from its beginning to the last sample.
    Life,
}

/// Samples of one flow, in their order.
#[derive(Clone, Debug)]
pub struct Course<'a> {
    samples: Vec<&'a Flow>,
    span: Span,
}

impl<'a> Course<'a> {
    /// Returns the course; None without a sample, or where one is no span.
    #[must_use]
    pub fn new(samples: Vec<&'a Flow>, span: Span) -> Option<Self> {
        let least = match span {
            Span::Watched => 2,
            Span::Life => 1,
        };
        (samples.len() >= least).then_some(Self { samples, span })
    }

    /// Returns the course from one reading of it to the next.
    #[must_use]
    pub fn between(before: &'a Flow, after: &'a Flow) -> Option<Self> {
        Self::new(vec![before, after], Span::Watched)
    }

    /// Returns the flow as it was seen last.
    #[must_use]
    pub fn flow(&self) -> &'a Flow {
        self.samples[self.samples.len() - 1]
    }

    /// Returns by how much a counter grew; None where that is not known, as of one that
    /// became smaller.
    #[must_use]
    pub fn grown(&self, counter: &str) -> Option<f64> {
        let before = match self.span {
            Span::Watched => sane(self.samples[0], counter)?,
            Span::Life => 0.0,
        };
        Some(self.last(counter)? - before).filter(|grown| *grown >= 0.0)
    }

    #[must_use]
    pub fn last(&self, name: &str) -> Option<f64> {
        sane(self.flow(), name)
    }

    /// Returns the mean of the samples that have it.
    #[must_use]
    pub fn mean(&self, gauge: &str) -> Option<f64> {
        let values: Vec<f64> = self.values(gauge).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    #[must_use]
    pub fn least(&self, gauge: &str) -> Option<f64> {
        self.values(gauge).reduce(f64::min)
    }

    #[must_use]
    pub fn most(&self, gauge: &str) -> Option<f64> {
        self.values(gauge).reduce(f64::max)
    }

    /// The length of the span, unless it is too short for a rate.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        self.grown(name::ELAPSED_SECS).filter(|seconds| *seconds >= LEAST_SECONDS)
    }

    /// Per second.
    #[must_use]
    pub fn rate(&self, counter: &str) -> Option<f64> {
        Some(self.grown(counter)? / self.seconds()?)
    }

    /// Returns what other timers have left of the time. A flow that was found running
    /// has a life that nobody knows the length of.
    #[must_use]
    pub fn rest_ms(&self, others_ms: f64) -> Option<f64> {
        match self.span {
            Span::Watched => Some((self.seconds()? * 1e3 - others_ms).max(0.0)),
            Span::Life => None,
        }
    }

    fn values(&self, gauge: &str) -> impl Iterator<Item = f64> {
        self.samples.iter().filter_map(move |flow| sane(flow, gauge))
    }
}

/// Returns an instrument's value where it is sane: no instrument is negative, or larger
/// than a counter of the kernel's.
fn sane(flow: &Flow, name: &str) -> Option<f64> {
    flow.instruments.get(name).filter(|value| (0.0..=u64::MAX as f64).contains(value))
}
