//! Lines written by a thread of their own, so that nobody ever waits for whoever
//! reads standard error: lines that find no room are lost, and counted.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender, SyncSender, TrySendError},
    },
    thread,
    time::{Duration, Instant},
};

/// Lines that wait to be written.
const ROOM: usize = 1024;

/// Timeout for writing the last lines when the process exits. On a busy machine the writing thread
/// may get no processor for some tenths of a second.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Answered once all before it is written.
    Flush(Sender<()>),
}

/// Takes a whole line with each write.
#[derive(Clone)]
pub struct Lines {
    messages: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

/// Dropped, waits a moment for what is not written yet.
#[must_use]
pub struct Flush(SyncSender<Message>);

/// Starts the thread. `report` is given the number of lines that were lost once
/// there is room again; it may write lines of its own.
pub fn start(out: impl Write + Send + 'static, report: fn(u64)) -> io::Result<(Lines, Flush)> {
    let (messages, received) = mpsc::sync_channel(ROOM);
    let lost = Arc::<AtomicU64>::default();
    let losses = Arc::clone(&lost);
    let write = move || write_all(out, &received, || report_lost(&losses, report));
    thread::Builder::new().name("log".to_owned()).spawn(write)?;
    Ok((Lines { messages: messages.clone(), lost }, Flush(messages)))
}

fn report_lost(lost: &AtomicU64, report: fn(u64)) {
    match lost.swap(0, Ordering::Relaxed) {
        0 => {}
        lost => report(lost),
    }
}

fn write_all(mut out: impl Write, received: &Receiver<Message>, when_empty: impl Fn()) {
    loop {
        let message = match received.try_recv() {
            Ok(message) => Some(message),
            Err(_) => {
                when_empty();
                received.recv().ok()
            }
        };
        match message {
            // There is nowhere to say that this failed.
            Some(Message::Line(line)) => drop(out.write_all(&line)),
            Some(Message::Flush(done)) => drop(done.send(())),
            None => return,
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.messages.try_send(Message::Line(line.to_owned())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let until = Instant::now() + FLUSH_LIMIT;
        let (done, flushed) = mpsc::channel();
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(back)) = self.0.try_send(message) {
            if Instant::now() >= until {
                return;
            }
            message = back;
            thread::sleep(Duration::from_millis(1));
        }
        // An error is the limit, or the thread's end.
        let _ = flushed.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, sync::atomic::AtomicU64};

    use super::*;

    #[test]
    fn the_end_waits_for_what_can_be_written() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (mut lines, flush) = start(writer, |_| ()).unwrap();
        for _ in 0..100 {
            lines.write_all(b"a line\n").unwrap();
        }
        drop((flush, lines));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a line\n".repeat(100));
    }

    #[test]
    fn nobody_waits_for_a_reader_that_does_not_read() {
        static REPORTED: AtomicU64 = AtomicU64::new(0);
        let (mut reader, writer) = io::pipe().unwrap();
        let report = |lost| {
            REPORTED.fetch_add(lost, Ordering::Relaxed);
        };
        let (mut lines, flush) = start(writer, report).unwrap();
        let begun = Instant::now();
        let line = [b'x'; 1000];
        for _ in 0..2 * ROOM {
            lines.write_all(&line).unwrap();
        }
        let lost = lines.lost.load(Ordering::Relaxed);
        assert!(lost > 0);
        drop(flush);
        assert!(begun.elapsed() < 10 * FLUSH_LIMIT, "{:?}", begun.elapsed());

        // What had room is written once someone reads, and the loss is told of.
        drop(lines);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), line.len() * (2 * ROOM - lost as usize));
        assert_eq!(REPORTED.load(Ordering::Relaxed), lost);
    }
}
