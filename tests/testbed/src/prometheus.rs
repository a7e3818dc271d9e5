//! A real Prometheus scrapes one address each second, and its promtool judges a page.

use std::{
    fs::{self, File},
    io::{self, Write as _},
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
    #[error("cannot speak with promtool")]
    Promtool(#[source] io::Error),
    #[error("promtool has something against the metrics: {0}")]
    Metrics(String),
}

/// Has promtool check a page of metrics, against which it has nothing.
///
/// # Errors
/// With what it says.
pub fn check_metrics(page: &str) -> Result<(), PrometheusError> {
    let ask = || {
        let mut promtool = Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut child = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().expect("it is piped").write_all(page.as_bytes())?;
        child.wait_with_output()
    };
    let output = ask().map_err(PrometheusError::Promtool)?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() && said.is_empty() {
        return Ok(());
    }
    Err(PrometheusError::Metrics(String::from_utf8_lossy(&said).into_owned()))
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
