//! The archive keeps what was found out in a file of SQLite, which other programs can read:
//! see the view `result` of it.
//!
//! Nothing here fails the service. A row that cannot be written waits in memory and is
//! written when that works again; a file that is damaged, or of a later version, is set
//! aside under another name, and said.
//!
//! A row that `append` took outlives the process, even by `kill -9`, unless it waits in
//! memory. When the host's power fails, the rows since the last checkpoint may be lost, some
//! hundred; the file stays whole (`synchronous = NORMAL` in WAL mode, sqlite.org/wal.html).

mod aside;
mod columns;
mod database;
mod history;
mod query;
mod ring;
mod schema;

use std::{
    cmp::Reverse,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tracing::{info, warn};
use wad_toolbox::{causes::told, mutex::locked};

use self::{database::Database, history::Folding, ring::Ring};
pub use self::{
    history::{Bucket, Spread},
    query::{Latest, MAX_ROWS, Query},
};
use crate::row::{Ending, Hindrance, Row};

/// After a failure, the file is left alone for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// The bounds of what is kept: what is older goes, and the oldest where it is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub keep: Duration,
    /// Bytes of the file and of its log together, 1 MiB or more.
    pub max_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot open {}", file.display())]
    Open { file: PathBuf, source: rusqlite::Error },
    #[error("cannot look at {}", file.display())]
    Look { file: PathBuf, source: io::Error },
    #[error("{} is of a later version of wad: its tables are of version {version}", file.display())]
    Newer { file: PathBuf, version: i32 },
    #[error("{} is a database of something else, and is left alone", file.display())]
    Foreign { file: PathBuf },
    #[error("{} is gone, or another", file.display())]
    Moved { file: PathBuf },
    #[error("{}: somebody reads for so long that its log grows beyond its bound", file.display())]
    Pinned { file: PathBuf },
    #[error("the archive of probes")]
    Sqlite(#[from] rusqlite::Error),
}

/// An archive keeps rows. It may be shared by threads; its calls block, for milliseconds
/// mostly, and no longer than another process holds the file, a second at most.
pub struct Archive {
    path: PathBuf,
    writer: Mutex<Writer>,
    reader: Mutex<Option<Reader>>,
}

/// How the archive is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Periods whose rows were appended since the start, by the words of [`Ending::WORDS`].
    pub endings: [u64; Ending::WORDS.len()],
    /// So many of them were missed, by the words of [`Hindrance::WORDS`].
    pub hindrances: [u64; Hindrance::WORDS.len()],
    /// The bytes that runs spent which gave a measurement.
    pub spent_bytes: u64,
    /// Rows that were written since the start.
    pub written: u64,
    /// Rows that wait in memory.
    pub waiting: usize,
    /// Rows that waited until there was no room in memory either.
    pub lost: u64,
    /// Bytes of the file, with those of free pages.
    pub file_bytes: u64,
    pub free_bytes: u64,
    pub log_bytes: u64,
    /// Why rows wait, if they do.
    pub failing: Option<String>,
    /// Files that were set aside since the start.
    pub set_aside: Vec<PathBuf>,
}

struct Writer {
    path: PathBuf,
    bounds: Bounds,
    database: Option<Database>,
    ring: Ring,
    /// The counts, and how it is; not how large.
    state: State,
    /// The file is left alone until then.
    again: Option<Instant>,
    /// The times that a file was opened.
    opened: u64,
}

/// A reader does not wait for the one who writes.
struct Reader {
    connection: Connection,
    /// It is of the file that was opened as the so manieth.
    opened: u64,
}

impl Archive {
    /// Opens the file, or makes it. Where that fails, rows wait in memory, and `state` says
    /// why.
    #[must_use]
    pub fn open(path: &Path, bounds: Bounds) -> Self {
        let mut writer = Writer {
            path: path.to_owned(),
            bounds,
            database: None,
            ring: Ring::default(),
            state: State::default(),
            again: None,
            opened: 0,
        };
        let opened = writer.database().map(drop);
        writer.judge(opened);
        Self { path: path.to_owned(), writer: Mutex::new(writer), reader: Mutex::default() }
    }

    /// Keeps a row: in the file by when this returns, or in memory if that fails.
    pub fn append(&self, row: &Row) {
        locked(&self.writer).append(row);
    }

