//! Serving HTTP to clients that may be slow, many, or gone: one request per
//! connection, a bounded number of connections, each for a bounded time, and an
//! end within a bounded time.
//!
//! Where all connections are taken, a further client gets the place of the one that
//! keeps the agent waiting longest, so silent ones starve nobody.

mod client;
mod host;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    serve::Listener,
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
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

pub use self::client::Client;
use self::{
    client::{Waiting, Watched},
    host::Asked,
};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// A client has this long to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Longest life of a connection.
const LIFE: Duration = Duration::from_secs(30);
/// Connections get this long to end after the agent was told to stop.
const GRACE: Duration = Duration::from_millis(250);
/// How often a further client looks for a place where all others wait for the agent.
const LOOK: Duration = Duration::from_millis(50);

/// Serves until `stop` holds true or its sender is gone, and [`GRACE`] longer.
pub async fn serve<L: Listener<Io: Client>>(
    mut listener: L,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = Connections::default();
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.tasks.join_next() => {}
            (stream, _) = listener.accept(), if connections.have_room() => {
                connections.add(stream, router.clone());
            }
            // All of them wait for the agent: that takes no long time.
            () = tokio::time::sleep(LOOK), if connections.are_all_taken() => {}
        }
    }
    // No one else gets in, and those who are gone or slow are cut off.
    drop(listener);
    let drained = async { while connections.tasks.join_next().await.is_some() {} };
    drop(timeout(GRACE, drained).await);
}

/// Holds the connections that are open.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    open: Vec<(AbortHandle, Arc<Waiting>)>,
}

impl Connections {
    fn are_all_taken(&self) -> bool {
        self.tasks.len() >= CONNECTIONS
    }

    /// Says whether a further client has a place, its own or another's.
    fn have_room(&self) -> bool {
        !self.are_all_taken() || self.open.iter().any(|(_, waiting)| waiting.since().is_some())
    }

    fn add<C: Client>(&mut self, stream: C, router: Router) {
        self.open.retain(|(task, _)| !task.is_finished());
        if self.are_all_taken() {
            let waits = |(_, waiting): &&(AbortHandle, Arc<Waiting>)| waiting.since();
            let slowest = self.open.iter().filter(|one| waits(one).is_some()).min_by_key(waits);
            if let Some((task, _)) = slowest {
                tracing::debug!("a client that kept the agent waiting made room for another");
                task.abort();
            }
        }
        let waiting = Arc::new(Waiting::default());
        let task = self.tasks.spawn(connection(stream, router, Arc::clone(&waiting)));
        self.open.push((task, waiting));
    }
}

async fn connection<C: Client>(stream: C, router: Router, waiting: Arc<Waiting>) {
    let asked = Asked::at(stream.local_ip());
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
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(LIFE, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a client went away: {error}"),
        Err(_) => tracing::debug!("a client was too slow"),
    }
}

#[cfg(test)]
mod tests;
