//! Sessions over TCP: echoes, and then bytes that are thrown away.

use std::{io, os::fd::AsRawFd as _, sync::Arc, time::Duration};

use nix::sys::socket::{MsgFlags, recv};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::Terms;
use crate::tools::message::{BYTES, Grant, Hello, Message, Refusal};

/// Connections at a time beyond the transfers: they have yet to say what they want, or
/// hear why they get nothing.
pub const MOST_WAITING: usize = 32;
/// So many of these may be of who may not ask: they are told so, and take no place of others.
const STRANGERS: usize = 8;
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
    strangers: Arc<Semaphore>,
}

impl Sessions {
    pub fn new(listener: TcpListener, terms: Arc<Terms>) -> Self {
        let transfers = Semaphore::new(terms.transfers);
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        Self { listener, shared: Arc::new(Shared { terms, transfers, strangers }) }
    }

    /// Its sessions end with it.
    pub async fn serve(self) -> io::Result<()> {
        let most = self.shared.terms.transfers.saturating_add(MOST_WAITING);
        let mut sessions = JoinSet::new();
        loop {
            tokio::select! {
                // They have nobody to tell of what went wrong but who connected.
                Some(_ended) = sessions.join_next() => {}
                accepted = self.listener.accept(), if sessions.len() < most => match accepted {
                    Ok((stream, from)) => {
                        let stranger = if self.shared.terms.allow(from) {
                            None
                        } else {
                            let place = Arc::clone(&self.shared.strangers).try_acquire_owned();
                            let Ok(place) = place else { continue };
                            Some(place)
                        };
                        sessions.spawn(Arc::clone(&self.shared).session(stream, stranger));
                    }
                    // Of that connection alone, or of what the host is short of.
                    Err(_) => sleep(REST).await,
                },
            }
        }
    }
}

impl Shared {
    /// Who may not ask has the place of a stranger.
    async fn session(
        self: Arc<Self>,
        mut stream: TcpStream,
        stranger: Option<OwnedSemaphorePermit>,
    ) -> io::Result<()> {
        // Without it an echo would wait for what was sent before to be acknowledged.
        stream.set_nodelay(true)?;
        let hello = timeout(HELLO_WITHIN, hear(&mut stream)).await??;
        let Message::Hello(hello) = hello else { return Err(io::ErrorKind::InvalidData.into()) };
        let permit = stranger.is_none().then(|| self.transfers.try_acquire());
        let answer = match &permit {
            None => Err(Refusal::Prefix),
            Some(Err(_)) => Err(Refusal::Busy),
            Some(Ok(_)) => Ok(self.grant(&hello)),
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
