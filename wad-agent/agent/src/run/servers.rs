//! The agent answers questions at the addresses of `[metrics]` and `[api]`, and the
//! instance's Unix socket.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, watch},
    task::JoinHandle,
};
use wad_linux::lock::{self, Lock};
use wad_policy::config::Config;
use wad_toolbox::own_folder;

use crate::api::{self, Api, Command};

/// Addresses that are taken, and serve nothing yet.
pub struct Listeners {
    metrics: TcpListener,
    paths: Option<TcpListener>,
    control: UnixListener,
    readers: Option<UnixListener>,
}

/// The servers answer until they are told to stop.
pub struct Servers {
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Listeners {
    pub async fn bind(config: &Config, lock: &Lock) -> Result<Self> {
        let metrics = api::bind_tcp("metrics", config.metrics.listen).await?;
        let paths = match config.api.listen {
            Some(address) => Some(api::bind_tcp("api", address).await?),
            None => None,
        };
        let readers = match config.api.group {
            Some(group) => {
                let readers = api::bind_readers(lock, group)?;
                own_folder::let_pass(Path::new(lock::RUN_DIR))?;
                Some(readers)
            }
            None => None,
        };
        Ok(Self { metrics, paths, control: api::bind_control(lock)?, readers })
    }

    pub fn serve(self, api: Api, commands: mpsc::Sender<Command>) -> Servers {
        let api = Arc::new(api);
        let (stopping, stopped) = watch::channel(false);
        let metrics = api::metrics_router(Arc::clone(&api));
        let mut tasks = vec![tokio::spawn(api::serve(self.metrics, metrics, stopped.clone()))];
        if let Some(paths) = self.paths {
            let router = api::paths_router(Arc::clone(&api));
            tasks.push(tokio::spawn(api::serve(paths, router, stopped.clone())));
        }
        if let Some(readers) = self.readers {
            let router = api::readers_router(Arc::clone(&api));
            tasks.push(tokio::spawn(api::serve(readers, router, stopped.clone())));
        }
        let control = api::control_router(api, commands);
        tasks.push(tokio::spawn(api::serve(self.control, control, stopped)));
        Servers { stopping, tasks }
    }
}

impl Servers {
    /// Stops the servers: no further question is taken.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub async fn finish(self) -> Result<()> {
        for task in self.tasks {
            task.await?;
        }
        Ok(())
    }
}
