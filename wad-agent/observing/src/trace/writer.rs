//! The thread that writes, so that a slow disk delays no reading. Lines wait for
//! half a second at most before they are written; if the disk takes none for long,
//! those that do not fit into memory are lost, and counted.

use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    counts::{Counts, WriteOutcome},
    files::Out,
    news::{News, Voice},
};

/// With the time that writing takes, no line is older than a second until it is
/// written.
const DELAY: Duration = Duration::from_millis(500);
/// Bytes that may wait.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Bytes that are written at once, unless files are smaller.
const MAX_PIECE_BYTES: usize = 1 << 20;

/// The most that is written at once, so that a piece, with the head of a file, fits
/// into any file.
pub fn piece_bytes(max_file_bytes: u64) -> usize {
    usize::try_from(max_file_bytes / 4).map_or(MAX_PIECE_BYTES, |bytes| bytes.min(MAX_PIECE_BYTES))
}

/// Hands lines over.
pub struct Writer {
    lines: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    /// Lines that did not fit into memory.
    unheld: u64,
    counts: Arc<Counts>,
    thread: JoinHandle<()>,
}

/// Nobody reads them any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

impl Writer {
    /// Writes pieces of so many bytes, counts what becomes of them, and tells the news.
    pub fn start(
        out: impl Out + 'static,
        piece_bytes: usize,
        counts: Arc<Counts>,
        voice: Voice,
    ) -> io::Result<Self> {
        let (sender, lines) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let task = Task {
            out,
            piece_bytes,
            waiting: Arc::clone(&waiting),
            pending: Vec::new(),
            is_misplaced: false,
            counts: Arc::clone(&counts),
            voice,
        };
        let thread = thread::Builder::new().name("writer".to_owned()).spawn(|| task.run(lines))?;
        Ok(Self { lines: sender, waiting, unheld: 0, counts, thread })
    }

    /// Takes whole lines.
    pub fn write(&mut self, lines: Vec<u8>) -> Result<(), Closed> {
        if self.thread.is_finished() {
            return Err(Closed);
        }
        let bytes = lines.len();
        if self.waiting.fetch_add(bytes, Ordering::SeqCst) > MAX_WAITING_BYTES {
            self.waiting.fetch_sub(bytes, Ordering::SeqCst);
            self.unheld += count(&lines);
            self.counts.lost(count(&lines));
            return Ok(());
        }
        self.lines.send(lines).map_err(|_| Closed)
    }

    /// Writes what is left.
    pub fn finish(self) -> WriteOutcome {
        drop(self.lines);
        // A thread that has panicked has said so.
        let _ = self.thread.join();
        let mut outcome = self.counts.outcome();
        if self.unheld > 0 {
            outcome.error.get_or_insert("it takes too long to write them".to_owned());
        }
        outcome
    }
}

struct Task<O> {
    out: O,
    piece_bytes: usize,
    waiting: Arc<AtomicUsize>,
    pending: Vec<u8>,
    /// There is no place for lines, by the last look.
    is_misplaced: bool,
    counts: Arc<Counts>,
    voice: Voice,
}

impl<O: Out> Task<O> {
    fn run(mut self, lines: Receiver<Vec<u8>>) {
        let mut due = Instant::now() + DELAY;
        loop {
            let more = lines.recv_timeout(due.saturating_duration_since(Instant::now()));
            let is_last = more == Err(RecvTimeoutError::Disconnected);
            if let Ok(more) = more {
                self.pending.extend(more);
            }
            if is_last || Instant::now() >= due || self.pending.len() >= self.piece_bytes {
                if !self.write() {
                    return;
                }
                if is_last {
                    return self.end();
                }
                due = Instant::now() + DELAY;
            }
        }
    }

    /// Writes all that is pending; whether anyone is left to write for.
    fn write(&mut self) -> bool {
        let pending = mem::take(&mut self.pending);
        self.look();
        let mut rest = &pending[..];
        while !rest.is_empty() {
            let (piece, next) = rest.split_at(whole(rest, self.piece_bytes));
            match self.out.write(piece) {
                Ok(bytes) => self.did_write(count(piece), bytes),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return false,
                Err(error) => self.did_lose(count(piece), &error),
            }
            rest = next;
        }
        self.waiting.fetch_sub(pending.len(), Ordering::SeqCst);
        true
    }

    fn end(mut self) {
        // The disk may have refused some only after the kernel had taken them.
        if let Err(error) = self.out.finish() {
            let what = format!("the disk may not have all that was written: {error}");
            self.counts.fails(Some(what));
        }
    }

    /// Where a place is gone or is back, that is told without a line, too.
    fn look(&mut self) {
        match self.out.look() {
            Ok(()) if mem::take(&mut self.is_misplaced) => self.does_write(),
            Ok(()) => {}
            Err(error) => {
                self.is_misplaced = true;
                self.did_lose(0, &error);
            }
        }
    }

    fn did_write(&mut self, lines: u64, bytes: u64) {
        self.does_write();
        self.counts.wrote(lines, bytes);
    }

    fn does_write(&self) {
        if self.counts.fails(None).is_some() {
            (self.voice)(&News::Taken { lost: self.counts.outcome().lost });
        }
    }

    fn did_lose(&self, lines: u64, error: &io::Error) {
        self.counts.lost(lines);
        let why = error.to_string();
        if self.counts.fails(Some(why.clone())).is_none() {
            (self.voice)(&News::Refused { why });
        }
    }
}

