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

use super::files::Out;
use crate::log;

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

/// Says what became of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    pub written: u64,
    pub lost: u64,
    /// The error that the last ones were lost for.
    pub error: Option<String>,
}

/// Hands lines over.
pub struct Writer {
    lines: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    unheld: u64,
    thread: JoinHandle<WriteOutcome>,
}

/// Nobody reads them any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

impl Writer {
    pub fn start(out: impl Out + 'static, piece_bytes: usize) -> io::Result<Self> {
        let (sender, lines) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let task = Task {
            out,
            piece_bytes,
            waiting: Arc::clone(&waiting),
            pending: Vec::new(),
            outcome: WriteOutcome::default(),
        };
        let thread = thread::Builder::new().name("writer".to_owned()).spawn(|| task.run(lines))?;
        Ok(Self { lines: sender, waiting, unheld: 0, thread })
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
            return Ok(());
        }
        self.lines.send(lines).map_err(|_| Closed)
    }

    /// Writes what is left.
    pub fn finish(self) -> WriteOutcome {
        drop(self.lines);
        let mut outcome = self.thread.join().unwrap_or_default();
        if self.unheld > 0 {
            outcome.lost += self.unheld;
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
    outcome: WriteOutcome,
}

impl<O: Out> Task<O> {
    fn run(mut self, lines: Receiver<Vec<u8>>) -> WriteOutcome {
        let mut due = Instant::now() + DELAY;
        loop {
            let more = lines.recv_timeout(due.saturating_duration_since(Instant::now()));
            let is_last = more == Err(RecvTimeoutError::Disconnected);
            if let Ok(more) = more {
                self.pending.extend(more);
            }
            if is_last || Instant::now() >= due || self.pending.len() >= self.piece_bytes {
                if !self.write() {
                    return self.outcome;
                }
                if is_last {
                    return self.finished();
                }
                due = Instant::now() + DELAY;
            }
        }
    }

    /// Writes all that is pending; whether anyone is left to write for.
    fn write(&mut self) -> bool {
        let pending = mem::take(&mut self.pending);
        let mut rest = &pending[..];
        while !rest.is_empty() {
            let (piece, next) = rest.split_at(whole(rest, self.piece_bytes));
            match self.out.write(piece) {
                Ok(()) => self.did_write(count(piece)),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return false,
                Err(error) => self.did_lose(count(piece), &error),
            }
            rest = next;
        }
        self.waiting.fetch_sub(pending.len(), Ordering::SeqCst);
        true
    }

    fn finished(mut self) -> WriteOutcome {
        // The disk may have refused some only after the kernel had taken them.
        if let Err(error) = self.out.finish() {
            self.outcome.error =
                Some(format!("the disk may not have all that was written: {error}"));
        }
        self.outcome
    }

    fn did_write(&mut self, lines: u64) {
        if self.outcome.error.take().is_some() {
            log::say(&format!("lines are written again; {} were lost so far", self.outcome.lost));
        }
        self.outcome.written += lines;
    }

    fn did_lose(&mut self, lines: u64, error: &io::Error) {
        self.outcome.lost += lines;
        if self.outcome.error.replace(error.to_string()).is_none() {
            log::say(&format!(
                "cannot write: {error}; reading goes on, and lines are lost until it is put right"
            ));
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
        /// Why it takes no more, if it does not.
        fault: Option<io::ErrorKind>,
        /// Why it does not hold at the end what it took.
        end: Option<io::ErrorKind>,
    }

    impl Out for Disk {
        fn finish(&mut self) -> io::Result<()> {
            self.0.lock().unwrap().end.map_or(Ok(()), |kind| Err(kind.into()))
        }

        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            let mut disk = self.0.lock().unwrap();
            match disk.fault {
                Some(kind) => Err(kind.into()),
                None => {
                    disk.pieces.push(lines.to_vec());
                    Ok(())
                }
            }
        }
    }

    #[test]
    fn pieces_are_whole_lines() {
        assert_eq!(whole(b"ab\ncd\nef\n", 7), 6);
        assert_eq!(whole(b"ab\ncd\n", 6), 6);
        assert_eq!(whole(b"abcdef\ngh\n", 3), 7);
        let disk = Disk::default();
        let mut writer = Writer::start(disk.clone(), 10).unwrap();
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
        let mut writer = Writer::start(disk.clone(), 4).unwrap();
        writer.write(b"ab\ncd\n".to_vec()).unwrap();
        while writer.waiting.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        disk.0.lock().unwrap().fault = None;
        writer.write(b"ef\n".to_vec()).unwrap();
        assert_eq!(writer.finish(), WriteOutcome { written: 1, lost: 2, error: None });
        assert_eq!(disk.0.lock().unwrap().pieces, [b"ef\n"]);
    }

    #[test]
    fn what_the_disk_says_at_the_end_is_told() {
        let disk = Disk::default();
        disk.0.lock().unwrap().end = Some(io::ErrorKind::StorageFull);
        let mut writer = Writer::start(disk, 10).unwrap();
        writer.write(b"ab\n".to_vec()).unwrap();
        let WriteOutcome { written, lost, error } = writer.finish();
        assert_eq!((written, lost), (1, 0));
        assert!(error.unwrap().starts_with("the disk may not have all"));
    }

    #[test]
    fn a_line_waits_for_half_a_second_at_most() {
        let disk = Disk::default();
        let mut writer = Writer::start(disk.clone(), 1000).unwrap();
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
        let mut writer = Writer::start(disk, 1).unwrap();
        writer.write(b"ab\n".to_vec()).unwrap();
        while !writer.thread.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(writer.write(b"cd\n".to_vec()), Err(Closed));
    }
}
