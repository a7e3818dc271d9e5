//! Follows the main table, on a thread of its own: reading large tables takes time
//! that the agent has other use for.

use std::{io, thread, time::Duration};

use futures_util::StreamExt as _;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use rtnetlink::MulticastGroup;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};
use wad_linux::netlink::{self, Netlink, NetlinkError};
use wad_policy::config::route_rules::{RouteMetrics, Selected};
use wad_toolbox::causes::with_causes;

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

/// Rules and routes in the agent's network namespace, kept as they are to be until it
/// is dropped; then they are gone.
#[derive(Debug)]
pub struct Follower {
    wanted: watch::Sender<Vec<Selected>>,
    standing: Standing,
    thread: Option<thread::JoinHandle<()>>,
}

impl Follower {
    /// Returns when they are there, or cannot be.
    pub fn start(wanted: Vec<Selected>, standing: Standing) -> io::Result<Self> {
        let (wanted, told) = watch::channel(wanted);
        let (done, first) = std::sync::mpsc::channel();
        let tell = standing.clone();
        let thread = thread::Builder::new().name("routes".to_owned()).spawn(move || {
            follow(told, &tell, || {
                // Who waited may have given up.
                let _ = done.send(());
            })
        })?;
        // What takes longer goes on beside all else.
        let _ = first.recv_timeout(FIRST);
        Ok(Self { wanted, standing, thread: Some(thread) })
    }

    pub fn want(&self, wanted: Vec<Selected>) {
        self.wanted.send_replace(wanted);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The last sender gone is the end.
        self.wanted = watch::channel(Vec::new()).0;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            warn!("the thread that follows routes has panicked");
        }
        self.standing.set(RoutesState::Off);
    }
}

fn follow(mut wanted: watch::Receiver<Vec<Selected>>, standing: &Standing, done: impl Fn()) {
    let runtime = match netlink::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(standing, error),
    };
    runtime.block_on(async {
        let mut guard = None;
        loop {
            match attend(&mut wanted, standing, &mut guard, &done).await {
                Ok(()) => return,
                Err(error) => {
                    fail(standing, error);
                    done();
                }
            }
            // In doubt the main table decides.
            if let Ok(mut netlink) = Netlink::open()
                && let Err(error) = clear(&mut netlink).await
            {
                warn!("rules and routes of wad's may be left: {error}");
            }
            tokio::select! {
                () = sleep(AGAIN) => {}
                changed = wanted.changed() => if changed.is_err() { return },
            }
        }
    });
}

fn fail(standing: &Standing, error: impl Into<anyhow::Error>) {
    let reason = with_causes(&error.into());
    let state = RoutesState::Failed(reason.clone());
    if standing.set(state.clone()) != state {
        warn!("[host] routes: nothing is in force: {reason}");
    }
}

/// Attends until it is over, or something fails.
async fn attend(
    wanted: &mut watch::Receiver<Vec<Selected>>,
    standing: &Standing,
    guard: &mut Option<Guard>,
    done: impl Fn(),
) -> Result<(), NetlinkError> {
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
        tell(standing, pass(&mut netlink, &selected).await?);
        done();
        let next = Instant::now() + (begun.elapsed() * REST).max(PAUSE);
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return Ok(()) },
            heard = happened(&mut events) => heard?,
        }
        tokio::select! {
            () = sleep_until(next) => {}
            () = closed(wanted) => return Ok(()),
        }
        // They are all in what is read now.
        while events.try_recv().is_ok() {}
    }
}

/// Waits for the end alone.
async fn closed(wanted: &watch::Receiver<Vec<Selected>>) {
    let mut wanted = wanted.clone();
    while wanted.changed().await.is_ok() {}
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

/// Tells the log what is new.
fn tell(standing: &Standing, report: Report) {
    let before = match standing.set(RoutesState::InForce(report.clone())) {
        RoutesState::InForce(before) => before,
        _ => {
            info!(copies = report.copies, "[host] routes are in force");
            Report::default()
        }
    };
    for refused in report.refused.iter().filter(|refused| !before.refused.contains(refused)) {
        warn!("path {}: {}", refused.path, refused.what);
    }
    if before.copies != report.copies {
        info!(copies = report.copies, "copies of routes have followed the main table");
    }
    if report.others_come_first && !before.others_come_first {
        warn!("other rules of this host come before wad's, and may decide in their place");
    }
}
