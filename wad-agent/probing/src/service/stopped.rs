//! Periods that pass while there is no service are told of when there is one again: in one
//! row of each task, as they may be many.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use crate::{
    archive::Latest,
    row::{Ending, Hindrance, Row},
    task::Task,
};

/// Clocks differ by so much of a period between two lives of a host.
const TOLERANCE: f64 = 0.01;

/// The services of before have left this: when the last period of each task began that has a
/// row.
#[derive(Default)]
pub struct Before {
    last: HashMap<Subject, Timestamp>,
    newest: Timestamp,
}

type Subject = (String, Option<String>, String, String);

impl Before {
    pub fn new(latest: &[Latest]) -> Self {
        let last = latest.iter().map(|latest| {
            let (task, path, host, tool) = latest.subject();
            let path = path.map(str::to_owned);
            ((task.to_owned(), path, host.to_owned(), tool.to_owned()), latest.last.period)
        });
        let last: HashMap<_, _> = last.collect();
        let newest = last.values().max().copied().unwrap_or_default();
        Self { last, newest }
    }

    /// Returns the row of a task's periods that have none, up to the first that is to come;
    /// None where there are no such.
    pub fn row(&self, task: &Task, first: Timestamp) -> Option<Row> {
        let row = task.row(first, Ending::TimedOut);
        let subject = (row.task.clone(), row.path.clone(), row.host.clone(), row.tool.clone());
        let (last, every) = (*self.last.get(&subject)?, task.config.every);
        // Else the service went on without the task.
        let was_there = self.newest.duration_since(last).as_secs_f64() <= 2.0 * every.as_secs_f64();
        let periods = if was_there { passed(last, first, every) } else { 0 };
        // Nothing is as old as what does not fit.
        let length = u32::try_from(periods).ok().and_then(|periods| every.checked_mul(periods))?;
        (periods > 0).then(|| Row {
            period: first.checked_sub(length).unwrap_or(last),
            ending: Ending::Missed(Hindrance::Stopped { periods }),
            ..row
        })
    }
}

/// Returns the number of periods that began after one, and before another.
fn passed(last: Timestamp, first: Timestamp, every: Duration) -> u64 {
    let apart = first.duration_since(last).as_secs_f64() / every.as_secs_f64();
    // Saturates, at 0 where the clock was set back.
    ((apart - TOLERANCE).ceil() - 1.0) as u64
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, Host};

    use super::*;

    fn task() -> Task {
        let text = "[[probe.task]]\nname = 'a'\nhost = '192.0.2.1'\ntool = 'rtt'\nevery = '1min'\n";
        let config = Config::parse("wad.toml", text, &Host::default()).unwrap();
        Task::new(config.probe.unwrap().tasks.remove(0))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// The last rows of tasks began then.
    fn before(rows: &[(&str, i64)]) -> Before {
        let rows = rows.iter().map(|(name, second)| {
            let row = task().row(at(*second), Ending::TimedOut);
            Latest::from(Row { task: (*name).to_owned(), ..row })
        });
        Before::new(&rows.collect::<Vec<_>>())
    }

    #[test]
    fn periods_of_a_time_without_a_service_share_a_row() {
        let row = |before: Before, first| before.row(&task(), at(first));
        for (first, periods) in [(60, 0), (120, 1), (600, 9), (86_400, 1_439)] {
            let row = row(before(&[("a", 0), ("b", 30)]), first);
            assert_eq!(row.as_ref().map_or(0, Row::periods), periods, "{first}");
            if let Some(row) = row {
                assert_eq!((row.period, row.started), (at(60), None));
            }
        }
        // The clock was corrected a little meanwhile, or set back; or the period is another.
        assert_eq!(passed(at(0), at(120) + Duration::from_millis(500), Duration::from_secs(60)), 1);
        assert_eq!(passed(at(600), at(0), Duration::from_secs(60)), 0);
        assert_eq!(passed(at(0), at(150), Duration::from_secs(60)), 2);
    }

    #[test]
    fn a_task_that_was_not_there_has_missed_nothing() {
        assert_eq!(before(&[("b", 0)]).row(&task(), at(600)), None);
        assert_eq!(Before::default().row(&task(), at(600)), None);
        // It was taken out of the file for an hour, in which another one went on.
        assert_eq!(before(&[("a", 0), ("b", 3_600)]).row(&task(), at(4_000)), None);
    }
}
