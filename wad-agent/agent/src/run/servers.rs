//! The agent answers questions at the addresses of `[metrics]`, `[api]`, `[probe]` and `[page]`, and
//! the instance's Unix socket. A reload may change all but the last: what is listened on next is
//! bound before anything else is changed, and served when all is in force.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::Ordering},
};

use anyhow::Result;
use futures_util::FutureExt as _;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::warn;
use wad_linux::lock::Lock;
use wad_policy::config::{Config, Page, PageAddress};
use wad_toolbox::{mutex::locked, whole_file};

use crate::{
    api::{self, Api, BindError, Command, Duty, Guard, Terms, Unplaced},
    page,
};

/// Addresses that are taken, and serve nothing yet.
pub struct Listeners {
    metrics: Next<(SocketAddr, TcpListener)>,
    paths: Next<(SocketAddr, TcpListener)>,
    probes: Next<(SocketAddr, TcpListener)>,
    readers: Next<(u32, Unplaced)>,
    page: Next<(PageAt, PageListener)>,
    /// The page as the configuration has it.
    page_is: Option<Page>,
    max_paths: usize,
    guard: Arc<Guard>,
}

/// Says what is to be served in one place.
enum Next<L> {
    AsBefore,
    Nothing,
    This(L),
}

/// Where the page is, and the group that may open its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PageAt(PageAddress, Option<u32>);

enum PageListener {
    Port(TcpListener),
    Socket(Unplaced),
}

/// The servers answer until they are told to stop.
pub struct Servers {
    api: Arc<Api>,
    gate: page::Gate,
    /// Who may ask for the metrics.
    duty: Duty,
    metrics: Option<Served<SocketAddr>>,
    paths: Option<Served<SocketAddr>>,
    probes: Option<Served<SocketAddr>>,
    readers: Option<Served<u32>>,
    page: Option<Served<PageAt>>,
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
    page: Option<PageAt>,
}

impl Listeners {
    /// Takes the addresses of a configuration.
    pub fn bind(config: &Config, lock: &Lock) -> Result<Self> {
        Here::default().bind(config, lock)
    }

    /// Serves them, and the socket for commands.
    pub fn serve(
        self,
        (api, gate): (Api, page::Gate),
        lock: &Lock,
        (control, commands): (UnixListener, mpsc::Sender<Command>),
    ) -> Servers {
        let api = Arc::new(api);
        let router = api::control_router(Arc::clone(&api), commands);
        let control = Served::start((), |stop| api::serve(control, router, stop));
        let duty = Duty::new(Mutex::new(Arc::clone(&self.guard)));
        let mut servers = Servers {
            api,
            gate,
            duty,
            metrics: None,
            paths: None,
            probes: None,
            readers: None,
            page: None,
            control,
            ending: Vec::new(),
        };
        servers.put_in_force(self, lock);
        servers
    }
}

