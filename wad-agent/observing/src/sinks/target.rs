//! A target takes the lines of a sink.

use std::io::{self, Write as _};

use wad_policy::config::SinkKind;

use super::{
    datagrams::{Datagrams, Framing},
    error::{Refused, SinkError},
    file::Rotated,
    http::Poster,
    spool::Batch,
};

/// A target may go on with what is behind the lines that it has taken.
pub enum Target {
    Stdout,
    File(Rotated),
    Datagrams(Datagrams),
    Http(Poster),
}

impl Target {
    pub fn of(kind: SinkKind) -> Self {
        match kind {
            SinkKind::Stdout => Self::Stdout,
            SinkKind::File(file) => Self::File(Rotated::new(file)),
            SinkKind::Syslog { socket } => Self::Datagrams(Datagrams::new(socket, Framing::Syslog)),
            SinkKind::Journald { socket } => {
                Self::Datagrams(Datagrams::new(socket, Framing::Journald))
            }
            SinkKind::Http(collector) => Self::Http(Poster::new(collector)),
        }
    }

    pub fn take(&mut self, batch: &Batch) -> Result<(), Refused> {
        match self {
            Self::Stdout => write_to_stdout(batch.bytes())
                .map_err(|source| Refused::all(SinkError::Stdout(source))),
            Self::File(file) => file.write(batch.bytes()).map_err(Refused::all),
            Self::Datagrams(datagrams) => datagrams.send(batch),
            Self::Http(poster) => poster.post(batch.bytes()).map_err(Refused::all),
        }
    }
}

fn write_to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
