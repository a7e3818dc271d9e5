//! A table shows what has become of the kills.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};

use super::Phase;

/// A phase, and what became of its kills.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub phase: Phase,
    /// So many calls of it can change the host.
    pub calls: usize,
    pub kills: usize,
    /// The phase was over before the call, which other threads may have made an earlier one.
    pub not_reached: usize,
    /// The longest time in which nothing arrived of a transfer that went on all the time.
    pub longest_stall: Duration,
    pub failures: Vec<String>,
}

impl Row {
    pub const fn new(phase: Phase, calls: usize) -> Self {
        Self {
            phase,
            calls,
            kills: 0,
            not_reached: 0,
            longest_stall: Duration::ZERO,
            failures: Vec::new(),
        }
    }

    pub const fn count(&mut self, is_killed: bool) {
        if is_killed {
            self.kills += 1;
        } else {
            self.not_reached += 1;
        }
    }

    pub fn failed(&mut self, failure: String) {
        self.kills += 1;
        self.failures.push(failure);
    }

    /// Adds what another process has found of the same phase.
    pub fn add(&mut self, other: Self) {
        self.calls = self.calls.max(other.calls);
        self.kills += other.kills;
        self.not_reached += other.not_reached;
        self.longest_stall = self.longest_stall.max(other.longest_stall);
        self.failures.extend(other.failures);
    }
}

/// Returns all rows as a table, and what failed below it.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<10} {:>6} {:>6} {:>12} {:>14} {:>7}\n",
        "phase", "calls", "kills", "not reached", "longest stall", "failed"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<10} {:>6} {:>6} {:>12} {:>12.2} s {:>7}",
            row.phase.to_string(),
            row.calls,
            row.kills,
            row.not_reached,
            row.longest_stall.as_secs_f64(),
            row.failures.len()
        );
    }
    let failures: Vec<_> = rows.iter().flat_map(|row| &row.failures).collect();
    let kills: usize = rows.iter().map(|row| row.kills).sum();
    let _ = writeln!(text, "{kills} kills, {} failed", failures.len());
    failures.iter().for_each(|failure| {
        let _ = writeln!(text, "{failure}");
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_processes_are_one() {
        let mut row = Row::new(Phase::Stop, 7);
        row.count(true);
        let mut other = Row::new(Phase::Stop, 8);
        other.count(false);
        other.failed("stop, after call 3 `unlink x`: y".to_owned());
        other.longest_stall = Duration::from_millis(250);
        row.add(other);
        assert_eq!(
            table(&[row]),
            "phase       calls  kills  not reached  longest stall  failed\n\
             stop            8      2            1         0.25 s       1\n\
             2 kills, 1 failed\n\
             stop, after call 3 `unlink x`: y\n"
        );
    }
}
