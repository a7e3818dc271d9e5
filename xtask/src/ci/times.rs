//! The time that each step took is shown beside its budget.

use std::{fmt, time::Duration};

/// Holds what steps took, in the order in which they were run.
#[derive(Default)]
pub struct Times {
    rows: Vec<Row>,
    /// They all took this long together.
    pub all: Duration,
}

struct Row {
    name: String,
    took: Duration,
    budget: Option<Duration>,
    /// The step in whose time it was run.
    beside: Option<String>,
}

impl Times {
    pub fn add(
        &mut self,
        name: &str,
        took: Duration,
        budget: Option<Duration>,
        beside: Option<&str>,
    ) {
        let beside = beside.map(str::to_owned);
        self.rows.push(Row { name: name.to_owned(), took, budget, beside });
    }

    /// Returns a warning about the steps that took longer than they should, if any did.
    pub fn warning(&self) -> Option<String> {
        let slow: Vec<_> = self.rows.iter().filter(|row| row.is_slow()).collect();
        let names: Vec<_> = slow.iter().map(|row| row.name.as_str()).collect();
        (!slow.is_empty()).then(|| {
            format!(
                "over budget: {}. This is a warning and fails nothing: a busy machine takes \
                 longer. If an idle one does too, the step is to be made faster.",
                names.join(", ")
            )
        })
    }
}

impl Row {
    fn is_slow(&self) -> bool {
        self.budget.is_some_and(|budget| self.took > budget)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12}{:>8}", self.name, self.took.as_secs())?;
        if let Some(budget) = self.budget {
            write!(f, "{:>8}", budget.as_secs())?;
        }
        if let Some(beside) = &self.beside {
            write!(f, "  beside {beside}")?;
        }
        if self.is_slow() {
            write!(f, "  over budget")?;
        }
        Ok(())
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_by_one = self.rows.iter().filter(|row| row.beside.is_none());
        let budgets: Option<Duration> = one_by_one.map(|row| row.budget).sum();
        let all = Row { name: "all".to_owned(), took: self.all, budget: budgets, beside: None };
        write!(f, "{:<12}{:>8}", "step", "seconds")?;
        if budgets.is_some() {
            write!(f, "{:>8}", "budget")?;
        }
        writeln!(f)?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        write!(f, "{all}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Times;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_exceeds_its_budget_is_named() {
        let mut times = Times::default();
        times.add("fmt", seconds(3), Some(seconds(3)), None);
        assert_eq!(times.warning(), None);
        times.add("clippy", seconds(61), Some(seconds(60)), None);
        times.add("test", seconds(400), Some(seconds(480)), None);
        times.add("vm", seconds(300), Some(seconds(350)), Some("test"));
        times.all = seconds(464);
        assert_eq!(
            times.to_string(),
            "step         seconds  budget\n\
             fmt                3       3\n\
             clippy            61      60  over budget\n\
             test             400     480\n\
             vm               300     350  beside test\n\
             all              464     543"
        );
        assert!(times.warning().unwrap().starts_with("over budget: clippy. This is a warning"));
    }

    #[test]
    fn without_budgets_only_times_are_shown() {
        let mut times = Times::default();
        times.add("fmt", seconds(3), None, None);
        times.all = seconds(3);
        assert_eq!(
            times.to_string(),
            "step         seconds\nfmt                3\nall                3"
        );
        assert_eq!(times.warning(), None);
    }
}
