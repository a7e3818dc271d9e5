//! The agent answers questions at the addresses of `[metrics]`, `[api]` and `[probe]`, and the
//! instance's Unix socket. A reload may change all but the last: what is listened on next is
//! bound before anything else is changed, and served when all is in force.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::Ordering},
};

use anyhow::Result;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, watch},
    task::JoinHandle,
};
use wad_linux::lock::Lock;
use wad_policy::config::Config;
use wad_toolbox::mutex::locked;

use crate::api::{self, Api, BindError, Command, Duty, Guard, Readers};

/// Addresses that are taken, and serve nothing yet.
pub struct Listeners {
    metrics: Next<(SocketAddr, TcpListener)>,
    paths: Next<(SocketAddr, TcpListener)>,
    probes: Next<(SocketAddr, TcpListener)>,
    readers: Next<Readers>,
    max_paths: usize,
    guard: Arc<Guard>,
}

/// Says what is to be served in one place.
enum Next<L> {
    AsBefore,
    Nothing,
    This(L),
}

/// The servers answer until they are told to stop.
pub struct Servers {
    api: Arc<Api>,
    /// Who may ask for the metrics.
    duty: Duty,
    metrics: Option<Served<SocketAddr>>,
    paths: Option<Served<SocketAddr>>,
    probes: Option<Served<SocketAddr>>,
    readers: Option<Served<u32>>,
    control: Served<()>,
    /// The servers that a reload has stopped.
    ending: Vec<JoinHandle<()>>,
}

/// A server, and where it is.
struct Served<A> {
    at: A,
    stopping: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Where the agent answers already.
#[derive(Default)]
struct Here {
    metrics: Option<SocketAddr>,
    paths: Option<SocketAddr>,
    probes: Option<SocketAddr>,
    group: Option<u32>,
}

impl Listeners {
    /// Takes the addresses of a configuration.
    pub fn bind(config: &Config, lock: &Lock) -> Result<Self> {
        Here::default().bind(config, lock)
    }

    /// Serves them, and the socket for commands.
    pub fn serve(
        self,
        api: Api,
        lock: &Lock,
        (control, commands): (UnixListener, mpsc::Sender<Command>),
    ) -> Servers {
        let api = Arc::new(api);
        let router = api::control_router(Arc::clone(&api), commands);
        let control = Served::start((), |stop| api::serve(control, router, stop));
        let (metrics, paths, probes, readers) = (None, None, None, None);
        let duty = Duty::new(Mutex::new(Arc::clone(&self.guard)));
        let ending = Vec::new();
        let mut servers = Servers { api, duty, metrics, paths, probes, readers, control, ending };
        servers.put_in_force(self, lock);
        servers
    }
}

impl Here {
    fn bind(&self, config: &Config, lock: &Lock) -> Result<Listeners> {
        let guard = Arc::new(Guard::new(&config.metrics.guard)?);
        let metrics = self.tcp("metrics", self.metrics, Some(config.metrics.listen))?;
        let paths = self.tcp("api", self.paths, config.api.listen)?;
        let listen = config.probe.as_ref().and_then(|probe| probe.listen);
        let probes = self.tcp("probe", self.probes, listen)?;
        let readers = match config.api.group {
            group if group == self.group => Next::AsBefore,
            Some(group) => Next::This(api::bind_readers(lock, group)?),
            None => Next::Nothing,
        };
        let max_paths = config.metrics.max_paths;
        Ok(Listeners { metrics, paths, probes, readers, max_paths, guard })
    }

    fn tcp(
        &self,
        table: &'static str,
        before: Option<SocketAddr>,
        next: Option<SocketAddr>,
    ) -> Result<Next<(SocketAddr, TcpListener)>, BindError> {
        match next {
            next if next == before => Ok(Next::AsBefore),
            None => Ok(Next::Nothing),
            Some(address) => {
                let listener = api::bind_tcp(table, address).map_err(|error| self.own(error));
                Ok(Next::This((address, listener?)))
            }
        }
    }

