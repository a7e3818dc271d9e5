//! An expression in the order in which it is worked out, each operator behind what
//! it works on: no depth of it takes more of the stack.

use std::ops::Range;

use wad_instruments::{Values, name};

use super::{
    Mistake,
    unit::{Measure, Unit},
};

/// The instrument that tells how much later another reading of a flow is.
pub const CLOCK: &str = name::ELAPSED_SECS;

#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub steps: Vec<Step>,
}

/// A step is one number or operator, and where it stands in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub operation: Operation,
    pub at: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    Number(f64),
    Name(Name),
    /// The time at which the flow began: times are counted from there.
    Start,
    Negate,
    Binary(Binary),
    /// The rate of what the steps from this one on make, per second between two
    /// readings.
    Rate {
        from: usize,
    },
}

/// An instrument, a field of `tcp_sock`, or another derived event.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// Under which [`Values`] have it.
    pub key: String,
    pub measure: Measure,
    /// Makes seconds of times.
    pub divisor: f64,
    /// A field of `tcp_sock`: a reading has it only if it was asked for.
    pub is_field: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
}

impl Binary {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Min => left.min(right),
            Self::Max => left.max(right),
        }
    }

    fn measure(self, left: Measure, right: Measure) -> Option<Measure> {
        match self {
            Self::Multiply => left.times(right),
            Self::Divide => left.per(right),
            Self::Add | Self::Subtract | Self::Min | Self::Max => left.like(right),
        }
    }
}

impl Expression {
    /// Returns the value; None where a part has no value, or there is none: a
    /// division by zero, an overflow, a rate without an earlier reading.
    pub fn value(&self, now: &Values, earlier: Option<&Values>) -> Option<f64> {
        value(&self.steps, now, earlier)
    }

    /// Returns what the expression measures.
    pub fn measure(&self) -> Result<Measure, Mistake> {
        // What the parser makes is never short of operands.
        const WHOLE: &str = "each operator has its operands";
        let mut stack = Vec::new();
        for step in &self.steps {
            let mut pop = || stack.pop().expect(WHOLE);
            let measure = match &step.operation {
                Operation::Number(_) => Some(Measure::Number),
                Operation::Name(name) => Some(name.measure),
                Operation::Start => Some(Measure::Of(Unit::SECONDS)),
                Operation::Negate => Some(pop()),
                Operation::Rate { .. } => pop().per(Measure::Of(Unit::SECONDS)),
                Operation::Binary(binary) => {
                    let (right, left) = (pop(), pop());
                    if matches!(binary, Binary::Multiply | Binary::Divide) {
                        binary.measure(left, right)
                    } else {
                        let measure = binary.measure(left, right);
                        Some(measure.ok_or_else(|| unlike(step, left, right))?)
                    }
                }
            };
            stack.push(measure.ok_or_else(|| {
                Mistake::new(step.at.clone(), "a unit without a meaning", "its power is too large")
            })?);
        }
        Ok(stack.pop().expect(WHOLE))
    }

    pub fn has_rate(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.operation, Operation::Rate { .. }))
    }

    /// All that it reads.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.steps.iter().filter_map(|step| match &step.operation {
            Operation::Name(name) => Some(name),
            _ => None,
        })
    }
}

fn unlike(step: &Step, left: Measure, right: Measure) -> Mistake {
    let title = "different things have no sum, and neither is the greater";
    Mistake::new(step.at.clone(), title, format!("{left} here, {right} there"))
        .help("times are in seconds; divide one by a number of its own unit first")
}

fn value(steps: &[Step], now: &Values, earlier: Option<&Values>) -> Option<f64> {
    let mut stack: Vec<f64> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let value = match &step.operation {
            Operation::Number(number) => *number,
            Operation::Name(name) => now.get(&name.key)? / name.divisor,
            Operation::Start => 0.0,
            Operation::Negate => -stack.pop()?,
            Operation::Binary(binary) => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                binary.of(left, right)
            }
            Operation::Rate { from } => {
                let earlier = earlier?;
                let change = stack.pop()? - value(&steps[*from..index], earlier, None)?;
                let seconds = now.get(CLOCK)? - earlier.get(CLOCK)?;
                // A clock that went back would turn the sign.
                if seconds > 0.0 { change / seconds } else { f64::NAN }
            }
        };
        // Both a division by zero and an overflow.
        stack.push(Some(value).filter(|value| value.is_finite())?);
    }
    stack.pop()
}
