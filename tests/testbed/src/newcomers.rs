//! Newcomers are connections one after the other, each asked by itself what it got:
//! whether any was left alone while agents came and went.

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use nix::sys::socket::{getsockopt, sockopt};

use crate::{
    netns::{Netns, NetnsError},
    signal::Interrupted,
    stand::{Late, until},
};

const SOON: Duration = Duration::from_secs(15);

/// Tells what kept connections from being made, or from coming in time.
#[derive(Debug, thiserror::Error)]
pub enum NewcomersError {
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error("a connection could not be made")]
    Connect(#[from] io::Error),
    #[error("a connection cannot be asked what it got")]
    Ask(#[from] nix::Error),
    #[error("beside {tuned} tuned connections {without_law} have no law, and {untuned} nothing")]
    LeftAlone { tuned: u64, without_law: u64, untuned: u64 },
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Newcomers are made in one thread, counted in others.
#[derive(Debug)]
pub struct Newcomers {
    /// Arguments of SO_SNDBUF that a policy may have given.
    sndbufs_bytes: Vec<usize>,
    pub stop: AtomicBool,
    pub tuned: AtomicU64,
    /// Connections that have the buffer, but not the law.
    pub without_law: AtomicU64,
    pub untuned: AtomicU64,
}

impl Newcomers {
    /// Counts as tuned those connections under `wad_aimd` with one of these send
    /// buffers.
    #[must_use]
    pub fn of(sndbufs_bytes: &[usize]) -> Self {
        Self {
            sndbufs_bytes: sndbufs_bytes.to_vec(),
            stop: AtomicBool::new(false),
            tuned: AtomicU64::new(0),
            without_law: AtomicU64::new(0),
            untuned: AtomicU64::new(0),
        }
    }

    /// Makes connections until told to stop.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn run(&self, near: &Netns, listener: &TcpListener) -> Result<(), NewcomersError> {
        let to = listener.local_addr()?;
        near.run(|| -> Result<(), NewcomersError> {
            while !self.stop.load(Ordering::Relaxed) {
                let stream = TcpStream::connect(to)?;
                let _accepted = listener.accept()?;
                let congestion = getsockopt(&stream, sockopt::TcpCongestion)?;
                let sndbuf_bytes = getsockopt(&stream, sockopt::SndBuf)?;
                let has_law = congestion.to_string_lossy().starts_with("wad_aimd");
                let has_buffer = self.sndbufs_bytes.iter().any(|bytes| sndbuf_bytes == 2 * bytes);
                let count = match (has_buffer, has_law) {
                    (true, true) => &self.tuned,
                    (true, false) => &self.without_law,
                    (false, _) => &self.untuned,
                };
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        })?
    }

    /// Waits for so many more tuned connections.
    ///
    /// # Errors
    /// When they do not come.
    pub fn await_more(&self, more: u64) -> Result<(), NewcomersError> {
        let now = self.tuned.load(Ordering::Relaxed);
        let look = || Ok::<_, NewcomersError>(self.tuned.load(Ordering::Relaxed));
        until("more tuned connections", SOON, look, |count| *count >= now + more)?;
        Ok(())
    }

    /// Returns how many connections are tuned, after a look that none was left alone.
    ///
    /// # Errors
    /// When one has no law, or nothing at all.
    pub fn all_tuned(&self) -> Result<u64, NewcomersError> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (without_law, untuned) = (read(&self.without_law), read(&self.untuned));
        if without_law + untuned > 0 {
            let tuned = read(&self.tuned);
            return Err(NewcomersError::LeftAlone { tuned, without_law, untuned });
        }
        Ok(read(&self.tuned))
    }

    /// Returns a guard that stops the connections when dropped, however a test ends.
    #[must_use]
    pub const fn stopping(&self) -> Stopping<'_> {
        Stopping(&self.stop)
    }
}

/// The guard that [`Newcomers::stopping`] returns.
#[derive(Debug)]
pub struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
