//! The tables of the file: SQL, and the numbers that say whose file it is and of what version.

use rusqlite::{Connection, OptionalExtension as _, Result, Transaction, TransactionBehavior};

/// The version of the tables, which `PRAGMA user_version` tells.
pub const VERSION: i32 = 2;

/// `PRAGMA application_id` tells this of an archive: `wadp`.
const APPLICATION: i32 = i32::from_be_bytes(*b"wadp");

/// Version 1 had no `periods`. SQLite adds a column without writing the rows again.
const FROM_1: &str = "
ALTER TABLE run ADD COLUMN periods INTEGER;
DROP VIEW result;
";

/// A series is what the rows of a task have in common, so that each row is small. Times are
/// microseconds since 1970, lengths of time seconds but `took_us`, and shares two counts. Where
/// `periods` is null, a row is of one.
const TABLES: &str = "
CREATE TABLE series (
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  path TEXT,
  host TEXT NOT NULL,
  address TEXT,
  tool TEXT NOT NULL
);
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  series INTEGER NOT NULL REFERENCES series (id),
  period_us INTEGER NOT NULL,
  started_us INTEGER,
  took_us INTEGER NOT NULL,
  ending TEXT NOT NULL,
  reason TEXT,
  lock TEXT,
  holder TEXT,
  spent_bytes INTEGER,
  rtt_samples INTEGER,
  rtt_min_seconds REAL,
  rtt_median_seconds REAL,
  rtt_max_seconds REAL,
  lost_packets INTEGER,
  sent_packets INTEGER,
  reordered_packets INTEGER,
  received_packets INTEGER,
  path_mtu_bytes INTEGER,
  bandwidth_bits_per_second REAL,
  confidence TEXT,
  loaded_rtt_samples INTEGER,
  loaded_rtt_min_seconds REAL,
  loaded_rtt_median_seconds REAL,
  loaded_rtt_max_seconds REAL,
  retransmitted_bytes INTEGER,
  congestion TEXT,
  busy_seconds REAL,
  limited_by_receiver_seconds REAL,
  limited_by_send_buffer_seconds REAL,
  periods INTEGER
);
CREATE INDEX series_of_task ON series (task);
CREATE INDEX run_of_series ON run (series, period_us);
CREATE INDEX run_at ON run (period_us);
";

/// Other programs are to read this.
const VIEW: &str = "
CREATE VIEW result AS
  SELECT strftime('%Y-%m-%dT%H:%M:%SZ', period_us / 1000000, 'unixepoch') AS period,
    coalesce(periods, 1) AS periods, task, path, host, address, tool, ending, reason, lock, holder,
    took_us / 1e6 AS took_seconds, spent_bytes,
    rtt_min_seconds, rtt_median_seconds, rtt_max_seconds,
    lost_packets, sent_packets, reordered_packets, received_packets, path_mtu_bytes,
    bandwidth_bits_per_second, confidence, loaded_rtt_median_seconds, retransmitted_bytes, congestion,
    busy_seconds, limited_by_receiver_seconds, limited_by_send_buffer_seconds
  FROM run JOIN series ON series.id = run.series
  ORDER BY run.period_us, run.id;
";

/// A file turns out to be one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Empty,
    Archive,
    /// Tables of the version before.
    Older,
    /// Tables of a later version, which are not understood.
    Newer(i32),
    /// A database that is none of ours.
    Foreign,
}

pub fn kind(connection: &Connection) -> Result<Kind> {
    let number = |name| connection.query_row(name, [], |row| row.get::<_, i32>(0));
    let table = "SELECT 1 FROM sqlite_schema LIMIT 1";
    let has_tables = connection.query_row(table, [], |_| Ok(())).optional()?.is_some();
    Ok(match (number("PRAGMA application_id")?, number("PRAGMA user_version")?) {
        (0, 0) if !has_tables => Kind::Empty,
        (APPLICATION, VERSION) => Kind::Archive,
        (APPLICATION, 1) => Kind::Older,
        (APPLICATION, newer) if newer > VERSION => Kind::Newer(newer),
        _ => Kind::Foreign,
    })
}

/// Makes an archive of an empty file.
pub fn create(connection: &mut Connection) -> Result<()> {
    // Before all else: later, it would take as much room again.
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    put(connection, Kind::Empty, TABLES)
}

/// Makes an archive of one of the version before.
pub fn raise(connection: &mut Connection) -> Result<()> {
    put(connection, Kind::Older, FROM_1)
}

/// Has the tables be those of this version, if they are still the others.
fn put(connection: &mut Connection, from: Kind, tables: &str) -> Result<()> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Another process may have been first.
    if kind(&transaction)? == from {
        transaction.execute_batch(tables)?;
        transaction.execute_batch(VIEW)?;
        transaction.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}"
        ))?;
    }
    transaction.commit()
}
