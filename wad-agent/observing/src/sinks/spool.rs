//! A spool holds what a sink has not taken yet, on the disk, in order: it outlives the
//! agent, whatever ends that.
//!
//! A folder of numbered files, segments, of whole lines; the oldest is read, the
//! newest is written, and one that has been read is removed. How far the oldest has
//! been read is in a file beside them; where that is lost, lines are told again, never
//! left out. Nothing is forced to the disk: a power cut may take what the kernel had
//! not written yet, half a minute or so, and what it left half written is cut off.
//!
//! Where the disk refuses, lines wait in memory, a bounded number, until it takes them
//! or the sink does.

use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use wad_toolbox::whole_file::NO_LINK;

/// Lines that wait in memory while the disk refuses them.
const MEMORY_BYTES: usize = 1 << 20;
/// A spool has about so many segments when it is full.
const SEGMENTS: u64 = 16;
const MAX_SEGMENT_BYTES: u64 = 8 << 20;
/// The file that says how far the oldest segment has been read.
const POSITION: &str = "position";
const SUFFIX: &str = ".jsonl";
/// The number of a segment is at most this. No sink gets so far: beyond it is damage.
const MAX_NUMBER: u64 = 1 << 48;

/// Lines that are lost, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The spool has all that it may hold.
    pub full: u64,
    /// The disk does not take them, and there are as many in memory as may be.
    pub disk: u64,
    /// Lines that can't be read any more.
    pub damaged: u64,
}

/// The lines of one sink.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    max_bytes: u64,
    /// Oldest first.
    segments: VecDeque<Segment>,
    /// Bytes read of the oldest segment.
    read_bytes: u64,
    next_number: u64,
    /// The newest segment, if it was made by this run and takes more.
    writer: Option<File>,
    /// Behind what is on the disk.
    memory: VecDeque<Vec<u8>>,
    memory_bytes: usize,
    /// A batch of them was given, and stays where it is until that is over.
    is_memory_given: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    number: u64,
    /// Whole lines only.
    bytes: u64,
}

/// Lines to be taken, in order; none where there was damage only.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    lines: Vec<Place>,
    is_in_memory: bool,
    /// The end, with what is damaged behind the last line.
    end: Passed,
}

/// Says where a line ends.
#[derive(Clone, Copy, Debug)]
struct Place {
    in_batch: usize,
    passed: Passed,
}

/// Says what has been passed of the segment with a line, and all before it.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    bytes: u64,
    /// Lines that could not be read.
    damaged: u64,
}

/// For libFuzzer, see `tests/fuzz`: the position and the segments, with form feeds between them.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    const LAST: &[u8] = b"{\"is\": \"last\"}";
    let folder = std::env::temp_dir().join("wad-fuzz-spool");
    fs::create_dir_all(&folder).expect("writable");
    let mut files = bytes.splitn(5, |byte| *byte == 0x0c);
    fs::write(folder.join(POSITION), files.next().unwrap_or_default()).expect("writable");
    for (number, segment) in files.enumerate() {
        fs::write(folder.join(format!("{number:020}{SUFFIX}")), segment).expect("writable");
    }
    let (mut spool, _, found) = Spool::open(folder.clone(), 1 << 20);
    found.expect("readable");
    let (lost, written) = spool.append([[LAST, b"\n"].concat()]);
    written.expect("writable");
    assert_eq!(lost, Lost::default());
    let mut last = None;
    while let Some(batch) = spool.next(256).expect("readable") {
        for line in batch.lines() {
            assert!(line.starts_with(b"{") && line.ends_with(b"}"));
            last = Some(line.to_vec());
        }
        spool.advance(&batch, batch.len());
    }
    assert_eq!(last.as_deref(), Some(LAST));
    assert_eq!(spool.bytes(), 0);
    fs::remove_dir_all(&folder).expect("writable");
}

impl Batch {
    /// Each with its newline.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the lines without newlines.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.lines.iter().map(|place| place.in_batch));
        starts.zip(&self.lines).map(|(start, place)| &self.bytes[start..place.in_batch - 1])
    }

    pub const fn len(&self) -> usize {
        self.lines.len()
    }

    fn push(&mut self, line: &[u8], passed: Passed) {
        self.bytes.extend_from_slice(line);
        self.lines.push(Place { in_batch: self.bytes.len(), passed });
    }
}

impl Spool {
    /// Bounds what it may hold from now on; what it holds already stays.
    pub const fn bound(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
    }

