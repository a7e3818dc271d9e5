//! The metrics are exported by OTLP: what `/metrics` shows is sent to a service now and then.
//!
//! A thread of its own does all of it, as far as from reading the kernel's maps to
//! encryption, and nobody waits for it: neither tuning nor a reload, and the agent's end only
//! for a moment. What it holds is one page of metrics, and a request made of it.

mod board;
mod delivery;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use wad_linux::sysctl::Sysctl;
use wad_observing::metrics::{
    SourceError,
    otlp::{Export, Origin},
};
use wad_policy::config::Otlp;
use wad_toolbox::chance::chance;

pub use self::board::Board;
use self::delivery::{Delivery, GivenUp};
use crate::{api::Api, gzip::gzip};

/// The last export gets this long at the agent's end.
const GRACE: Duration = Duration::from_secs(2);

/// Takes the metrics of the moment.
pub type Metrics = Arc<dyn Fn() -> Result<Export, SourceError> + Send + Sync>;

/// Takes the metrics that the page has.
pub fn metrics(api: &Api) -> Metrics {
    let (source, max_paths) = (api.source.clone(), Arc::clone(&api.max_paths));
    let started = api.about.started_at;
    let (host, instance) = (Sysctl::default().host_name(), api.about.instance.clone());
    let origin = Origin { host, instance };
    Arc::new(move || {
        let max_paths = max_paths.load(Ordering::Relaxed);
        Ok(Export::new(source.read()?, max_paths, started, &origin)?)
    })
}

/// Exports where it is told to, which may change.
#[derive(Default)]
pub struct Exporter {
    board: Board,
    /// Where metrics are sent.
    to: Option<Otlp>,
    /// The metrics; None before they can be had.
    metrics: Option<Metrics>,
    /// The thread; None until there is something to export.
    thread: Option<Thread>,
}

struct Thread {
    orders: watch::Sender<Order>,
    /// Hears of its end.
    ended: oneshot::Receiver<()>,
}

#[derive(Clone)]
enum Order {
    Nothing,
    Export(Box<Otlp>, Metrics),
    /// An export, if there is somewhere to send it, and then the end.
    End(Option<(Box<Otlp>, Metrics)>),
}

impl Exporter {
    /// Has all that it takes to export there; but nothing is exported yet.
    pub fn prepare(&mut self, to: Option<&Otlp>) -> Result<()> {
        if to.is_none() || self.thread.is_some() {
            return Ok(());
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start what exports metrics")?;
        let (orders, told) = watch::channel(Order::Nothing);
        let (end, ended) = oneshot::channel();
        let board = self.board.clone();
        let run = move || {
            run(runtime, told, &board);
            // Nobody may be waiting.
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(run);
        thread.context("cannot start a thread that exports metrics")?;
        self.thread = Some(Thread { orders, ended });
        Ok(())
    }

    /// Exports there from now on, and nowhere else.
    pub fn put_in_force(&mut self, to: Option<&Otlp>) {
        if self.to.as_ref() == to {
            return;
        }
        self.to = to.cloned();
        self.board.follow(to);
        self.go_on();
    }

    /// Exports these metrics from now on.
    pub fn begin(&mut self, metrics: Metrics) {
        self.metrics = Some(metrics);
        self.go_on();
    }

    /// Returns how it gets on, for those who answer questions.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    fn go_on(&self) {
        let Some(thread) = &self.thread else { return };
        let order = self.work().map_or(Order::Nothing, |(to, metrics)| Order::Export(to, metrics));
        thread.orders.send_replace(order);
    }

    fn work(&self) -> Option<(Box<Otlp>, Metrics)> {
        Some((Box::new(self.to.clone()?), self.metrics.clone()?))
    }

    /// Exports what there is at the end; whoever takes it has to be quick.
    pub async fn finish(mut self) {
        let Some(Thread { orders, ended }) = self.thread.take() else { return };
        orders.send_replace(Order::End(self.work()));
        // It bounds itself, but for the time that the metrics take.
        let _ = timeout(2 * GRACE, ended).await;
    }
}

fn run(runtime: Runtime, orders: watch::Receiver<Order>, board: &Board) {
    runtime.block_on(follow(orders, board));
    // A look-up of a name may take long: nobody waits for it any more.
    runtime.shutdown_background();
}

/// Does as it is told, until the end.
async fn follow(mut orders: watch::Receiver<Order>, board: &Board) {
    loop {
        let order = orders.borrow_and_update().clone();
        let work = async {
            match &order {
                Order::Nothing => std::future::pending().await,
                Order::Export(to, metrics) => export_on(to, metrics, board).await,
                Order::End(Some((to, metrics))) => {
                    let mut delivery = Delivery::new(to, board);
                    let last = export(metrics, &mut delivery, Instant::now());
                    if timeout(GRACE, last).await.is_err() {
                        board.given_up("it took too long at the agent's end".to_owned());
                    }
                }
                Order::End(None) => {}
            }
        };
        tokio::select! {
            changed = orders.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = work => return,
        }
    }
}

/// Exports for ever, an interval after the other.
async fn export_on(to: &Otlp, metrics: &Metrics, board: &Board) {
    let mut delivery = Delivery::new(to, board);
    let mut due = Instant::now();
    // Agents that start together do not go on together.
    let mut interval = to.interval.mul_f64(1.0 - chance());
    loop {
        sleep_until(due).await;
        let next = due + interval;
        let not_before = export(metrics, &mut delivery, next).await;
        // What took longer than an interval is not made up for.
        due = next.max(Instant::now()).max(not_before.unwrap_or(next));
        interval = to.interval;
    }
}

/// Exports once, and tries what fails again until then. Returns until when the service asks
/// to be spared.
async fn export(metrics: &Metrics, delivery: &mut Delivery<'_>, until: Instant) -> Option<Instant> {
    let export = match metrics() {
        Ok(export) => export,
        Err(error) => {
            delivery.board.given_up(format!("there are no metrics: {error}"));
            return None;
        }
    };
    for request in export.requests() {
        let body = request.map_err(SourceError::from);
        let body = match body.and_then(|request| Ok(gzip(&request)?)) {
            Ok(body) => body,
            Err(error) => {
                delivery.board.given_up(error.to_string());
                return None;
            }
        };
        if let Err(GivenUp { not_before }) = delivery.deliver(body, until).await {
            return not_before;
        }
    }
    delivery.board.taken();
    None
}
