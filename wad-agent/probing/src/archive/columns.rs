//! A row as columns of the tables, and back.

use std::{error::Error, net::IpAddr, time::Duration};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Result, params, types::Type};

use crate::{
    measurement::{Bandwidth, Confidence, HeldUp, Measurement, RoundTrips, Share},
    row::{Ending, Hindrance, Row},
};

/// A reason may take so much of a row: some of it is what another program said.
const MAX_REASON_BYTES: usize = 1_000;

/// These columns are read of a run and its series, in the order of `read`.
pub const COLUMNS: &str = "
  task, path, host, address, tool,
  period_us, started_us, took_us, ending, reason, lock, holder,
  rtt_samples, rtt_min_seconds, rtt_median_seconds, rtt_max_seconds,
  lost_packets, sent_packets, reordered_packets, received_packets, path_mtu_bytes,
  bandwidth_bits_per_second, confidence,
  loaded_rtt_samples, loaded_rtt_min_seconds, loaded_rtt_median_seconds, loaded_rtt_max_seconds,
  retransmitted_bytes, congestion,
  busy_seconds, limited_by_receiver_seconds, limited_by_send_buffer_seconds, spent_bytes, periods";

/// The place of the first column of a measurement in `COLUMNS`.
const MEASUREMENT: usize = 12;
const PERIODS: usize = 33;

const INSERT: &str = "
INSERT INTO run (
  series, period_us, started_us, took_us, ending, reason, lock, holder,
  rtt_samples, rtt_min_seconds, rtt_median_seconds, rtt_max_seconds,
  lost_packets, sent_packets, reordered_packets, received_packets, path_mtu_bytes,
  bandwidth_bits_per_second, confidence,
  loaded_rtt_samples, loaded_rtt_min_seconds, loaded_rtt_median_seconds, loaded_rtt_max_seconds,
  retransmitted_bytes, congestion,
  busy_seconds, limited_by_receiver_seconds, limited_by_send_buffer_seconds, spent_bytes, periods
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
  ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)";

/// Writes a row, within a transaction.
pub fn insert(connection: &Connection, row: &Row) -> Result<()> {
    let series = series(connection, row)?;
    let (ending, reason, lock) = words(&row.ending);
    let measured = match &row.ending {
        Ending::Measured(measurement) => Some(measurement),
        _ => None,
    };
    let rtt = measured.and_then(|it| it.rtt);
    let loss = measured.and_then(|it| it.loss);
    let reordering = measured.and_then(|it| it.reordering);
    let bandwidth = measured.and_then(|it| it.bandwidth.as_ref());
    let held_up = bandwidth.and_then(|it| it.held_up);
    let loaded = bandwidth.and_then(|it| it.loaded_rtt);
    connection.prepare(INSERT)?.execute(params![
        series,
        row.period.as_microsecond(),
        row.started.map(Timestamp::as_microsecond),
        i64::try_from(row.took.as_micros()).unwrap_or(i64::MAX),
        ending,
        reason.map(cut),
        lock.map(|(lock, _)| lock),
        lock.map(|(_, holder)| holder),
        rtt.map(|it| it.samples),
        rtt.map(|it| it.min_seconds),
        rtt.map(|it| it.median_seconds),
        rtt.map(|it| it.max_seconds),
        loss.map(|it| integer(it.part)),
        loss.map(|it| integer(it.whole)),
        reordering.map(|it| integer(it.part)),
        reordering.map(|it| integer(it.whole)),
        measured.and_then(|it| it.path_mtu_bytes),
        bandwidth.map(|it| it.bits_per_second),
        bandwidth.map(|it| it.confidence.word()),
        loaded.map(|it| it.samples),
        loaded.map(|it| it.min_seconds),
        loaded.map(|it| it.median_seconds),
        loaded.map(|it| it.max_seconds),
        bandwidth.and_then(|it| it.retransmitted_bytes).map(integer),
        bandwidth.and_then(|it| it.congestion.as_deref()),
        held_up.map(|it| it.busy_seconds),
        held_up.map(|it| it.by_receiver_seconds),
        held_up.map(|it| it.by_send_buffer_seconds),
        measured.map(|it| integer(it.spent_bytes)),
        Some(row.periods()).filter(|periods| *periods != 1).map(integer),
    ])?;
    Ok(())
}

/// Returns the series of a row, which is made if it is the first of it.
fn series(connection: &Connection, row: &Row) -> Result<i64> {
    let Row { task, path, host, tool, .. } = row;
    let address = row.address.map(|address| address.to_string());
    let series = params![task, path, host, address, tool];
    let find = "SELECT id FROM series
        WHERE task = ?1 AND path IS ?2 AND host = ?3 AND address IS ?4 AND tool = ?5";
    match connection.query_row(find, series, |row| row.get(0)).optional()? {
        Some(id) => Ok(id),
        None => {
            let add = "INSERT INTO series (task, path, host, address, tool)
                VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.execute(add, series)?;
            Ok(connection.last_insert_rowid())
        }
    }
}

