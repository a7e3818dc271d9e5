//! A helper's output is kept up to a bound.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::unix::AsyncFd;

/// Bytes that are read at a time.
const AT_ONCE: usize = 64 << 10;

pub struct Output {
    pipe: AsyncFd<File>,
    bytes: Vec<u8>,
    most_bytes: usize,
    pub is_at_end: bool,
}

impl Output {
    pub fn new(pipe: impl Into<OwnedFd>, most_bytes: usize) -> io::Result<Self> {
        let pipe = File::from(pipe.into());
        let flags = OFlag::from_bits_retain(fcntl(&pipe, FcntlArg::F_GETFL)?);
        fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        // SAFETY: it is the descriptor's owner, and gives it away to nobody.
        let pipe = unsafe { AsyncFd::register(pipe) }?;
        Ok(Self { pipe, bytes: Vec::new(), most_bytes, is_at_end: false })
    }

    /// Waits for more.
    pub async fn more(&mut self) -> io::Result<()> {
        let mut ready = self.pipe.readable_mut().await?;
        let mut buffer = [0; AT_ONCE];
        if let Ok(read) = ready.try_io(|pipe| pipe.get_mut().read(&mut buffer)) {
            let read = read?;
            self.is_at_end = read == 0;
            self.bytes.extend_from_slice(&buffer[..read]);
        }
        Ok(())
    }

    /// Takes what is there already, which a pipe bounds.
    pub fn rest(&mut self) -> io::Result<()> {
        let mut buffer = [0; AT_ONCE];
        while !self.is_at_end && !self.is_flood() {
            match self.pipe.get_mut().read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.bytes.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub const fn is_flood(&self) -> bool {
        self.bytes.len() > self.most_bytes
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
