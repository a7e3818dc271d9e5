//! Follows the main table, on a thread of its own: reading large tables takes time
//! that the agent has other use for.

use std::{convert::Infallible, future::pending, io, thread, time::Duration};

use futures_util::StreamExt as _;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use rtnetlink::MulticastGroup;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};
use wad_linux::netlink::{self, Netlink, NetlinkError};
use wad_policy::config::route_rules::{RouteMetrics, Selected};
use wad_toolbox::{causes::with_causes, shortage};

use super::{
    MAIN_TABLE,
    guard::Guard,
    pass::pass,
    remove::clear,
    route,
    standing::{Report, RoutesState, Standing},
};

/// The groups tell what may change how a packet goes. Links and addresses that go
/// take routes with them that nobody is told of.
const GROUPS: [MulticastGroup; 7] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];

/// Between two passes, at least; changes come in bursts.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause lasts at least so many times as long as the last pass took.
const REST: u32 = 9;
/// The wait after a failure, if nothing happens before.
const AGAIN: Duration = Duration::from_secs(5);
/// The limit for the first pass, that a start waits for.
const FIRST: Duration = Duration::from_secs(5);

/// Rules and routes in a network namespace, kept as they are to be until it is dropped;
/// then they are gone.
#[derive(Debug)]
pub struct Follower {
    standing: Standing,
    /// Its thread goes on until this is dropped.
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Follower {
    /// Returns when they are there, or cannot be, in the calling thread's network namespace,
    /// which is named by its inode if it is another than the agent's.
    pub fn start(
        wanted: watch::Receiver<Vec<Selected>>,
        standing: Standing,
        namespace: Option<u64>,
    ) -> io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let (done, first) = std::sync::mpsc::channel();
        let tell = Tell { standing: standing.clone(), namespace };
        // What this thread opens and starts is of the namespace of the one that starts it.
        let thread = thread::Builder::new().name("routes".to_owned()).spawn(move || {
            follow(wanted, ended, &tell, || {
                // Who waited may have given up.
                let _ = done.send(());
            });
        });
        let thread = Some(thread.map_err(shortage::of_threads)?);
        // What takes longer goes on beside all else.
        let _ = first.recv_timeout(FIRST);
        Ok(Self { standing, end: Some(end), thread })
    }

    /// Whether it could not even begin.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }

    /// Has it end soon, for whoever drops it.
    pub fn end_soon(&mut self) {
        self.end = None;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end_soon();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            warn!("the thread that follows routes has panicked");
        }
        self.standing.set(RoutesState::Off);
    }
}

fn follow(
    mut wanted: watch::Receiver<Vec<Selected>>,
    ended: oneshot::Receiver<()>,
    tell: &Tell,
    done: impl Fn(),
) {
    let runtime = match netlink::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tell.fail(error),
    };
    runtime.block_on(async {
        // What a pass has half done goes with the guard.
        tokio::select! {
            _ = ended => {}
            () = go_on(&mut wanted, tell, &done) => {}
        }
    });
}

async fn go_on(wanted: &mut watch::Receiver<Vec<Selected>>, tell: &Tell, done: impl Fn()) {
    let mut guard = None;
    loop {
        let Err(error) = attend(wanted, tell, &mut guard, &done).await;
        tell.fail(error);
        done();
        // In doubt the main table decides.
        if let Ok(mut netlink) = Netlink::open()
            && let Err(error) = clear(&mut netlink).await
        {
            warn!("rules and routes of wad's may be left: {error}");
        }
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = changed(wanted) => {}
        }
    }
}

/// Waits until something else is wanted.
async fn changed(wanted: &mut watch::Receiver<Vec<Selected>>) {
    if wanted.changed().await.is_err() {
        pending().await
    }
}

/// Attends until something fails.
async fn attend(
    wanted: &mut watch::Receiver<Vec<Selected>>,
    tell: &Tell,
    guard: &mut Option<Guard>,
    done: impl Fn(),
) -> Result<Infallible, NetlinkError> {
    // First: what happens from here on is told.
    let (connection, _handle, mut events) = rtnetlink::new_multicast_connection(&GROUPS)
        .map_err(|source| NetlinkError::Socket { source })?;
    tokio::spawn(connection);
    let mut netlink = Netlink::open()?;
    loop {
        let begun = Instant::now();
        let selected = wanted.borrow_and_update().clone();
        if !selected.is_empty() && !guard.as_mut().is_some_and(Guard::is_there) {
            *guard = Some(Guard::start().map_err(|source| NetlinkError::Guard { source })?);
        }
        tell.report(pass(&mut netlink, &selected).await?);
        done();
        let next = Instant::now() + (begun.elapsed() * REST).max(PAUSE);
        tokio::select! {
            () = changed(wanted) => {}
            heard = happened(&mut events) => heard?,
        }
        sleep_until(next).await;
        // They are all in what is read now.
        while events.try_recv().is_ok() {}
    }
}

type Event = (netlink_packet_core::NetlinkMessage<RouteNetlinkMessage>, rtnetlink::sys::SocketAddr);

/// Waits for something that may matter.
async fn happened(
    events: &mut (impl futures_util::Stream<Item = Event> + Unpin),
) -> Result<(), NetlinkError> {
    while let Some((message, _)) = events.next().await {
        let route = match &message.payload {
            NetlinkPayload::InnerMessage(
                RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route),
            ) => route,
            // Also when some were lost.
            _ => return Ok(()),
        };
        let table = route::table(route);
        if table == MAIN_TABLE || RouteMetrics::of_table(table).is_some() {
            return Ok(());
        }
    }
    Err(NetlinkError::Socket { source: io::ErrorKind::UnexpectedEof.into() })
}

/// Tells the log what is new, and whoever asks how it stands.
struct Tell {
    standing: Standing,
    /// Another namespace than the agent's, by its inode.
    namespace: Option<u64>,
}

impl Tell {
    fn fail(&self, error: impl Into<anyhow::Error>) {
        let reason = with_causes(&error.into());
        let state = RoutesState::Failed(reason.clone());
        if self.standing.set(state.clone()) != state {
            warn!(namespace = self.namespace, "[host] routes: nothing is in force: {reason}");
        }
    }

    fn report(&self, report: Report) {
        let (namespace, copies) = (self.namespace, report.copies);
        let before = match self.standing.set(RoutesState::InForce(report.clone())) {
            RoutesState::InForce(before) => before,
            _ => {
                info!(namespace, copies, "[host] routes are in force");
                Report::default()
            }
        };
        for refused in report.refused.iter().filter(|refused| !before.refused.contains(refused)) {
            warn!(namespace, "path {}: {}", refused.path, refused.what);
        }
        if before.copies != copies {
            info!(namespace, copies, "copies of routes have followed the main table");
        }
        if report.others_come_first && !before.others_come_first {
            warn!(
                namespace,
                "other rules of this host come before wad's, and may decide in their place"
            );
        }
    }
}
