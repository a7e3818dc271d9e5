//! The journal of systemd takes the priority of a line from its beginning, as `<3>`
//! (sd-daemon(3)), where it reads standard error itself: JOURNAL_STREAM then names it
//! (systemd.exec(5)).

use std::{
    env,
    io::{self, Write},
};

use nix::sys::stat::fstat;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::writer::Lines;

/// Whether the journal reads standard error.
pub fn reads_standard_error() -> bool {
    let Ok(stream) = env::var("JOURNAL_STREAM") else { return false };
    fstat(io::stderr()).is_ok_and(|file| is_named(&stream, file.st_dev, file.st_ino))
}

fn is_named(stream: &str, device: u64, inode: u64) -> bool {
    stream == format!("{device}:{inode}")
}

/// Lines, each with its priority if the journal reads them.
#[derive(Clone)]
pub struct Prioritized {
    pub lines: Lines,
    pub to_journal: bool,
}

impl Prioritized {
    /// Returns a writer of lines of a level.
    pub fn at(&self, level: Level) -> OfLevel {
        let priority = self.to_journal.then(|| priority(level));
        OfLevel { lines: self.lines.clone(), priority }
    }
}

/// Returns the priority as in syslog(3).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

impl<'w> MakeWriter<'w> for Prioritized {
    type Writer = OfLevel;

    fn make_writer(&'w self) -> OfLevel {
        self.at(Level::INFO)
    }

    fn make_writer_for(&'w self, meta: &Metadata<'_>) -> OfLevel {
        self.at(*meta.level())
    }
}

/// Lines of a command's own are information.
impl Write for Prioritized {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.at(Level::INFO).write(lines)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes a whole event with each write, which may have several lines.
pub struct OfLevel {
    lines: Lines,
    priority: Option<&'static str>,
}

impl Write for OfLevel {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        match self.priority {
            None => self.lines.write_all(event)?,
            Some(priority) => self.lines.write_all(&with_priority(priority, event))?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Each line is an entry of the journal: those of one event have one priority.
fn with_priority(priority: &str, event: &[u8]) -> Vec<u8> {
    let lines = event.split_inclusive(|byte| *byte == b'\n');
    lines.flat_map(|line| [priority.as_bytes(), line].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_priority() {
        let lines = with_priority(priority(Level::ERROR), b"refused:\n  here\n");
        assert_eq!(lines, b"<3>refused:\n<3>  here\n");
        let all = [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE].map(priority);
        assert_eq!(all, ["<4>", "<6>", "<7>", "<7>"]);
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(is_named("8:42", 8, 42));
        for other in ["", "8:43", "9:42", "8", "8:42:1"] {
            assert!(!is_named(other, 8, 42), "{other}");
        }
    }
}