    /// Takes what an agent before this one has left. A line that was not written to
    /// its end is cut off, and lost.
    pub fn open(folder: PathBuf, max_bytes: u64) -> (Self, Lost, io::Result<()>) {
        let mut spool = Self {
            folder,
            max_bytes,
            segments: VecDeque::new(),
            read_bytes: 0,
            next_number: 1,
            writer: None,
            memory: VecDeque::new(),
            memory_bytes: 0,
            is_memory_given: false,
        };
        let mut lost = Lost::default();
        let found = spool.find(&mut lost);
        (spool, lost, found)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes that are to be taken still.
    pub fn bytes(&self) -> u64 {
        self.on_disk_bytes() + self.memory_bytes as u64
    }

    /// Puts lines, each with its newline, behind the others. What is lost of them, and
    /// what the disk had to say.
    pub fn append(&mut self, lines: impl IntoIterator<Item = Vec<u8>>) -> (Lost, io::Result<()>) {
        let mut lost = Lost::default();
        // What is read of the oldest segment takes room until all of it is.
        let mut room = self.max_bytes.saturating_sub(self.bytes() + self.read_bytes);
        for line in lines {
            match room.checked_sub(line.len() as u64) {
                Some(rest) => {
                    room = rest;
                    self.memory_bytes += line.len();
                    self.memory.push_back(line);
                }
                // None after it, either: a gap has one beginning.
                None => {
                    room = 0;
                    lost.full += 1;
                }
            }
        }
        let written = self.write();
        while self.memory_bytes > MEMORY_BYTES
            && let Some(line) = self.memory.pop_back()
        {
            self.memory_bytes -= line.len();
            lost.disk += 1;
        }
        (lost, written)
    }

    /// The oldest lines, of so many bytes at most: one that is longer is damaged. To be
    /// followed by [`Spool::advance`].
    pub fn next(&mut self, max_bytes: usize) -> io::Result<Option<Batch>> {
        loop {
            let Some(oldest) = self.segments.front().copied() else {
                return Ok(self.next_in_memory(max_bytes));
            };
            if self.read_bytes >= oldest.bytes {
                self.remove_oldest();
                continue;
            }
            return self.next_on_disk(oldest, max_bytes).map(Some);
        }
    }

    /// Notes that so many lines of a batch, the last that was given, have been taken,
    /// none of them or all. Returns what is lost before and among them.
    pub fn advance(&mut self, batch: &Batch, lines: usize) -> Lost {
        if batch.is_in_memory {
            self.is_memory_given = false;
            for line in self.memory.drain(..lines) {
                self.memory_bytes -= line.len();
            }
            return Lost::default();
        }
        let passed = match lines.checked_sub(1) {
            _ if lines == batch.len() => batch.end,
            Some(last) => batch.lines[last].passed,
            None => return Lost::default(),
        };
        self.read_bytes += passed.bytes;
        let is_read = self.segments.front().is_some_and(|oldest| self.read_bytes >= oldest.bytes);
        if is_read {
            self.remove_oldest();
        } else {
            self.note_position();
        }
        Lost { damaged: passed.damaged, ..Lost::default() }
    }

    fn on_disk_bytes(&self) -> u64 {
        let all: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        all.saturating_sub(self.read_bytes)
    }

    fn file(&self, number: u64) -> PathBuf {
        // In the order of their names, too.
        self.folder.join(format!("{number:020}{SUFFIX}"))
    }

    fn find(&mut self, lost: &mut Lost) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| number(name.strip_suffix(SUFFIX)?));
            if let Some(number) = number {
                found.push(Segment { number, bytes: entry.metadata()?.len() });
            }
        }
        found.sort_unstable_by_key(|segment| segment.number);
        self.segments = found.into();
        let position = self.position();
        if let (Some((number, read_bytes)), Some(oldest)) = (position, self.segments.front())
            && number == oldest.number
        {
            // Where the end of the segment was lost, all of the rest has been read.
            self.read_bytes = read_bytes.min(oldest.bytes);
        }
        // A number that was in use is not used again: the position may be of it.
        let last = self.segments.back().map_or(0, |newest| newest.number);
        self.next_number = last.max(position.map_or(0, |(number, _)| number)) + 1;
        if let Some(newest) = self.segments.back().copied() {
            let bytes = whole_lines(&self.file(newest.number), newest.bytes)?;
            if bytes < newest.bytes {
                lost.damaged += 1;
                self.segments.back_mut().expect("the newest").bytes = bytes;
            }
        }
        Ok(())
    }

    /// Writes what waits in memory.
    fn write(&mut self) -> io::Result<()> {
        while !self.memory.is_empty() && !self.is_memory_given {
            let segment_bytes = (self.max_bytes / SEGMENTS).min(MAX_SEGMENT_BYTES);
            let is_full = self.segments.back().is_some_and(|newest| newest.bytes >= segment_bytes);
            if self.writer.is_none() || is_full {
                self.begin_segment()?;
            }
            let (mut bytes, mut lines) = (Vec::new(), 0);
            for line in &self.memory {
                if lines > 0 && (bytes.len() + line.len()) as u64 > segment_bytes {
                    break;
                }
                bytes.extend_from_slice(line);
                lines += 1;
            }
            self.write_to_newest(&bytes)?;
            for line in self.memory.drain(..lines) {
                self.memory_bytes -= line.len();
            }
        }
        Ok(())
    }

    fn write_to_newest(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (Some(file), Some(newest)) = (&mut self.writer, self.segments.back_mut()) else {
            return Ok(());
        };
        if let Err(error) = file.write_all(bytes) {
            // What was written of it goes, or else nothing comes behind it.
            if file.set_len(newest.bytes).is_err() {
                self.writer = None;
            }
            return Err(error);
        }
        newest.bytes += bytes.len() as u64;
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        // The folder may be gone, or never have been made.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let number = self.next_number;
        // Should it be there, the one after it is tried next.
        self.next_number += 1;
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let file = options.open(self.file(number))?;
        self.writer = Some(file);
        self.segments.push_back(Segment { number, bytes: 0 });
        Ok(())
    }

    fn remove_oldest(&mut self) {
        let Some(oldest) = self.segments.pop_front() else { return };
        self.read_bytes = 0;
        if self.segments.is_empty() {
            self.writer = None;
        }
        // One that stays is read to its end by what is noted.
        if fs::remove_file(self.file(oldest.number)).is_err() {
            self.note(oldest.number, oldest.bytes);
        }
    }

    fn next_in_memory(&mut self, max_bytes: usize) -> Option<Batch> {
        let mut batch = Batch { is_in_memory: true, ..Batch::default() };
        for line in &self.memory {
            if batch.len() > 0 && batch.bytes.len() + line.len() > max_bytes {
                break;
            }
            batch.push(line, Passed::default());
        }
        self.is_memory_given = batch.len() > 0;
        self.is_memory_given.then_some(batch)
    }

    fn next_on_disk(&mut self, oldest: Segment, max_bytes: usize) -> io::Result<Batch> {
        let mut batch = Batch::default();
        let left_bytes = oldest.bytes - self.read_bytes;
        let most_bytes = left_bytes.min(max_bytes as u64);
        let mut bytes = Vec::new();
        match File::open(self.file(oldest.number)) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(self.read_bytes))?;
                file.take(most_bytes).read_to_end(&mut bytes)?;
            }
            // Somebody has removed it: nobody can tell how many lines that were.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let is_cut = (bytes.len() as u64) < most_bytes;
        let is_all = is_cut || most_bytes == left_bytes;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") && !is_all && batch.end.bytes > 0 {
                // The rest of it comes with the next batch.
                break;
            }
            batch.end.bytes += line.len() as u64;
            if is_record(line) {
                batch.push(line, batch.end);
            } else {
                batch.end.damaged += 1;
            }
        }
        if is_cut {
            batch.end = Passed { bytes: left_bytes, damaged: batch.end.damaged + 1 };
        }
        Ok(batch)
    }

    fn position(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(self.folder.join(POSITION)).ok()?;
        let (segment, bytes) = text.trim_end_matches('\n').split_once(' ')?;
        Some((number(segment)?, bytes.parse().ok()?))
    }

    fn note_position(&self) {
        if let Some(oldest) = self.segments.front() {
            self.note(oldest.number, self.read_bytes);
        }
    }

    /// Notes how far it was read; where that fails, lines are told again after a
    /// restart.
    fn note(&self, number: u64, read_bytes: u64) {
        // Of one length, and written at once, so that one that is read is whole.
        let text = format!("{number:020} {read_bytes:020}\n");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_LINK);
        let file = options.open(self.folder.join(POSITION));
        let _ = file.and_then(|file| file.write_all_at(text.as_bytes(), 0));
    }
}

/// The number of a segment.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= MAX_NUMBER)
}

/// Whether nothing is missing of a line, as far as that shows.
fn is_record(line: &[u8]) -> bool {
    line.starts_with(b"{") && line.ends_with(b"}\n") && !line.contains(&0)
}

/// Returns how many bytes of a file are whole lines; what is behind them is cut off.
fn whole_lines(file: &Path, bytes: u64) -> io::Result<u64> {
    const STEP: usize = 1 << 16;
    let open = OpenOptions::new().read(true).write(true).open(file)?;
    let mut end = bytes;
    let mut block = vec![0; STEP];
    while end > 0 {
        let from = end.saturating_sub(STEP as u64);
        let block = &mut block[..(end - from) as usize];
        open.read_exact_at(block, from)?;
        if let Some(newline) = block.iter().rposition(|byte| *byte == b'\n') {
            end = from + newline as u64 + 1;
            break;
        }
        end = from;
    }
    if end < bytes {
        open.set_len(end)?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests;