/// Reads a row of `COLUMNS`.
pub fn read(row: &rusqlite::Row<'_>) -> Result<Row> {
    let address: Option<String> = row.get(3)?;
    let address = address.map(|text| text.parse::<IpAddr>()).transpose();
    Ok(Row {
        task: row.get(0)?,
        path: row.get(1)?,
        host: row.get(2)?,
        address: address.map_err(|error| odd(3, error))?,
        tool: row.get(4)?,
        period: time(row, 5)?,
        started: row.get::<_, Option<i64>>(6)?.map(|_| time(row, 6)).transpose()?,
        took: Duration::from_micros(row.get::<_, i64>(7)?.unsigned_abs()),
        ending: ending(row)?,
    })
}

fn time(row: &rusqlite::Row<'_>, column: usize) -> Result<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|error| odd(column, error))
}

fn ending(row: &rusqlite::Row<'_>) -> Result<Ending> {
    let reason = || row.get::<_, Option<String>>(9).map(Option::unwrap_or_default);
    let ending: String = row.get(8)?;
    Ok(match ending.as_str() {
        "measured" => Ending::Measured(measurement(row)?),
        "missed" => Ending::Missed(match reason()?.as_str() {
            "lock" => Hindrance::Lock { lock: row.get(10)?, holder: row.get(11)? },
            "known-from-flows" => Hindrance::KnownFromFlows,
            "not-running" => Hindrance::NotRunning,
            "backing-off" => Hindrance::BackingOff,
            "stopped" => Hindrance::Stopped { periods: count(row, PERIODS)?.unwrap_or(1) },
            other => return Err(odd(9, format!("{other:?} is no hindrance"))),
        }),
        "refused" => Ending::Refused(reason()?),
        "failed" => Ending::Failed(reason()?),
        "timed-out" => Ending::TimedOut,
        "killed" => Ending::Killed(reason()?),
        other => return Err(odd(8, format!("{other:?} is no ending"))),
    })
}

fn measurement(row: &rusqlite::Row<'_>) -> Result<Measurement> {
    let at = |place: usize| MEASUREMENT + place;
    let bits_per_second: Option<f64> = row.get(at(9))?;
    let bandwidth = match bits_per_second {
        None => None,
        Some(bits_per_second) => {
            let word: String = row.get(at(10))?;
            let confidence = Confidence::ALL.into_iter().find(|it| it.word() == word);
            Some(Bandwidth {
                bits_per_second,
                confidence: confidence
                    .ok_or_else(|| odd(at(10), format!("{word:?} is no confidence")))?,
                loaded_rtt: round_trips(row, at(11))?,
                retransmitted_bytes: count(row, at(15))?,
                congestion: row.get(at(16))?,
                held_up: held_up(row, at(17))?,
            })
        }
    };
    Ok(Measurement {
        rtt: round_trips(row, at(0))?,
        loss: share(row, at(4))?,
        reordering: share(row, at(6))?,
        path_mtu_bytes: row.get(at(8))?,
        bandwidth,
        spent_bytes: count(row, at(20))?.unwrap_or_default(),
    })
}

/// Reads round trip times. SQLite makes a null of what is no number.
fn round_trips(row: &rusqlite::Row<'_>, at: usize) -> Result<Option<RoundTrips>> {
    let samples: Option<u32> = row.get(at)?;
    let seconds = |place| row.get::<_, Option<f64>>(at + place);
    let (Some(samples), Some(min_seconds), Some(median_seconds), Some(max_seconds)) =
        (samples, seconds(1)?, seconds(2)?, seconds(3)?)
    else {
        return Ok(None);
    };
    Ok(Some(RoundTrips { samples, min_seconds, median_seconds, max_seconds }))
}

fn held_up(row: &rusqlite::Row<'_>, at: usize) -> Result<Option<HeldUp>> {
    let seconds = |place| row.get::<_, Option<f64>>(at + place);
    let (Some(busy_seconds), Some(by_receiver_seconds), Some(by_send_buffer_seconds)) =
        (seconds(0)?, seconds(1)?, seconds(2)?)
    else {
        return Ok(None);
    };
    Ok(Some(HeldUp { busy_seconds, by_receiver_seconds, by_send_buffer_seconds }))
}

fn share(row: &rusqlite::Row<'_>, at: usize) -> Result<Option<Share>> {
    let (part, whole) = (count(row, at)?, count(row, at + 1)?);
    Ok(part.zip(whole).map(|(part, whole)| Share { part, whole }))
}

fn count(row: &rusqlite::Row<'_>, at: usize) -> Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(i64::unsigned_abs))
}

type Words<'a> = (&'static str, Option<&'a str>, Option<(&'a str, &'a str)>);

/// Returns the word of an ending, its reason, and the lock and who held it.
fn words(ending: &Ending) -> Words<'_> {
    match ending {
        Ending::Measured(_) => (ending.word(), None, None),
        Ending::Missed(hindrance) => {
            let lock = match hindrance {
                Hindrance::Lock { lock, holder } => Some((lock.as_str(), holder.as_str())),
                _ => None,
            };
            (ending.word(), Some(hindrance.word()), lock)
        }
        Ending::Refused(why) | Ending::Failed(why) | Ending::Killed(why) => {
            (ending.word(), Some(why), None)
        }
        Ending::TimedOut => (ending.word(), None, None),
    }
}

fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}

/// SQLite's integers have a sign.
fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn odd(column: usize, why: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}
