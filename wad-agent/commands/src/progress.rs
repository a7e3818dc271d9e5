//! Tells on a terminal that a command is still at it, where it takes more than two seconds.

use std::{
    io::{self, IsTerminal as _, Write},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Nobody is told before.
const QUIET: Duration = Duration::from_secs(2);
/// How often the time is told.
const BEAT: Duration = Duration::from_secs(1);

/// Tells of one thing that is being done, until it is dropped.
#[must_use]
pub struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// `what` is being done: it stands before the time that it has taken so far.
    pub fn of(what: impl Into<String>) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let what = what.into();
        let (end, ended) = mpsc::channel();
        let tell = move || drop(tell(&mut io::stderr(), &what, &ended, (QUIET, BEAT)));
        // Without a thread it is done all the same.
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(tell);
        Self(thread.ok().map(|thread| (end, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // It takes its line away.
            let _ = thread.join();
        }
    }
}

/// Tells after a time of quiet, and at each beat, until it has ended.
fn tell(
    out: &mut impl Write,
    what: &str,
    ended: &Receiver<()>,
    (quiet, beat): (Duration, Duration),
) -> io::Result<()> {
    /// Clears the line from its beginning (ECMA-48).
    const CLEAR: &str = "\r\x1b[K";
    let begun = Instant::now();
    let is_on = |wait| ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
    if !is_on(quiet) {
        return Ok(());
    }
    loop {
        write!(out, "{CLEAR}{what}: {} s", begun.elapsed().as_secs())?;
        out.flush()?;
        if !is_on(beat) {
            write!(out, "{CLEAR}")?;
            return out.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_soon_done_is_not_told_of() {
        let (end, ended) = mpsc::channel();
        drop(end);
        let mut out = Vec::new();
        tell(&mut out, "waiting", &ended, (QUIET, BEAT)).unwrap();
        assert_eq!(out, b"");
    }

    #[test]
    fn what_takes_long_is_told_of_and_leaves_no_line() {
        /// Ends it when the time was told twice.
        struct Terminal(Vec<u8>, Option<Sender<()>>);

        impl Write for Terminal {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.extend(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                if String::from_utf8_lossy(&self.0).matches("waiting").count() == 2 {
                    self.1 = None;
                }
                Ok(())
            }
        }

        let (end, ended) = mpsc::channel();
        let mut terminal = Terminal(Vec::new(), Some(end));
        let short = Duration::from_millis(1);
        tell(&mut terminal, "waiting", &ended, (short, short)).unwrap();
        let text = String::from_utf8(terminal.0).unwrap();
        assert_eq!(text, "\r\x1b[Kwaiting: 0 s\r\x1b[Kwaiting: 0 s\r\x1b[K");
    }
}
