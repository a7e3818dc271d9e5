//! Questions that the archive answers.

use jiff::Timestamp;
use rusqlite::{Connection, Result, Statement, params, params_from_iter, types::Value};

use super::columns::{COLUMNS, read};
use crate::row::Row;

/// Most rows of an answer.
pub const MAX_ROWS: usize = 10_000;

/// A query says which rows are wanted. What is None is left open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub task: Option<String>,
    /// The path of the configuration.
    pub path: Option<String>,
    /// The other end, as the task names it.
    pub host: Option<String>,
    /// The first moment that a period may begin at.
    pub since: Option<Timestamp>,
    /// The first moment that it may not begin at.
    pub until: Option<Timestamp>,
    /// Rows, 1 to `MAX_ROWS`, which is also what None stands for.
    pub limit: Option<usize>,
}

/// The last that is known of one task at one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Latest {
    /// How its last period ended.
    pub last: Row,
    /// The last one that gave a measurement, which may be the same.
    pub measured: Option<Row>,
}

/// Whose rows these are: a task, at a host that it names. The configuration may have given
/// the name to another task since.
pub type Subject<'a> = (&'a str, Option<&'a str>, &'a str, &'a str);

impl Query {
    /// Returns the newest of the rows that are wanted, the newest first.
    pub(super) fn rows(&self, connection: &Connection) -> Result<Vec<Row>> {
        let (mut statement, values) = self.prepare(connection, COLUMNS, Order::NewestFirst)?;
        statement.query_map(params_from_iter(values), read)?.collect()
    }

    /// Calls a function with each of the rows that are wanted, the oldest first.
    pub(super) fn each(&self, connection: &Connection, mut call: impl FnMut(Row)) -> Result<()> {
        let (mut statement, values) = self.prepare(connection, COLUMNS, Order::OldestFirst)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            call(read(row)?);
        }
        Ok(())
    }

    fn prepare<'c>(
        &self,
        connection: &'c Connection,
        columns: &str,
        order: Order,
    ) -> Result<(Statement<'c>, [Value; 6])> {
        let Self { task, path, host, since, until, .. } = self;
        let has_subject = task.is_some() || path.is_some() || host.is_some();
        // The planner has no statistics; one of the two is always the right one.
        let (index, subject) = if has_subject {
            (
                "run_of_series",
                "AND run.series IN (SELECT id FROM series WHERE (?1 IS NULL OR task = ?1)
                    AND (?2 IS NULL OR path = ?2) AND (?3 IS NULL OR host = ?3))",
            )
        } else {
            ("run_at", "AND ?1 IS NULL AND ?2 IS NULL AND ?3 IS NULL")
        };
        let (order, limit) = match order {
            Order::NewestFirst => ("DESC", self.limit()),
            Order::OldestFirst => ("ASC", usize::MAX),
        };
        let statement = connection.prepare(&format!(
            "SELECT {columns} FROM run INDEXED BY {index} JOIN series ON series.id = run.series
                WHERE run.period_us >= ?4 AND run.period_us < ?5 {subject}
                ORDER BY run.period_us {order}, run.id {order} LIMIT ?6"
        ))?;
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let time = |time: &Option<Timestamp>, open| time.map_or(open, Timestamp::as_microsecond);
        let values = [
            text(task),
            text(path),
            text(host),
            time(since, i64::MIN).into(),
            time(until, i64::MAX).into(),
            i64::try_from(limit).unwrap_or(i64::MAX).into(),
        ];
        Ok((statement, values))
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_ROWS).clamp(1, MAX_ROWS)
    }

    /// Tells whether a row is wanted.
    pub(super) fn wants(&self, row: &Row) -> bool {
        let is = |wanted: &Option<String>, it: Option<&str>| match wanted {
            Some(wanted) => it == Some(wanted),
            None => true,
        };
        is(&self.task, Some(&row.task))
            && is(&self.path, row.path.as_deref())
            && is(&self.host, Some(&row.host))
            && self.since.is_none_or(|since| row.period >= since)
            && self.until.is_none_or(|until| row.period < until)
    }
}

#[derive(Clone, Copy)]
enum Order {
    NewestFirst,
    OldestFirst,
}

impl Latest {
    /// Returns the latest of each series of the file. An address of its own makes a series.
    pub(super) fn all(connection: &Connection) -> Result<Vec<Self>> {
        let last = |condition: &str| {
            connection.prepare(&format!(
                "SELECT {COLUMNS} FROM series JOIN run ON run.id = (
                    SELECT id FROM run INDEXED BY run_of_series
                    WHERE series = series.id {condition}
                    ORDER BY period_us DESC, id DESC LIMIT 1)"
            ))
        };
        let rows = last("")?.query_map(params![], read)?.collect::<Result<Vec<_>>>()?;
        let mut measured = last("AND ending = 'measured'")?;
        let measured = measured.query_map(params![], read)?.collect::<Result<Vec<_>>>()?;
        let single = |last: Row| Self { measured: None, last };
        Ok(rows.into_iter().map(single).chain(measured.into_iter().map(Self::from)).collect())
    }

    pub fn subject(&self) -> Subject<'_> {
        let Row { task, path, host, tool, .. } = &self.last;
        (task, path.as_deref(), host, tool)
    }

    /// Adds what another knows of the same task.
    pub(super) fn merge(&mut self, other: Self) {
        if other.last.period > self.last.period {
            self.last = other.last;
        }
        let period = |row: &Option<Row>| row.as_ref().map(|row| row.period);
        if period(&other.measured) > period(&self.measured) {
            self.measured = other.measured;
        }
    }
}

impl From<Row> for Latest {
    fn from(row: Row) -> Self {
        let is_measured = matches!(row.ending, crate::row::Ending::Measured(_));
        Self { measured: is_measured.then(|| row.clone()), last: row }
    }
}