    /// Returns the newest of the rows that are wanted, the newest first.
    pub fn query(&self, query: &Query) -> Result<Vec<Row>, ArchiveError> {
        let mut rows = self.read(
            |connection| query.rows(connection),
            |rows, row| {
                if query.wants(row) {
                    rows.push(row.clone());
                }
            },
        )?;
        // Stable: of the same period, what was appended last comes first as it is.
        rows.sort_by_key(|row| Reverse(row.period));
        rows.truncate(query.limit());
        Ok(rows)
    }

    /// Folds the rows that are wanted into buckets of this length, the oldest first. Here
    /// the limit is of buckets, of which the newest count.
    pub fn history(&self, query: &Query, bucket: Duration) -> Result<Vec<Bucket>, ArchiveError> {
        let folding = || Folding::new(bucket, query.limit());
        let folded = self.read(
            |connection| {
                let mut folded = folding();
                query.each(connection, |row| folded.add(&row))?;
                Ok(Some(folded))
            },
            |folded, row| {
                if query.wants(row) {
                    folded.get_or_insert_with(folding).add(row);
                }
            },
        )?;
        Ok(folded.map(Folding::finish).unwrap_or_default())
    }

    /// Returns the latest of each task, in no order.
    pub fn latest(&self) -> Result<Vec<Latest>, ArchiveError> {
        let found = self.read(Latest::all, |found, row| found.push(row.clone().into()))?;
        let mut all: HashMap<_, Latest> = HashMap::new();
        for latest in found {
            let (task, path, host, tool) = latest.subject();
            let path = path.map(str::to_owned);
            let subject = (task.to_owned(), path, host.to_owned(), tool.to_owned());
            match all.get_mut(&subject) {
                Some(known) => known.merge(latest),
                None => _ = all.insert(subject, latest),
            }
        }
        Ok(all.into_values().collect())
    }

    /// Keeps within other bounds from now on.
    pub fn set_bounds(&self, bounds: Bounds) {
        let mut writer = locked(&self.writer);
        if writer.bounds != bounds {
            writer.bounds = bounds;
            // Opened with them when next it is needed.
            writer.database = None;
        }
    }

    #[must_use]
    pub fn state(&self) -> State {
        let writer = locked(&self.writer);
        let bytes = |bytes: fn(&Database) -> rusqlite::Result<u64>| {
            writer.database.as_ref().and_then(|database| bytes(database).ok()).unwrap_or_default()
        };
        State {
            waiting: writer.ring.len(),
            lost: writer.ring.lost(),
            file_bytes: bytes(Database::file_bytes),
            free_bytes: bytes(Database::free_bytes),
            log_bytes: writer.database.as_ref().map_or(0, Database::log_bytes),
            ..writer.state.clone()
        }
    }

    /// Reads from the file, then adds each row that waits in memory, the oldest first.
    fn read<T: Default>(
        &self,
        from_file: impl FnOnce(&Connection) -> rusqlite::Result<T>,
        mut add: impl FnMut(&mut T, &Row),
    ) -> Result<T, ArchiveError> {
        let mut reader = locked(&self.reader);
        let mut writer = locked(&self.writer);
        if writer.database.is_none() {
            *reader = None;
            let mut all = T::default();
            writer.ring.rows().iter().for_each(|row| add(&mut all, row));
            return Ok(all);
        }
        let opened = writer.opened;
        // While rows wait, the one who writes does: else a row might be seen twice.
        let waiting = if writer.ring.is_empty() {
            drop(writer);
            None
        } else {
            Some(writer)
        };
        if reader.as_ref().is_none_or(|reader| reader.opened != opened) {
            *reader = Some(Reader { connection: read_only(&self.path)?, opened });
        }
        let connection = &reader.as_ref().expect("it was opened").connection;
        let mut all = match from_file(connection) {
            Ok(all) => all,
            Err(error) => {
                *reader = None;
                let error = ArchiveError::from(error);
                if error.is_damage() {
                    waiting.unwrap_or_else(|| locked(&self.writer)).set_aside("damaged", &error)?;
                }
                return Err(error);
            }
        };
        if let Some(mut writer) = waiting {
            writer.ring.rows().iter().for_each(|row| add(&mut all, row));
        }
        Ok(all)
    }
}

fn read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PAUSE)?;
    Ok(connection)
}

