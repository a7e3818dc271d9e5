//! Lines as datagrams to a daemon of this host: syslog's, or systemd-journald by its
//! native protocol (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).

use std::{
    io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use serde::Deserialize;

use super::{
    error::{Refused, SinkError},
    spool::Batch,
};

/// How long a daemon may let its socket be full.
const PATIENCE: Duration = Duration::from_secs(5);

// As syslog(3) has them.
const DAEMON: u8 = 3 << 3;
const WARNING: u8 = 4;
const INFO: u8 = 6;

#[derive(Clone, Copy)]
pub enum Framing {
    /// RFC 3164, without what the daemon adds by itself: time and host.
    Syslog,
    Journald,
}

pub struct Datagrams {
    path: PathBuf,
    framing: Framing,
    /// The socket; None where it has to be connected anew.
    socket: Option<UnixDatagram>,
}

/// Holds what of a line is shown beside it.
#[derive(Deserialize)]
struct Head<'a> {
    event: &'a str,
    level: &'a str,
}

impl Datagrams {
    pub const fn new(path: PathBuf, framing: Framing) -> Self {
        Self { path, framing, socket: None }
    }

    pub fn send(&mut self, batch: &Batch) -> Result<(), Refused> {
        for (taken, line) in batch.lines().enumerate() {
            if let Err(source) = self.send_line(line) {
                self.socket = None;
                let error = SinkError::Send { socket: self.path.clone(), source };
                return Err(Refused { taken, error });
            }
        }
        Ok(())
    }

    fn send_line(&mut self, line: &[u8]) -> io::Result<()> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(connect(&self.path)?),
        };
        socket.send(&framed(self.framing, line)).map(|_| ())
    }
}

fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(path)?;
    Ok(socket)
}

fn framed(framing: Framing, line: &[u8]) -> Vec<u8> {
    // It is a line of ours, but one that has been on a disk.
    let head = serde_json::from_slice(line).unwrap_or(Head { event: "", level: "" });
    let priority = if head.level == "Warn" { WARNING } else { INFO };
    let before = match framing {
        Framing::Syslog => format!("<{}>wad[{}]: ", DAEMON | priority, process::id()),
        Framing::Journald => {
            let event = head.event;
            format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=wad\nWAD_EVENT={event}\nMESSAGE=")
        }
    };
    let mut datagram = before.into_bytes();
    datagram.extend_from_slice(line);
    if matches!(framing, Framing::Journald) {
        datagram.push(b'\n');
    }
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_daemon_is_told_in_its_own_way() {
        let line = br#"{"event":"limited","level":"Warn","path":"a\nb"}"#;
        let text = |framing| String::from_utf8(framed(framing, line)).unwrap();
        let line = std::str::from_utf8(line).unwrap();
        assert_eq!(text(Framing::Syslog), format!("<28>wad[{}]: {line}", process::id()));
        let expected =
            format!("PRIORITY=4\nSYSLOG_IDENTIFIER=wad\nWAD_EVENT=limited\nMESSAGE={line}\n");
        assert_eq!(text(Framing::Journald), expected);
        let open = framed(Framing::Syslog, br#"{"event":"open","level":"Info"}"#);
        assert!(open.starts_with(b"<30>wad["));
    }
}