    /// It may be this agent that has the port, on this address or all of them.
    fn own(&self, error: BindError) -> BindError {
        let BindError::InUse { table, address } = error else { return error };
        let meets = |here: &SocketAddr| {
            here.port() == address.port()
                && (here.ip() == address.ip()
                    || here.ip().is_unspecified()
                    || address.ip().is_unspecified())
        };
        match [self.metrics, self.paths, self.probes].into_iter().flatten().find(meets) {
            Some(own) => BindError::Own { table, address, own },
            None => error,
        }
    }
}

impl Servers {
    /// Takes the addresses of a configuration that are not served yet.
    pub fn bind(&self, config: &Config, lock: &Lock) -> Result<Listeners> {
        let at = |served: &Option<Served<SocketAddr>>| served.as_ref().map(|served| served.at);
        let group = self.readers.as_ref().map(|served| served.at);
        let [metrics, paths, probes] = [&self.metrics, &self.paths, &self.probes].map(at);
        let here = Here { metrics, paths, probes, group };
        here.bind(config, lock)
    }

    /// Serves at these addresses from now on.
    pub fn put_in_force(&mut self, next: Listeners, lock: &Lock) {
        let Self { api, duty, metrics, paths, probes, readers, ending, .. } = self;
        ending.retain(|task| !task.is_finished());
        api.max_paths.store(next.max_paths, Ordering::Relaxed);
        locked(duty).clone_from(&next.guard);
        next.metrics.replace(metrics, ending, |(at, listener)| {
            let router = api::metrics_router(Arc::clone(api), Arc::clone(duty));
            let duty = Arc::clone(duty);
            let tls = move || Arc::clone(&locked(&duty)).acceptor();
            Served::start(at, |stop| api::serve_by(listener, router, tls, stop))
        });
        next.paths.replace(paths, ending, |(at, listener)| {
            let router = api::paths_router(Arc::clone(api));
            Served::start(at, |stop| api::serve(listener, router, stop))
        });
        next.probes.replace(probes, ending, |(at, listener)| {
            let router = api.probes.page();
            Served::start(at, |stop| api::serve(listener, router, stop))
        });
        if matches!(next.readers, Next::Nothing) {
            lock.remove_readers();
        }
        next.readers.replace(readers, ending, |next| {
            let router = api::readers_router(Arc::clone(api));
            Served::start(next.group(), |stop| api::serve(next.put_in_place(), router, stop))
        });
    }

    /// Stops the servers: no further question is taken.
    pub fn stop(&self) {
        let stop = |stopping: &watch::Sender<bool>| _ = stopping.send_replace(true);
        let tcp = [&self.metrics, &self.paths, &self.probes];
        tcp.into_iter().flatten().for_each(|it| stop(&it.stopping));
        self.readers.iter().for_each(|it| stop(&it.stopping));
        stop(&self.control.stopping);
    }

    pub async fn finish(self) -> Result<()> {
        let Self { metrics, paths, probes, readers, control, ending, .. } = self;
        let tcp = [metrics, paths, probes].into_iter().flatten().map(|served| served.task);
        let readers = readers.map(|served| served.task);
        for task in tcp.chain(readers).chain([control.task]).chain(ending) {
            task.await?;
        }
        Ok(())
    }
}

impl<L> Next<L> {
    fn replace<A>(
        self,
        served: &mut Option<Served<A>>,
        ending: &mut Vec<JoinHandle<()>>,
        serve: impl FnOnce(L) -> Served<A>,
    ) {
        let next = match self {
            Self::AsBefore => return,
            Self::Nothing => None,
            Self::This(listener) => Some(serve(listener)),
        };
        if let Some(Served { stopping, task, .. }) = std::mem::replace(served, next) {
            stopping.send_replace(true);
            ending.push(task);
        }
    }
}

impl<A> Served<A> {
    fn start<F: Future<Output = ()> + Send + 'static>(
        at: A,
        serve: impl FnOnce(watch::Receiver<bool>) -> F,
    ) -> Self {
        let (stopping, stopped) = watch::channel(false);
        Self { at, stopping, task: tokio::spawn(serve(stopped)) }
    }
}
