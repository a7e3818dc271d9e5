//! The file, as the one who writes has it: opened, kept within its bounds.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Result, Transaction, TransactionBehavior, params,
};

use super::{
    ArchiveError, Bounds,
    aside::with_end,
    columns,
    schema::{self, Kind},
};
use crate::row::Row;

/// Another process may write for so long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Appends between two looks at the bounds.
const LOOKS: u32 = 16;
/// Rows that go at once. What a transaction changes has to fit beside the bound.
const CHUNK: u32 = 256;
/// A log that grew leaves so much on the disk.
const MAX_LOG_BYTES: u64 = 4 << 20;
/// SQLite's usual size of a page.
const PAGE_BYTES: u64 = 4_096;

pub struct Database {
    path: PathBuf,
    connection: Connection,
    bounds: Bounds,
    /// The inode: somebody may take the file away.
    inode: u64,
    /// A reader of another process keeps the log from being taken in, and it is too long.
    is_pinned: bool,
    appends: u32,
}

impl Database {
    pub fn open(path: &Path, bounds: Bounds) -> Result<Self, ArchiveError> {
        let failed = |source| ArchiveError::Open { file: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let file = || path.to_owned();
        match schema::kind(&connection).map_err(failed)? {
            Kind::Archive => {}
            Kind::Empty => schema::create(&mut connection).map_err(failed)?,
            Kind::Older => schema::raise(&mut connection).map_err(failed)?,
            Kind::Newer(version) => return Err(ArchiveError::Newer { file: file(), version }),
            Kind::Foreign => return Err(ArchiveError::Foreign { file: file() }),
        }
        let log_bytes = bounds.log_bytes();
        // A row that was appended outlives the process; the last ones before a loss of
        // power may go. The cache is in KiB.
        let settings = format!(
            "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -2048;
             PRAGMA wal_autocheckpoint = {}",
            log_bytes / PAGE_BYTES
        );
        connection.execute_batch(&settings).map_err(failed)?;
        let limit = format!("PRAGMA journal_size_limit = {log_bytes}");
        connection.query_row(&limit, [], |_| Ok(())).map_err(failed)?;
        let inode =
            fs::metadata(path).map_err(|source| ArchiveError::Look { file: file(), source })?;
        let inode = inode.ino();
        Ok(Self { path: file(), connection, bounds, inode, is_pinned: false, appends: 0 })
    }

    /// Writes rows, all or none.
    pub fn append(&mut self, rows: &[Row]) -> Result<(), ArchiveError> {
        if self.is_pinned {
            self.look_at_log()?;
        }
        match self.insert(rows) {
            Err(error) if is_full(&error) => {
                // What the log holds twice may be all that is missing.
                self.checkpoint()?;
                self.insert(rows)?;
            }
            other => other?,
        }
        self.appends = self.appends.wrapping_add(1);
        Ok(())
    }

    /// Tells whether it is time to `look`.
    pub const fn wants_look(&self) -> bool {
        self.appends.is_multiple_of(LOOKS)
    }

    fn insert(&mut self, rows: &[Row]) -> Result<()> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new(&mut self.connection, behavior)?;
        rows.iter().try_for_each(|row| columns::insert(&transaction, row))?;
        transaction.commit()
    }

    /// Holds the bounds. It is now, for them, when the last row's period began.
    pub fn look(&mut self, now: Timestamp) -> Result<(), ArchiveError> {
        self.look_at_log()?;
        let oldest = now.checked_sub(self.bounds.keep).unwrap_or(Timestamp::MIN);
        let old = "DELETE FROM run WHERE id IN (
            SELECT id FROM run WHERE period_us < ?1 ORDER BY period_us LIMIT ?2)";
        let mut gone = self.connection.execute(old, params![oldest.as_microsecond(), CHUNK])?;
        while self.used_bytes()? > self.bounds.row_bytes() {
            let first = "DELETE FROM run WHERE id IN (
                SELECT id FROM run ORDER BY period_us LIMIT ?1)";
            match self.connection.execute(first, [CHUNK])? {
                0 => break,
                count => gone += count,
            }
        }
        if gone > 0 {
            let unused = "DELETE FROM series
                WHERE NOT EXISTS (SELECT 1 FROM run WHERE series = series.id)";
            self.connection.execute(unused, [])?;
            self.give_back()?;
        }
        match fs::metadata(&self.path) {
            Ok(file) if file.ino() == self.inode => Ok(()),
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ArchiveError::Look { file: self.path.clone(), source })
            }
            _ => Err(ArchiveError::Moved { file: self.path.clone() }),
        }
    }

    /// Gives pages back to the file system when many are free. The next rows take a few.
    fn give_back(&self) -> Result<()> {
        let (pages, free) = (self.number("page_count")?, self.number("freelist_count")?);
        if free > pages / 8 {
            let at_once = self.bounds.log_bytes() / PAGE_BYTES / 2;
            let vacuum = format!("PRAGMA incremental_vacuum({at_once})");
            let mut statement = self.connection.prepare(&vacuum)?;
            // Each step gives one back.
            let mut steps = statement.query([])?;
            while steps.next()?.is_some() {}
        }
        Ok(())
    }

    fn look_at_log(&mut self) -> Result<(), ArchiveError> {
        if self.log_bytes() > 2 * self.bounds.log_bytes() {
            self.checkpoint()?;
        }
        self.is_pinned = self.log_bytes() > 2 * self.bounds.log_bytes();
        match self.is_pinned {
            true => Err(ArchiveError::Pinned { file: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn checkpoint(&self) -> Result<()> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    pub fn log_bytes(&self) -> u64 {
        fs::metadata(with_end(&self.path, "-wal")).map_or(0, |log| log.len())
    }

    /// Returns what the file takes, free pages included.
    pub fn file_bytes(&self) -> Result<u64> {
        Ok(self.number("page_count")? * PAGE_BYTES)
    }

    pub fn free_bytes(&self) -> Result<u64> {
        Ok(self.number("freelist_count")? * PAGE_BYTES)
    }

    fn used_bytes(&self) -> Result<u64> {
        Ok(self.file_bytes()?.saturating_sub(self.free_bytes()?))
    }

    fn number(&self, pragma: &str) -> Result<u64> {
        let number = self.connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
        number.map(|number: i64| number.unsigned_abs())
    }
}

impl Bounds {
    /// A log is cut to this when it has been taken in.
    fn log_bytes(self) -> u64 {
        (self.max_bytes / 8).clamp(16 * PAGE_BYTES, MAX_LOG_BYTES)
    }

    /// Rows may take this, so that all files together are within the bound: the log may have
    /// twice its length, and what a transaction adds.
    fn row_bytes(self) -> u64 {
        self.max_bytes.saturating_sub(3 * self.log_bytes())
    }
}

/// Tells whether a write failed for want of room, or may have.
fn is_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
}
