//! Answers peers that ask: within bounds of time, size and number, whoever they are.
//!
//! A connection is one exchange, or one question about a run. Those that keep this end waiting
//! give way to others, and whoever was heard from an address has a place there before strangers.

mod gates;
mod hall;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{self, pki_types::UnixTime},
};
use wad_policy::config::Peer;
use wad_toolbox::mutex::locked;

#[cfg(test)]
pub use self::gates::MOST as MOST_AT_A_TIME;
use self::{
    gates::{Gates, Pass},
    hall::{Hall, Place},
};
use crate::{
    common::Common,
    credentials::Credentials,
    identity::{Judged, Role, refusal_of},
    message::{EXCHANGE, MAX_BYTES, Statement},
    refusal::Refusal,
    reservation::{RESERVE, read_question, write_reply},
};

/// Connections that nobody has accepted yet.
const BACKLOG: u32 = 128;
/// Whoever connects shows a certificate within this time.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// A request's head, and then its body, are there within this time.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(20);
/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The listener rests for so long when there are no descriptors left.
const REST: Duration = Duration::from_millis(100);

/// Listens, and answers nobody yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Binds an address; port 0 is any that is free. It takes a runtime of tokio.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { listener: socket.listen(BACKLOG)? })
    }

    /// Returns the address, with the port that it has.
    #[cfg(test)]
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until nobody waits for it any more; its connections end with it.
    pub async fn serve(self, common: Arc<Common>) {
        let room = Arc::new(Room { common, gates: Gates::default() });
        let mut hall = Hall::new(Instant::now());
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(heard) = connections.join_next() => {
                    // One that was ended has heard of nobody.
                    if let Ok(Some(address)) = heard {
                        hall.note(address, Instant::now());
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let now = Instant::now();
                        let place = hall.place(from.ip(), now);
                        if let Place::None { left } | Place::Of { left } = place {
                            room.common.board.refuse(None, Refusal::Crowded, left);
                        }
                        if !matches!(place, Place::None { .. }) {
                            let is_in = Arc::new(AtomicBool::new(false));
                            let served = Arc::clone(&room).serve(stream, from, Arc::clone(&is_in));
                            hall.seat(from.ip(), connections.spawn(served), is_in, now);
                        }
                    }
                    // Of that connection alone, or of what the host is short of.
                    Err(_) => sleep(REST).await,
                },
            }
        }
    }
}

/// Where each connection is served.
struct Room {
    common: Arc<Common>,
    gates: Gates,
}

/// A peer that has shown who it is, and is let in or not.
struct Guest {
    peer: Peer,
    judged: Judged,
    remote: IpAddr,
    credentials: Arc<Credentials>,
    pass: Result<Pass, Refusal>,
}

impl Room {
    /// Serves a connection. Returns its address if a peer was heard by it.
    async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        is_in: Arc<AtomicBool>,
    ) -> Option<IpAddr> {
        match timeout(LIFE, self.exchange(stream, from, is_in)).await {
            Ok(Ok(())) => Some(from.ip()),
            Ok(Err((peer, refusal))) => {
                self.common.board.refuse(peer.as_ref(), refusal, from.ip());
                None
            }
            Err(_) => {
                self.common.board.refuse(None, Refusal::Slow, from.ip());
                None
            }
        }
    }

    async fn exchange(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        is_in: Arc<AtomicBool>,
    ) -> Result<(), (Option<Peer>, Refusal)> {
        let nobody = |refusal| (None, refusal);
        let in_force = self.common.in_force().ok_or(nobody(Refusal::Tls))?;
        let credentials = in_force.credentials.clone().ok_or(nobody(Refusal::Tls))?;
        // Latency counts, and not how many packets it takes.
        let _ = stream.set_nodelay(true);
        let acceptor = TlsAcceptor::from(Arc::clone(&credentials.server));
        let stream = match timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
            Ok(accepted) => accepted.map_err(|error| nobody(reason(&error)))?,
            Err(_) => return Err(nobody(Refusal::Slow)),
        };
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let judged = credentials.judge.judge(chain, Role::Asks, UnixTime::now()).map_err(nobody)?;
        let peer = in_force.settings.peers[judged.peer].clone();
        let pass = self.gates.enter(&peer.name, Instant::now());
        // From here on it gives way to nobody.
        is_in.store(pass.is_ok(), Ordering::Relaxed);
        let guest = Guest { peer, judged, remote: from.ip(), credentials, pass };
        // As long as there is no whole request.
        let heard = Mutex::new(Err(Refusal::Request));
        let (by, asked) = (&heard, &guest);
        let service = service_fn(move |request: Request<Incoming>| async move {
            let answered = self.answer(asked, request).await;
            *locked(by) = answered.as_ref().map(|_| ()).map_err(|refusal| *refusal);
            Ok::<_, Infallible>(answered.map_or_else(refuse, json))
        });
        let served = http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIME)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        let is_late = served.is_err_and(|error| error.is_timeout());
        let heard = *locked(&heard);
        heard.map_err(|refusal| match refusal {
            Refusal::Request if is_late => (Some(guest.peer), Refusal::Slow),
            refusal => (Some(guest.peer), refusal),
        })
    }

    /// Hears what a peer says, and says what this end does; or answers about a run.
    async fn answer(&self, guest: &Guest, request: Request<Incoming>) -> Result<Vec<u8>, Refusal> {
        let Guest { peer, judged, remote, credentials, pass } = guest;
        if let Err(refusal) = pass {
            return Err(*refusal);
        }
        let is_exchange = match request.uri().path() {
            _ if request.method() != Method::POST => return Err(Refusal::Request),
            EXCHANGE => true,
            RESERVE => false,
            _ => return Err(Refusal::Request),
        };
        let body = Limited::new(request.into_body(), MAX_BYTES).collect();
        let body = timeout(REQUEST_TIME, body).await.map_err(|_| Refusal::Slow)?;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => Refusal::TooLarge,
            None => Refusal::Malformed,
        })?;
        if !is_exchange {
            let question = read_question(&body.to_bytes())?;
            return Ok(write_reply(&self.common.reserve(peer, question).await));
        }
        let statement = Statement::read(&body.to_bytes())?;
        let own = self.common.statement(peer, credentials, (judged, *remote)).await;
        self.common.board.hear((peer, judged), statement, own.said.nic_bits_per_second)?;
        Ok(own.write())
    }
}

/// Returns the reason for which no TLS came about.
fn reason(error: &io::Error) -> Refusal {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.map_or(Refusal::Tls, refusal_of)
}

fn json(body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Tells a peer why it is not heard.
fn refuse(refusal: Refusal) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(format!("{refusal}\n").into()));
    *answer.status_mut() = match refusal {
        Refusal::Busy | Refusal::TooOften => StatusCode::TOO_MANY_REQUESTS,
        Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::Slow => StatusCode::REQUEST_TIMEOUT,
        Refusal::Request => StatusCode::NOT_FOUND,
        Refusal::Prefix | Refusal::Stranger => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_REQUEST,
    };
    answer
}