impl Writer {
    fn append(&mut self, row: &Row) {
        self.state.count(row);
        let rests = self.again.is_some_and(|again| Instant::now() < again);
        if self.ring.is_empty() && !rests {
            match self.write(std::slice::from_ref(row)) {
                Ok(()) => return self.judge(Ok(())),
                error => self.judge(error),
            }
            return self.ring.push(row.clone());
        }
        self.ring.push(row.clone());
        if !rests {
            let written = self.write_waiting();
            self.judge(written);
        }
    }

    /// Writes what waits: one row to see whether that works, then all others.
    fn write_waiting(&mut self) -> Result<(), ArchiveError> {
        let mut ring = std::mem::take(&mut self.ring);
        let result = (|| {
            while !ring.is_empty() {
                let count = if self.state.failing.is_some() { 1 } else { ring.len() };
                self.write(&ring.rows()[..count])?;
                ring.forget(count);
                self.judge(Ok(()));
            }
            Ok(())
        })();
        self.ring = ring;
        result
    }

    fn write(&mut self, rows: &[Row]) -> Result<(), ArchiveError> {
        match self.database()?.append(rows) {
            Err(error) if error.is_damage() => {
                self.set_aside("damaged", &error)?;
                self.database()?.append(rows)?;
            }
            other => other?,
        }
        self.state.written += rows.len() as u64;
        let Some(database) = self.database.as_mut().filter(|it| it.wants_look()) else {
            return Ok(());
        };
        // The rows are written, whatever becomes of older ones.
        match rows.last().map_or(Ok(()), |last| database.look(last.period)) {
            Ok(()) => {}
            Err(error @ ArchiveError::Moved { .. }) => {
                warn!("{error}; another is begun");
                self.database = None;
            }
            Err(error) if error.is_damage() => self.set_aside("damaged", &error)?,
            Err(error) => warn!("old results are not removed: {}", told(&error)),
        }
        Ok(())
    }

    /// Returns the file, which is opened if it is not.
    fn database(&mut self) -> Result<&mut Database, ArchiveError> {
        if self.database.is_none() {
            let opened = match Database::open(&self.path, self.bounds) {
                Err(error) if error.is_damage() => {
                    self.set_aside("damaged", &error)?;
                    Database::open(&self.path, self.bounds)
                }
                Err(error @ ArchiveError::Newer { .. }) => {
                    self.set_aside("newer", &error)?;
                    Database::open(&self.path, self.bounds)
                }
                other => other,
            };
            self.database = Some(opened?);
            self.opened += 1;
        }
        Ok(self.database.as_mut().expect("it was opened"))
    }

    fn set_aside(&mut self, kind: &str, why: &ArchiveError) -> Result<(), ArchiveError> {
        self.database = None;
        let aside = aside::set_aside(&self.path, kind)
            .map_err(|source| ArchiveError::Look { file: self.path.clone(), source })?;
        warn!("{}; it is set aside as {}, and another is begun", told(why), aside.display());
        self.state.set_aside.push(aside);
        Ok(())
    }

    /// Notes how writing went, and says what has changed.
    fn judge(&mut self, result: Result<(), ArchiveError>) {
        match result {
            Ok(()) => {
                self.again = None;
                if self.state.failing.take().is_some() {
                    info!("{}: results are written again", self.path.display());
                }
            }
            Err(error) => {
                let why = told(&error);
                if self.state.failing.as_ref() != Some(&why) {
                    warn!("{why}; results wait in memory");
                }
                self.state.failing = Some(why);
                self.again = Some(Instant::now() + PAUSE);
            }
        }
    }
}

impl State {
    fn count(&mut self, row: &Row) {
        let counted = &mut self.endings[row.ending.place()];
        *counted = counted.saturating_add(row.periods());
        match &row.ending {
            Ending::Measured(measurement) => {
                self.spent_bytes = self.spent_bytes.saturating_add(measurement.spent_bytes);
            }
            Ending::Missed(hindrance) => {
                let counted = &mut self.hindrances[hindrance.place()];
                *counted = counted.saturating_add(row.periods());
            }
            _ => {}
        }
    }
}

impl ArchiveError {
    /// Tells whether the file is none that SQLite can use.
    fn is_damage(&self) -> bool {
        let (Self::Open { source, .. } | Self::Sqlite(source)) = self else { return false };
        let code = source.sqlite_error_code();
        matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }
}

#[cfg(test)]
mod tests;
