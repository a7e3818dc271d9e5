//! A real web server, in the foreground, serves one file to a client.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    netns::Netns,
    process::{Place, Process, ProcessError},
};

/// Tells what went wrong with the server.
#[derive(Debug, thiserror::Error)]
pub enum NginxError {
    #[error("cannot prepare nginx's folder")]
    Folder(#[from] io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// nginx; it ends when dropped.
pub struct Nginx {
    _process: Process,
    folder: TempDir,
}

impl Nginx {
    /// Serves a file `/data` of so many bytes on a port, over IPv4 and IPv6.
    ///
    /// # Errors
    /// When nginx cannot be run.
    pub fn start(place: Place<'_>, port: u16, bytes: &[u8]) -> Result<Self, NginxError> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().display();
        // One process, as root: no other could read the folder. Files are sent as with
        // Debian's configuration.
        let configuration = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/log;\n\
             events {{}}\n\
             http {{ sendfile on; tcp_nopush on; access_log off; client_body_temp_path {root}/body;\n\
             proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;\n\
             uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;\n\
             server {{ listen {port}; listen [::]:{port}; root {root}; }} }}\n"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration)?;
        fs::write(folder.path().join("data"), bytes)?;
        let mut command = Command::new("nginx");
        command.arg("-e").arg(folder.path().join("log")).arg("-c").arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = place.spawn(command)?;
        Ok(Self { _process: process, folder })
    }

    /// Returns the file that is served.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

/// Returns a curl that gets a URL into a file.
///
/// # Errors
/// When curl cannot be run.
pub fn curl(netns: &Netns, url: &str, into: &Path) -> Result<Process, ProcessError> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--globoff", "--noproxy", "*"]);
    command.args(["--max-time", "60", "--output"]).arg(into).arg(url).stdin(Stdio::null());
    Place { netns: Some(netns), cgroup: None }.spawn(command)
}