/// Returns how many of the first bytes are whole lines, at most so many, or one line.
fn whole(lines: &[u8], most: usize) -> usize {
    let end = |byte: &u8| *byte == b'\n';
    let fit = &lines[..most.min(lines.len())];
    let last = fit.iter().rposition(end).or_else(|| lines.iter().position(end));
    last.map_or(lines.len(), |at| at + 1)
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<State>>);

    #[derive(Default)]
    struct State {
        pieces: Vec<Vec<u8>>,
        /// Why there is no place for lines, if there is none.
        place: Option<io::ErrorKind>,
        /// The news.
        said: Vec<String>,
        /// Why it takes no more, if it does not.
        fault: Option<io::ErrorKind>,
        /// Why it does not hold at the end what it took.
        end: Option<io::ErrorKind>,
    }

    impl Out for Disk {
        fn finish(&mut self) -> io::Result<()> {
            self.0.lock().unwrap().end.map_or(Ok(()), |kind| Err(kind.into()))
        }

        fn look(&mut self) -> io::Result<()> {
            self.0.lock().unwrap().place.map_or(Ok(()), |kind| Err(kind.into()))
        }

        fn write(&mut self, lines: &[u8]) -> io::Result<u64> {
            let mut disk = self.0.lock().unwrap();
            match disk.fault {
                Some(kind) => Err(kind.into()),
                None => {
                    disk.pieces.push(lines.to_vec());
                    Ok(lines.len() as u64)
                }
            }
        }
    }

    fn start(disk: &Disk, piece_bytes: usize) -> Writer {
        let said = Arc::clone(&disk.0);
        let voice: Voice = Arc::new(move |news| said.lock().unwrap().said.push(news.to_string()));
        Writer::start(disk.clone(), piece_bytes, Arc::default(), voice).unwrap()
    }

    fn until(what: impl Fn() -> bool) {
        while !what() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn pieces_are_whole_lines() {
        assert_eq!(whole(b"ab\ncd\nef\n", 7), 6);
        assert_eq!(whole(b"ab\ncd\n", 6), 6);
        assert_eq!(whole(b"abcdef\ngh\n", 3), 7);
        let disk = Disk::default();
        let mut writer = start(&disk, 10);
        for line in 0..100 {
            writer.write(format!("line {line}\n").into_bytes()).unwrap();
        }
        assert_eq!(writer.finish(), WriteOutcome { written: 100, lost: 0, error: None });
        let pieces = &disk.0.lock().unwrap().pieces;
        assert!(pieces.iter().all(|piece| piece.len() <= 10 && piece.ends_with(b"\n")));
        assert!(pieces.concat().ends_with(b"line 98\nline 99\n"));
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_writing_goes_on() {
        let disk = Disk::default();
        disk.0.lock().unwrap().fault = Some(io::ErrorKind::StorageFull);
        let mut writer = start(&disk, 4);
        writer.write(b"ab\ncd\n".to_vec()).unwrap();
        while writer.waiting.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        disk.0.lock().unwrap().fault = None;
        writer.write(b"ef\n".to_vec()).unwrap();
        assert_eq!(writer.finish(), WriteOutcome { written: 1, lost: 2, error: None });
        let disk = disk.0.lock().unwrap();
        assert_eq!(disk.pieces, [b"ef\n"]);
        assert_eq!(disk.said.len(), 2, "{:?}", disk.said);
        assert!(disk.said[0].starts_with("cannot write: no storage space"), "{:?}", disk.said);
        assert_eq!(disk.said[1], "lines are written again; 2 were lost so far");
    }

    #[test]
    fn a_place_that_is_gone_is_told_without_a_line_and_once() {
        let disk = Disk::default();
        disk.0.lock().unwrap().place = Some(io::ErrorKind::NotFound);
        let writer = start(&disk, 4);
        until(|| !disk.0.lock().unwrap().said.is_empty());
        assert_eq!(writer.counts.outcome().error.as_deref(), Some("entity not found"));
        thread::sleep(2 * DELAY);
        disk.0.lock().unwrap().place = None;
        until(|| disk.0.lock().unwrap().said.len() == 2);
        assert_eq!(writer.finish(), WriteOutcome::default());
        assert_eq!(disk.0.lock().unwrap().said[1], "lines are written again; 0 were lost so far");
    }

    #[test]
    fn what_the_disk_says_at_the_end_is_told() {
        let disk = Disk::default();
        disk.0.lock().unwrap().end = Some(io::ErrorKind::StorageFull);
        let mut writer = start(&disk, 10);
        writer.write(b"ab\n".to_vec()).unwrap();
        let WriteOutcome { written, lost, error } = writer.finish();
        assert_eq!((written, lost), (1, 0));
        assert!(error.unwrap().starts_with("the disk may not have all"));
    }

    #[test]
    fn a_line_waits_for_half_a_second_at_most() {
        let disk = Disk::default();
        let mut writer = start(&disk, 1000);
        let begun = Instant::now();
        writer.write(b"ab\n".to_vec()).unwrap();
        while disk.0.lock().unwrap().pieces.is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        writer.finish();
    }

    #[test]
    fn it_ends_when_nobody_reads() {
        let disk = Disk::default();
        disk.0.lock().unwrap().fault = Some(io::ErrorKind::BrokenPipe);
        let mut writer = start(&disk, 1);
        writer.write(b"ab\n".to_vec()).unwrap();
        while !writer.thread.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(writer.write(b"cd\n".to_vec()), Err(Closed));
    }
}
