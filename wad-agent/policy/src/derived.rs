//! Derived events: numbers that a file makes of the instruments, as `AveBW = 8 *
//! HCDataOctetsOut / ElapsedSecs`, for each flow. They stand beside the instruments
//! in what is read of flows; a threshold makes an event of one, and of some there
//! is a mean in the metrics of a path.
//!
//! Times are in seconds. An expression has names of standard instruments, of
//! `tcp_sock.FIELD`, and of derived events above it in the file, so that none is
//! made of itself.

mod crossing;
mod expression;
mod means;
mod parse;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod unit;

use std::{ops::Range, sync::Arc, time::Duration};

use serde::Serialize;
use wad_instruments::{Flow, Instrument, STANDARD, Values, name};
use wad_toolbox::nearest::nearest;

pub use self::{
    crossing::{Crossed, Crossings},
    means::means,
    unit::Measure,
};
use self::{
    expression::{Expression, Name, Operation},
    parse::parse,
};

type Names = Arc<[String]>;

/// The names that the papers' expression has of instruments: section 3.3 of "A TCP Tuning
/// Daemon" (SC 2002).
const PAPERS: [(&str, &str); 2] =
    [("DataBytesOut", name::HC_DATA_OCTETS_OUT), ("CurrTime", name::ELAPSED_SECS)];
const PAPERS_START: &str = "StartTime";

/// The prefix that a field of the kernel's is told apart by.
const FIELD: &str = "tcp_sock.";

/// All of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived(pub Vec<Definition>);

/// Holds one `[[derived]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    /// The expression as it is written.
    pub text: String,
    expression: Expression,
    pub measure: Measure,
    /// The unit to be shown beside its numbers.
    pub unit: Option<String>,
    pub threshold: Option<Threshold>,
    /// The number's mean over a path's flows is a metric.
    pub has_metric: bool,
}

/// Says when it is an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub limit: Limit,
    /// Time that it must last without a break.
    pub lasting: Duration,
    /// The paths whose flows are meant; empty for all.
    pub paths: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Above(f64),
    Below(f64),
}

impl Limit {
    fn is_crossed(self, value: f64) -> bool {
        match self {
            Self::Above(limit) => value > limit,
            Self::Below(limit) => value < limit,
        }
    }
}

/// A mistake says what is wrong with an expression, and where in its text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub at: Range<usize>,
    pub title: String,
    pub label: String,
    pub help: Option<String>,
}

impl Mistake {
    fn new(at: Range<usize>, title: impl Into<String>, label: impl Into<String>) -> Self {
        Self { at, title: title.into(), label: label.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl Definition {
    /// Reads an expression; `above` are those that it may use.
    pub fn parse(name: &str, text: &str, above: &Derived) -> Result<Self, Mistake> {
        let expression = parse(text, |written| above.find(written, name))?;
        let measure = expression.measure()?;
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            expression,
            measure,
            unit: None,
            threshold: None,
            has_metric: false,
        })
    }

    /// Returns what stands for one that is wrong, so that no other error follows from
    /// it.
    pub fn in_doubt(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: String::new(),
            expression: Expression { steps: Vec::new() },
            measure: Measure::Unknown,
            unit: None,
            threshold: None,
            has_metric: false,
        }
    }
}

