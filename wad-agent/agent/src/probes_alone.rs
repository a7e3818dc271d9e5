//! `wad probe run`: the service alone, on a host that measures and tunes nothing. It needs no
//! privileges, and keeps all that it has in one folder.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tokio::{net::UnixListener, signal::unix::SignalKind, sync::watch};
use tracing::{error, info, warn};
use wad_linux::confinement::confine;
use wad_observing::log;
use wad_policy::config::{Config, Host, Probe};
use wad_toolbox::{
    causes::{told, with_causes},
    own_folder, signals,
    signals::Stop,
    whole_file,
};

use crate::{
    api,
    peers::Peers,
    probes::{Probes, archive},
};

/// Says what is served alone, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration's file.
    pub config: PathBuf,
    pub instance: String,
}

#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    #[error("{} has no [probe]: there is nothing to measure", file.display())]
    Nothing { file: PathBuf },
    #[error("another service answers at {} already", socket.display())]
    Running { socket: PathBuf },
    #[error("cannot listen on the socket {}", socket.display())]
    Socket { socket: PathBuf, source: io::Error },
}

/// Returns the socket of a service that is alone.
pub fn socket(state_dir: &Path, instance: &str) -> PathBuf {
    state_dir.join(format!("probes-{instance}.sock"))
}

/// Measures until SIGTERM or SIGINT.
pub fn run(options: &Options) -> Result<()> {
    let unconfined = confine();
    let (config, probe) = load(options)?;
    let _log = log::init(config.log)?;
    unconfined.iter().for_each(|error| warn!("{}", told(error)));
    own_folder::make_private(&config.agent.state_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(options, config, probe));
    runtime.shutdown_background();
    ended
}

/// Reads a configuration, and what it has of `[probe]`.
fn load(options: &Options) -> Result<(Config, Probe)> {
    let config = Config::load(&options.config, &Host::read()?)?;
    match config.probe.clone() {
        Some(probe) => Ok((config, probe)),
        None => Err(AloneError::Nothing { file: options.config.clone() }.into()),
    }
}

async fn serve(options: &Options, config: Config, probe: Probe) -> Result<()> {
    let mut stop = Stop::new()?;
    let mut hang_up = signals::handle(SignalKind::hangup())?;
    let folder = &config.agent.state_dir;
    let page = probe.listen.map(|address| api::bind_tcp("probe", address)).transpose()?;
    let socket = socket(folder, &options.instance);
    let listener = bind(&socket)?;
    let mut alone = Alone::new(archive(folder, &options.instance), &options.instance);
    alone.follow(&config)?;
    let Alone { probes, .. } = &alone;
    let desk = probes.desk();
    let (stopping, stopped) = watch::channel(false);
    let router = desk.queries().merge(desk.orders());
    let mut servers = vec![tokio::spawn(api::serve(listener, router, stopped.clone()))];
    servers.extend(page.map(|page| tokio::spawn(api::serve(page, desk.page(), stopped))));
    info!(tasks = probe.tasks.len(), "probing; it is asked at {}", socket.display());
    loop {
        tokio::select! {
            () = stop.asked() => break,
            _ = hang_up.recv() => match reload(options, &mut alone, &probe) {
                Ok(tasks) => info!(tasks, "the configuration's tasks are in force"),
                Err(error) => error!("the tasks stay as they were: {}", with_causes(&error)),
            },
        }
    }
    info!("stopping");
    stopping.send_replace(true);
    alone.probes.finish().await;
    alone.peers.finish().await;
    for server in servers {
        server.await?;
    }
    fs::remove_file(&socket).with_context(|| format!("cannot remove {}", socket.display()))
}

/// All that is done alone: paths are measured, and peers agree to that.
struct Alone {
    probes: Probes,
    peers: Peers,
}

impl Alone {
    fn new(archive: PathBuf, instance: &str) -> Self {
        let peers = Peers::default();
        let probes = Probes::new(archive, instance, peers.ask());
        peers.answer_by(probes.desk());
        Self { probes, peers }
    }

    /// Does what a configuration says, if all of that can be had.
    fn follow(&mut self, config: &Config) -> Result<()> {
        let ready = self.probes.prepare(config.probe.as_ref())?;
        let talking = self.peers.prepare(config)?;
        self.probes.put_in_force(ready);
        self.peers.put_in_force(talking);
        Ok(())
    }
}

/// Reads the configuration again, and returns the number of its tasks.
fn reload(options: &Options, alone: &mut Alone, first: &Probe) -> Result<usize> {
    let (config, probe) = load(options)?;
    alone.follow(&config)?;
    if probe.listen != first.listen {
        warn!("another `listen` of [probe] takes a restart");
    }
    Ok(probe.tasks.len())
}

/// Listens, in the place of a service that has died.
fn bind(socket: &Path) -> Result<UnixListener, AloneError> {
    if UnixStream::connect(socket).is_ok() {
        return Err(AloneError::Running { socket: socket.to_owned() });
    }
    let bind = || {
        whole_file::remove(socket)?;
        let listener = UnixListener::bind(socket)?;
        // Its folder is private as well.
        fs::set_permissions(socket, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    bind().map_err(|source| AloneError::Socket { socket: socket.to_owned(), source })
}

#[cfg(test)]
mod tests;