/// Tries as much of a configuration as shows while another agent has the place: one that is sure
/// to fail is not to drive that away. Must be called within a tokio runtime.
pub fn try_out(config: &Config) -> Result<()> {
    Guard::new(&config.metrics.guard)?;
    let page = config.page.as_ref().and_then(|page| page.listen.by_tcp());
    let probes = config.probe.as_ref().and_then(|probe| probe.listen);
    let tables = [
        ("metrics", Some(config.metrics.listen)),
        ("api", config.api.listen),
        ("probe", probes),
        ("page", page),
    ];
    for (table, address) in tables {
        match address.map(|address| api::bind_tcp(table, address)).transpose() {
            // It may well be the other agent that has the port. Others are left again at once.
            Ok(_) | Err(BindError::InUse { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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
            Some(group) => Next::This((group, api::bind_readers(lock, group)?)),
            None => Next::Nothing,
        };
        let (page, page_is) = (self.page(config)?, config.page.clone());
        let max_paths = config.metrics.max_paths;
        Ok(Listeners { metrics, paths, probes, readers, page, page_is, max_paths, guard })
    }

    fn page(&self, config: &Config) -> Result<Next<(PageAt, PageListener)>, BindError> {
        let Some(page) = &config.page else { return Ok(Next::Nothing) };
        let group = match page.listen {
            PageAddress::Port(_) => None,
            PageAddress::Socket(_) => config.api.group,
        };
        let at = PageAt(page.listen.clone(), group);
        let before = match &self.page {
            Some(before) if *before == at => return Ok(Next::AsBefore),
            before => before.as_ref().map(|PageAt(address, _)| address),
        };
        let listener = match &page.listen {
            PageAddress::Port(address) => {
                let bound = api::bind_tcp("page", *address).map_err(|error| self.own(error));
                PageListener::Port(bound?)
            }
            PageAddress::Socket(file) => {
                let is_own = before == Some(&page.listen);
                PageListener::Socket(api::bind_page(file, group, is_own)?)
            }
        };
        Ok(Next::This((at, listener)))
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
        let page = match self.page {
            Some(PageAt(PageAddress::Port(address), _)) => Some(address),
            _ => None,
        };
        match [self.metrics, self.paths, self.probes, page].into_iter().flatten().find(meets) {
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
        let page = self.page.as_ref().map(|served| served.at.clone());
        let here = Here { metrics, paths, probes, group, page };
        here.bind(config, lock)
    }

    /// Serves at these addresses from now on.
    pub fn put_in_force(&mut self, next: Listeners, lock: &Lock) {
        let Self { api, gate, duty, metrics, paths, probes, readers, page, ending, .. } = self;
        ending.retain(|task| !task.is_finished());
        api.max_paths.store(next.max_paths, Ordering::Relaxed);
        locked(duty).clone_from(&next.guard);
        next.metrics.replace(metrics, ending, |(at, listener)| {
            let router = api::metrics_router(Arc::clone(api), Arc::clone(duty));
            let duty = Arc::clone(duty);
            let tls = Box::new(move || {
                let guard = Arc::clone(&locked(&duty));
                async move { guard.acceptor().await }.boxed()
            });
            let terms = Terms { tls, ..Terms::default() };
            Served::start(at, |stop| api::serve_by(listener, router, terms, stop))
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
        next.readers.replace(readers, ending, |(group, next)| {
            let router = api::readers_router(Arc::clone(api));
            Served::start(group, |stop| api::serve(next.put_in_place(), router, stop))
        });
        let before = page.as_ref().map(|served| served.at.clone());
        next.page.replace(page, ending, |(at, listener)| {
            let (router, terms) = (page::router(Arc::clone(api), gate.clone()), gate.terms());
            match listener {
                PageListener::Port(listener) => {
                    Served::start(at, |stop| api::serve_by(listener, router, terms, stop))
                }
                PageListener::Socket(next) => Served::start(at, |stop| {
                    api::serve_by(next.put_in_place(), router, terms, stop)
                }),
            }
        });
        gate.open_for(next.page_is);
        let is_there =
            |PageAt(before, _): &PageAt| page.as_ref().is_some_and(|served| served.at.0 == *before);
        before.filter(|before| !is_there(before)).iter().for_each(PageAt::leave);
    }

    /// Stops the servers: no further question is taken.
    pub fn stop(&self) {
        let stop = |stopping: &watch::Sender<bool>| _ = stopping.send_replace(true);
        let tcp = [&self.metrics, &self.paths, &self.probes];
        tcp.into_iter().flatten().for_each(|it| stop(&it.stopping));
        self.readers.iter().for_each(|it| stop(&it.stopping));
        self.page.iter().for_each(|it| stop(&it.stopping));
        stop(&self.control.stopping);
    }

    pub async fn finish(self) -> Result<()> {
        let Self { metrics, paths, probes, readers, page, control, ending, .. } = self;
        let tcp = [metrics, paths, probes].into_iter().flatten().map(|served| served.task);
        let readers = readers.map(|served| served.task);
        if let Some(Served { at, .. }) = &page {
            at.leave();
        }
        let page = page.map(|served| served.task);
        for task in tcp.chain(readers).chain(page).chain([control.task]).chain(ending) {
            task.await?;
        }
        Ok(())
    }
}

impl PageAt {
    /// Removes the socket, if it is one.
    fn leave(&self) {
        let Self(PageAddress::Socket(file), _) = self else { return };
        if let Err(error) = whole_file::remove(file) {
            warn!("cannot remove {}: {error}", file.display());
        }
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

#[cfg(test)]
mod tests {
    use wad_policy::config::Host;

    use super::*;

    #[tokio::test]
    async fn what_is_sure_to_fail_shows_while_another_has_the_addresses() {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = other.local_addr().unwrap();
        let tried = |text: &str| {
            let host = Host::default();
            let config = Config::parse("wad.toml", text, &host).unwrap_or_else(|e| panic!("{e}"));
            try_out(&config).map_err(|error| format!("{error:#}"))
        };
        tried(&format!("[metrics]\nlisten = '{taken}'\n")).unwrap();
        let error = tried("[metrics]\nlisten = '192.0.2.1:9464'\n").unwrap_err();
        assert!(error.starts_with("this host has no address 192.0.2.1;"), "{error}");
        let files = "certificate = '/nowhere/wad.pem'\ncertificate_key = '/nowhere/wad.key'\n";
        let error = tried(&format!("[metrics]\nlisten = '{taken}'\n{files}")).unwrap_err();
        assert!(error.contains("/nowhere/wad.pem"), "{error}");
    }
}