impl Derived {
    /// Adds their values to those of flows. A rate needs an earlier reading of the same
    /// flow, extended likewise; `earlier` has it by its cookie.
    pub fn extend<'e>(&self, flows: &mut [Flow], earlier: impl Fn(u64) -> Option<&'e Values>) {
        if self.0.is_empty() {
            return;
        }
        // Flows of one reading share their names.
        let mut widened: Option<(Names, Names)> = None;
        for flow in flows {
            let own = flow.instruments.names();
            let names = match &widened {
                Some((narrow, wide)) if Arc::ptr_eq(narrow, own) => Arc::clone(wide),
                _ => {
                    let more = self.0.iter().map(|definition| definition.name.clone());
                    let wide: Names = own.iter().cloned().chain(more).collect();
                    widened = Some((Arc::clone(own), Arc::clone(&wide)));
                    wide
                }
            };
            flow.instruments.widen(names);
            let earlier = earlier(flow.cookie);
            for definition in &self.0 {
                let value = definition.expression.value(&flow.instruments, earlier);
                flow.instruments.push(value);
            }
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|definition| definition.name == name)
    }

    /// Returns the definitions whose means are metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter().filter(|definition| definition.has_metric)
    }

    /// The fields of `tcp_sock` that a reading has to have for them.
    pub fn fields(&self) -> Vec<String> {
        let names = self.0.iter().flat_map(|definition| definition.expression.names());
        let mut fields: Vec<_> =
            names.filter(|name| name.is_field).map(|name| name.key.clone()).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// The standard instruments that a reading has to have for them.
    pub fn instruments(&self) -> Vec<String> {
        let expressions = || self.0.iter().map(|definition| &definition.expression);
        let has_rate = expressions().any(Expression::has_rate);
        let is_used = |known: &&Instrument| {
            has_rate && known.name == expression::CLOCK
                || expressions().flat_map(Expression::names).any(|name| name.key == known.name)
        };
        STANDARD.iter().filter(is_used).map(|known| known.name.to_owned()).collect()
    }

    /// Whether somebody has to look at the flows for them every second.
    pub fn are_watched(&self) -> bool {
        let is_watched = |definition: &Definition| {
            definition.threshold.is_some() || definition.expression.has_rate()
        };
        self.0.iter().any(is_watched)
    }

    /// Returns what a name stands for in an expression of `user`; else what to say of it, and what
    /// to do.
    fn find(&self, written: &str, user: &str) -> Result<Operation, (String, Option<String>)> {
        if let Some(field) = written.strip_prefix(FIELD) {
            let members = field.split('.');
            return if members.clone().all(|member| !member.is_empty()) {
                let key = field.to_owned();
                let measure = Measure::Unknown;
                Ok(Operation::Name(Name { key, measure, divisor: 1.0, is_field: true }))
            } else {
                let help = "write tcp_sock.snd_cwnd, or tcp_sock.inet_conn.icsk_rto";
                Err(("a member's name is missing".to_owned(), Some(help.to_owned())))
            };
        }
        let own = |key: &str, (measure, divisor)| {
            Operation::Name(Name { key: key.to_owned(), measure, divisor, is_field: false })
        };
        let standard = |name: &str| STANDARD.iter().find(|known| known.name == name);
        if let Some(instrument) = standard(written) {
            return Ok(own(written, Measure::of(instrument)));
        }
        if let Some(definition) = self.0.iter().find(|known| known.name == written) {
            return Ok(own(written, (definition.measure, 1.0)));
        }
        if written == PAPERS_START {
            return Ok(Operation::Start);
        }
        let of_papers = PAPERS.iter().find(|(name, _)| *name == written);
        if let Some(instrument) = of_papers.and_then(|(_, name)| standard(name)) {
            return Ok(own(instrument.name, Measure::of(instrument)));
        }
        if written == user {
            let help = "a derived event is made of instruments, and of those above it";
            return Err(("it would be made of itself".to_owned(), Some(help.to_owned())));
        }
        let label = "no instrument, and no derived event above, has this name";
        Err((label.to_owned(), Some(self.nearest(written))))
    }

    fn nearest(&self, written: &str) -> String {
        let standard = STANDARD.iter().map(|known| known.name);
        let names = standard.chain(self.0.iter().map(|known| known.name.as_str()));
        match nearest(written, names) {
            Some(known) => format!("did you mean `{known}`?"),
            None => {
                "`wad flows --instruments` lists them; a field of the kernel's is tcp_sock.FIELD"
                    .to_owned()
            }
        }
    }
}
