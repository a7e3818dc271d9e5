//! Serving HTTP to clients that may be slow, many, or gone: one request per
//! connection, a bounded number of connections, each for a bounded time, and an
//! end within a bounded time.
//!
//! Where all connections are taken, a further client gets the place of the one that
//! keeps the agent waiting longest, so silent ones starve nobody. So it is where a client
//! cannot be accepted for want of descriptors; and there are never so many connections that
//! the agent has none left for its work.

mod client;
mod host;

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    response::{IntoResponse as _, Response},
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use wad_linux::privileges;
use wad_toolbox::{seldom::Seldom, shortage};

pub use self::{
    client::{Client, Listener},
    host::names_this_host,
};
use self::{
    client::{Waiting, Watched},
    host::Asked,
};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// Part of the process's descriptors that the connections to one address may take.
const SHARE: u64 = 16;
/// Until a client is accepted again after that was refused.
const AGAIN: Duration = Duration::from_millis(200);
/// A client that keeps the agent waiting for so long makes room where there are no more
/// descriptors.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 << 10;
/// A client has this long to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(30);
/// Connections get this long to end after the agent was told to stop.
const GRACE: Duration = Duration::from_millis(250);
/// How often a further client looks for a place where all others wait for the agent.
const LOOK: Duration = Duration::from_millis(50);

/// Says on which terms clients are served.
pub struct Terms {
    /// Returns what the next connection is encrypted by, if it is. The connection alone waits
    /// for it.
    pub tls: Box<dyn Fn() -> BoxFuture<'static, Option<TlsAcceptor>> + Send + Sync>,
    /// Whether the router looks by itself at the names by which it is asked.
    pub knows_names: bool,
    /// Counts clients that were too slow, or made room for others.
    pub cut_off: Arc<AtomicU64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { tls: Box::new(|| ready(None).boxed()), knows_names: false, cut_off: Arc::default() }
    }
}

/// Serves until `stop` holds true or its sender is gone, and [`GRACE`] longer.
pub async fn serve<L: Listener>(listener: L, router: Router, stop: watch::Receiver<bool>) {
    serve_by(listener, router, Terms::default(), stop).await;
}

/// Does so on terms of its own.
pub async fn serve_by<L: Listener>(
    listener: L,
    router: Router,
    terms: Terms,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = Connections::new(privileges::descriptors(), terms);
    let mut said = Seldom::new();
    loop {
        tokio::select! {
            () = async { drop(stop.wait_for(|stop| *stop).await) } => break,
            Some(_) = connections.tasks.join_next() => {}
            accepted = listener.accept(), if connections.have_room() => match accepted {
                Ok(stream) => {
                    // Not before the other's end: many may come at once.
                    while connections.are_all_taken() && connections.make_room(Duration::ZERO) {
                        connections.tasks.join_next().await;
                    }
                    connections.add(stream, router.clone());
                }
                Err(error) if has_gone(&error) => {}
                Err(error) => {
                    // For want of descriptors it is so without a client, too.
                    if listener.is_asked() {
                        shortage::note(&error);
                        if said.may_say() {
                            tracing::warn!("cannot accept a client, which waits: {error}");
                        }
                        connections.make_room(PATIENCE);
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            },
            // All of them wait for the agent: that takes no long time.
            () = tokio::time::sleep(LOOK), if connections.are_all_taken() => {}
        }
    }
    // No one else gets in, and those who are gone or slow are cut off.
    drop(listener);
    let drained = async { while connections.tasks.join_next().await.is_some() {} };
    drop(timeout(GRACE, drained).await);
}

/// Whether a client has gone before it was accepted (accept(2)).
fn has_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Holds the connections that are open.
struct Connections {
    terms: Terms,
    most: usize,
    tasks: JoinSet<()>,
    open: Vec<(AbortHandle, Arc<Waiting>)>,
}

impl Connections {
    /// No more than befit a process with so many descriptors.
    fn new(descriptors: u64, terms: Terms) -> Self {
        let most = usize::try_from(descriptors / SHARE).unwrap_or(CONNECTIONS);
        let most = most.clamp(1, CONNECTIONS);
        Self { terms, most, tasks: JoinSet::new(), open: Vec::new() }
    }

    fn are_all_taken(&self) -> bool {
        self.tasks.len() >= self.most
    }

    /// Says whether a further client has a place, its own or another's.
    fn have_room(&self) -> bool {
        !self.are_all_taken() || self.open.iter().any(|(_, waiting)| waiting.since().is_some())
    }

    fn add<C: Client>(&mut self, stream: C, router: Router) {
        let waiting = Arc::new(Waiting::default());
        let asked = match self.terms.knows_names {
            true => Asked::ByAnyName,
            false => Asked::at(stream.local_ip()),
        };
        let (tls, cut_off) = ((self.terms.tls)(), Arc::clone(&self.terms.cut_off));
        let own = Arc::clone(&waiting);
        let task = self.tasks.spawn(async move {
            let ended = match tls.await {
                None => connection(stream, router, asked, own).await,
                Some(tls) => match timeout(HEAD_TIME, tls.accept(stream)).await {
                    Ok(Ok(stream)) => connection(stream, router, asked, own).await,
                    Ok(Err(error)) => Ended::WentAway(error.to_string()),
                    Err(_) => Ended::TooSlow,
                },
            };
            match ended {
                Ended::Served => {}
                Ended::WentAway(error) => tracing::debug!("a client went away: {error}"),
                Ended::TooSlow => {
                    cut_off.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!("a client was too slow");
                }
            }
        });
        self.open.retain(|(task, _)| !task.is_finished());
        self.open.push((task, waiting));
    }

    /// Ends the connection that has kept the agent waiting longest. Whether any does for so
    /// long.
    fn make_room(&mut self, patience: Duration) -> bool {
        let since = |(task, waiting): &(AbortHandle, Arc<Waiting>)| {
            waiting.since().filter(|since| !task.is_finished() && since.elapsed() >= patience)
        };
        let waits = |(place, one)| since(one).map(|since| (since, place));
        let Some((_, slowest)) = self.open.iter().enumerate().filter_map(waits).min() else {
            return false;
        };
        tracing::debug!("a client that kept the agent waiting made room for another");
        self.terms.cut_off.fetch_add(1, Ordering::Relaxed);
        // It is no candidate any more, though it may take a moment to end.
        self.open.swap_remove(slowest).0.abort();
        true
    }
}

/// Says how it ended with a client.
enum Ended {
    Served,
    WentAway(String),
    TooSlow,
}

async fn connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    router: Router,
    asked: Asked,
    waiting: Arc<Waiting>,
) -> Ended {
    let stream = Watched::new(stream, Arc::clone(&waiting));
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        // It has asked, and is the one to wait now.
        waiting.ends();
        let router = router.clone();
        let refusal = asked.refusal(request.headers());
        async move {
            Ok::<Response, Infallible>(match refusal {
                Some(refusal) => refusal.into_response(),
                None => router.call(request).await?,
            })
        }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .max_buf_size(HEAD_BYTES)
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(LIFE, served).await {
        Ok(Ok(())) => Ended::Served,
        Ok(Err(error)) if error.is_timeout() => Ended::TooSlow,
        Ok(Err(error)) => Ended::WentAway(error.to_string()),
        Err(_) => Ended::TooSlow,
    }
}

#[cfg(test)]
mod tests;
