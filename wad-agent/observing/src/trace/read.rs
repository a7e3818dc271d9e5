//! Reads traces: JSON or CSV, packed or not, and those that were cut off or damaged
//! up to there.

mod frames;
mod whole;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use serde::Deserialize;

use self::{frames::Frames, whole::Whole};
#[cfg(feature = "fuzz")]
use wad_instruments::Owner;

#[cfg(feature = "fuzz")]
use super::row::Format;
use super::row::{FLOW, OWNER, Row, VERSION, instrument};

/// Bytes that tell a trace from other files.
pub const BEGINNING: usize = 16;
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const JSON: &[u8] = b"{\"wad_trace\":";
const CSV: &[u8] = b"time,cookie,";

/// Whether a file that begins so is a trace.
pub fn begins_a_trace(first: &[u8]) -> bool {
    [&ZSTD[..], JSON, CSV].into_iter().any(|beginning| first.starts_with(beginning))
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read it")]
    Read(#[from] io::Error),
    #[error("it is no trace of wad's")]
    NoTrace,
    #[error("its first line cannot be read: {0}")]
    Head(String),
    #[error("it is of form {0}, this program reads form {VERSION}: use a later version of wad")]
    Later(u32),
}

/// Says what of a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only its first {lines} lines can be read: {what}")]
pub struct Damage {
    lines: u64,
    what: String,
}

/// The rows of a trace, in their order.
#[derive(Debug)]
pub struct Rows<R> {
    lines: Lines<R>,
    read: u64,
    damage: Option<Damage>,
}

#[derive(Debug)]
enum Lines<R> {
    Json {
        from: BufReader<Whole<Unpacked<R>>>,
        line: String,
    },
    Csv {
        from: csv::Reader<Whole<Unpacked<R>>>,
        record: csv::StringRecord,
        /// So many columns are of the owner.
        of_owner: usize,
        names: Vec<String>,
    },
}

/// The text of a trace.
#[derive(Debug)]
enum Unpacked<R> {
    Plain(R),
    Zstd(Box<BufReader<Frames<R>>>),
}

/// Holds what is needed of the first line.
#[derive(Deserialize)]
struct Head {
    wad_trace: u32,
}

impl Rows<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::new(BufReader::new(File::open(path)?))
    }
}

impl<R: BufRead> Rows<R> {
    pub fn new(mut source: R) -> Result<Self, TraceError> {
        let is_packed = source.fill_buf()?.starts_with(&ZSTD);
        let mut text = match is_packed {
            true => Unpacked::Zstd(Box::new(BufReader::new(Frames::new(source)))),
            false => Unpacked::Plain(source),
        };
        let first = text.fill_buf().map_err(|error| TraceError::Head(error.to_string()))?;
        let is_json = first.starts_with(JSON);
        if !is_json && !first.starts_with(CSV) {
            return Err(TraceError::NoTrace);
        }
        let whole = Whole::new(text);
        let lines = if is_json { Lines::json(whole)? } else { Lines::csv(whole)? };
        Ok(Self { lines, read: 1, damage: None })
    }

    /// Returns what could not be read, once all rows are taken.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let Ok(rows) = Rows::new(bytes) else { return };
    for row in rows {
        // CSV has all digits of a number; what is none is equal to nothing.
        let is_number = |value: Option<f64>| value.is_none_or(|value| !value.is_nan());
        if row.instruments.iter().all(|(_, value)| is_number(value)) {
            let names = row.instruments.names().clone();
            let line = Format::Csv.line(&row);
            let mut lines = csv::ReaderBuilder::new().has_headers(false).from_reader(&*line);
            let fields = lines.records().next().expect("a line").expect("as it was written");
            // Of an owner it has only what all else follows from.
            let bare = |row: Row| Row { owner: Owner::default(), ..row };
            let read = Row::of_fields(fields.iter(), OWNER.len(), &names);
            assert_eq!(read.map(bare), Ok(bare(row)));
        }
    }
}

/// Fuzzes the reading of what is packed. A few bytes may unpack to gigabytes.
#[cfg(feature = "fuzz")]
pub fn fuzz_packed(bytes: &[u8]) {
    const ENOUGH_BYTES: u64 = 4 << 20;
    let _ = io::copy(&mut Frames::new(bytes).take(ENOUGH_BYTES), &mut io::sink());
}

impl<R: BufRead> Lines<R> {
    fn json(whole: Whole<Unpacked<R>>) -> Result<Self, TraceError> {
        let (mut from, mut line) = (BufReader::new(whole), String::new());
        from.read_line(&mut line)?;
        let cut = || from.get_ref().end().unwrap_or("it is empty").to_owned();
        if line.is_empty() {
            return Err(TraceError::Head(cut()));
        }
        let head: Head =
            serde_json::from_str(&line).map_err(|error| TraceError::Head(error.to_string()))?;
        if head.wad_trace > VERSION {
            return Err(TraceError::Later(head.wad_trace));
        }
        Ok(Self::Json { from, line })
    }

    fn csv(whole: Whole<Unpacked<R>>) -> Result<Self, TraceError> {
        let mut from = csv::Reader::from_reader(whole);
        let head = from.headers().map_err(|error| TraceError::Head(error.to_string()))?.clone();
        if !head.iter().take(FLOW.len()).eq(FLOW) {
            let cut = from.get_ref().end().unwrap_or("it names other columns");
            return Err(TraceError::Head(cut.to_owned()));
        }
        let rest = || head.iter().skip(FLOW.len());
        let of_owner = rest().zip(OWNER).take_while(|(column, name)| column == name).count();
        let names = rest().skip(of_owner);
        let names = names.map(|column| instrument(column).to_owned()).collect();
        Ok(Self::Csv { from, record: csv::StringRecord::new(), of_owner, names })
    }

    /// The next row, or what keeps it from being read. None at the end.
    fn next(&mut self) -> Option<Result<Row, String>> {
        match self {
            Self::Json { from, line } => {
                line.clear();
                match from.read_line(line) {
                    Ok(0) => from.get_ref().end().map(|cut| Err(cut.to_owned())),
                    Ok(_) => Some(serde_json::from_str(line).map_err(|error| error.to_string())),
                    Err(error) => Some(Err(error.to_string())),
                }
            }
            Self::Csv { from, record, of_owner, names } => match from.read_record(record) {
                Ok(false) => from.get_ref().end().map(|cut| Err(cut.to_owned())),
                Ok(true) => Some(Row::of_fields(record.iter(), *of_owner, names)),
                Err(error) => Some(Err(error.to_string())),
            },
        }
    }
}

impl<R: BufRead> Iterator for Rows<R> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.damage.is_some() {
            return None;
        }
        match self.lines.next()? {
            Ok(row) => {
                self.read += 1;
                Some(row)
            }
            Err(what) => {
                self.damage = Some(Damage { lines: self.read, what });
                None
            }
        }
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(out),
            Self::Zstd(frames) => frames.read(out),
        }
    }
}

impl<R: BufRead> BufRead for Unpacked<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(source) => source.fill_buf(),
            Self::Zstd(frames) => frames.fill_buf(),
        }
    }

    fn consume(&mut self, bytes: usize) {
        match self {
            Self::Plain(source) => source.consume(bytes),
            Self::Zstd(frames) => frames.consume(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
