//! Serving HTTP to clients that may be slow, many, or gone: one request per
//! connection, a bounded number of connections, each for a bounded time, and an
//! end within a bounded time.

use std::time::Duration;

use axum::{Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

/// Connections at a time; the next one waits.
const CONNECTIONS: usize = 64;
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(30);
/// Connections get this long to end after the agent was told to stop.
const GRACE: Duration = Duration::from_millis(250);

/// Serves until `stop` holds true or its sender is gone, and [`GRACE`] longer.
pub async fn serve<L: Listener>(mut listener: L, router: Router, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => {}
            (stream, _) = listener.accept(), if connections.len() < CONNECTIONS => {
                connections.spawn(connection(stream, router.clone()));
            }
        }
    }
    // No one else gets in, and those who are gone or slow are cut off.
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    drop(timeout(GRACE, drained).await);
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, router: Router) {
    let served = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(LIFE, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a client went away: {error}"),
        Err(_) => tracing::debug!("a client was too slow"),
    }
}
