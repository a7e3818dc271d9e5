//! A client's connection, and for how long it keeps the agent waiting.

use std::{
    io,
    net::IpAddr,
    os::fd::AsFd,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use wad_toolbox::mutex::locked;

/// A client is what a listener accepts.
pub trait Client: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns the address of this host that the client has connected to, if it has one.
    fn local_ip(&self) -> Option<IpAddr>;
}

impl Client for TcpStream {
    fn local_ip(&self) -> Option<IpAddr> {
        self.local_addr().ok().map(|address| address.ip().to_canonical())
    }
}

impl Client for UnixStream {
    fn local_ip(&self) -> Option<IpAddr> {
        None
    }
}

/// A listener accepts clients.
pub trait Listener: AsFd + Send + Sync + 'static {
    type Client: Client;

    /// Waits for the next client. One that has gone away again is no error of ours.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Client>> + Send;

    /// Whether a client is there to be accepted.
    fn is_asked(&self) -> bool {
        let mut there = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut there, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}

impl Listener for TcpListener {
    type Client = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Client = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

/// A client that has asked is given this much more time than one that is silent: it may
/// be far away, and take its answer slowly.
const TAKING_TIME: Duration = Duration::from_secs(1);

/// Holds since when the agent waits for a client: for its request at first, later, with
/// [`TAKING_TIME`] added, for room for the answer.
#[derive(Debug)]
pub struct Waiting(Mutex<Option<Instant>>);

impl Default for Waiting {
    fn default() -> Self {
        Self(Mutex::new(Some(Instant::now())))
    }
}

impl Waiting {
    /// Returns since when; None while the client waits for the agent.
    pub fn since(&self) -> Option<Instant> {
        *locked(&self.0)
    }

    pub fn ends(&self) {
        *locked(&self.0) = None;
    }

    fn begins_for_room(&self) {
        locked(&self.0).get_or_insert_with(|| Instant::now() + TAKING_TIME);
    }
}

/// A stream says of what is written whether the client takes it.
pub struct Watched<S> {
    stream: S,
    waiting: Arc<Waiting>,
}

impl<S> Watched<S> {
    pub fn new(stream: S, waiting: Arc<Waiting>) -> Self {
        Self { stream, waiting }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.waiting.begins_for_room(),
            Poll::Ready(_) => self.waiting.ends(),
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
