//! Sessions over TCP: echoes, and then bytes that are thrown away.

use std::{io, net::SocketAddr, os::fd::AsRawFd as _, sync::Arc, time::Duration};

use nix::sys::socket::{MsgFlags, recv};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::Terms;
use crate::tools::message::{BYTES, Grant, Hello, Message, Refusal};

/// Connections at a time beyond the transfers: they have yet to say what they want, or
/// hear why they get nothing.
const WAITING: usize = 32;
/// Who connects says what he wants within this time.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// The other end hears of its grant a little later, and is the first to end.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes that are thrown away at a time; nothing is copied.
const AT_ONCE: usize = 1 << 20;
/// The listener rests for so long when there are no descriptors left.
const REST: Duration = Duration::from_millis(100);

pub struct Sessions {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    terms: Arc<Terms>,
    transfers: Semaphore,
}

impl Sessions {
    pub fn new(listener: TcpListener, terms: Arc<Terms>) -> Self {
        let transfers = Semaphore::new(terms.transfers);
        Self { listener, shared: Arc::new(Shared { terms, transfers }) }
    }

    /// Its sessions end with it.
    pub async fn serve(self) -> io::Result<()> {
        let most = self.shared.terms.transfers.saturating_add(WAITING);
        let mut sessions = JoinSet::new();
        loop {
            tokio::select! {
                // They have nobody to tell of what went wrong but who connected.
                Some(_ended) = sessions.join_next() => {}
                accepted = self.listener.accept(), if sessions.len() < most => match accepted {
                    Ok((stream, from)) => {
                        sessions.spawn(Arc::clone(&self.shared).session(stream, from));
                    }
                    // Of that connection alone, or of what the host is short of.
                    Err(_) => sleep(REST).await,
                },
            }
        }
    }
}

impl Shared {
    async fn session(self: Arc<Self>, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        // Without it an echo would wait for what was sent before to be acknowledged.
        stream.set_nodelay(true)?;
        let hello = timeout(HELLO_WITHIN, hear(&mut stream)).await??;
        let Message::Hello(hello) = hello else { return Err(io::ErrorKind::InvalidData.into()) };
        let permit = self.transfers.try_acquire();
        let answer = match &permit {
            _ if !self.terms.allow(from) => Err(Refusal::Prefix),
            Err(_) => Err(Refusal::Busy),
            Ok(_) => Ok(self.grant(&hello)),
        };
        let Hello { nonce, echoes, .. } = hello;
        let welcome = Message::Welcome { nonce, answer }.encode();
        timeout(HELLO_WITHIN, stream.write_all(&welcome)).await??;
        let Ok(grant) = answer else { return Ok(()) };
        let carried = async {
            for _ in 0..echoes {
                echo(&mut stream, nonce).await?;
            }
            swallow(&stream, grant.bytes).await
        };
        timeout(Duration::from_millis(grant.milliseconds) + GRACE, carried).await?
    }

    fn grant(&self, hello: &Hello) -> Grant {
        let most = u64::try_from(self.terms.time.as_millis()).unwrap_or(u64::MAX);
        Grant {
            bytes: hello.bytes.min(self.terms.bytes),
            milliseconds: hello.milliseconds.min(most),
        }
    }
}

async fn hear(stream: &mut TcpStream) -> io::Result<Message> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes).await?;
    Message::decode(&bytes).map_err(io::Error::other)
}

async fn echo(stream: &mut TcpStream, nonce: u64) -> io::Result<()> {
    match hear(stream).await? {
        Message::Question(echo) if echo.nonce == nonce => {
            stream.write_all(&Message::Answer(echo).encode()).await
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Throws away so many bytes at most, until the other end has no more.
async fn swallow(stream: &TcpStream, mut most: u64) -> io::Result<()> {
    let mut nothing = vec![0; AT_ONCE];
    loop {
        stream.readable().await?;
        let taken = stream.try_io(Interest::READABLE, || {
            // tcp(7): with MSG_TRUNC bytes are dropped rather than passed back.
            Ok(recv(stream.as_raw_fd(), &mut nothing, MsgFlags::MSG_TRUNC)?)
        });
        match taken {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                let Some(left) = most.checked_sub(bytes as u64) else { return Ok(()) };
                most = left;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        tokio::task::yield_now().await;
    }
}
