//! A real Prometheus scrapes one address each second.

use std::{
    fs::{self, File},
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
};

use crate::process::{Place, Process, ProcessError};

/// Tells what went wrong with Prometheus.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    #[error("cannot prepare Prometheus' folder")]
    Folder(#[from] io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// The server ends when dropped.
pub struct Prometheus {
    _process: Process,
    port: u16,
}

impl Prometheus {
    /// Starts a server with its files in a folder, and does not wait for it: at first
    /// it answers nothing.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(folder: &Path, target: SocketAddr) -> Result<Self, PrometheusError> {
        Self::start_with(folder, target, &[])
    }

    /// Starts one with further options.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start_with(
        folder: &Path,
        target: SocketAddr,
        options: &[&str],
    ) -> Result<Self, PrometheusError> {
        Self::start_by(Command::new("prometheus"), folder, target, options)
    }

    /// Starts one by a command, which may have it run elsewhere.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start_by(
        mut command: Command,
        folder: &Path,
        target: SocketAddr,
        options: &[&str],
    ) -> Result<Self, PrometheusError> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let file = folder.join("prometheus.yml");
        fs::write(
            &file,
            format!(
                "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
                 scrape_configs:\n\
                 - job_name: wad\n\
                 \x20 static_configs: [{{ targets: ['{target}'] }}]\n"
            ),
        )?;
        command.arg("--config.file").arg(file);
        command.arg("--storage.tsdb.path").arg(folder.join("tsdb"));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.args(options);
        let log = File::create(folder.join("prometheus.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { _process: Place::default().spawn(command)?, port })
    }

    /// Returns the port of the server's API, on the loopback.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}
