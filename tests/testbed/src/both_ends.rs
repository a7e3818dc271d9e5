//! Two agents that talk with each other over this host's loopback, one for each end of a path:
//! the near one asks, the far one answers. Each has certificates of one authority.

use std::{io, net::TcpListener, path::Path, process::Command, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    process::{ProcessError, run_command},
    signal::Interrupted,
    stand::{Late, until},
    wad::{Home, WadError},
};

/// The shortest time between two exchanges.
pub const EVERY: Duration = Duration::from_secs(5);
/// An exchange comes about within this time, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

const NAMES: [&str; 2] = ["near", "far"];

/// Tells what went wrong with agents that are to talk.
#[derive(Debug, thiserror::Error)]
pub enum BothEndsError {
    #[error(transparent)]
    Wad(#[from] WadError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot prepare certificates and ports")]
    Prepare(#[from] io::Error),
    #[error("what the agent says of its peers is no JSON")]
    Json(#[from] serde_json::Error),
}

/// An end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Near,
    Far,
}

/// The certificates of both ends, and where the far one answers.
#[derive(Debug)]
pub struct Credentials {
    folder: TempDir,
    port: u16,
}

impl Credentials {
    /// Makes them, by `wad peer`: each end speaks for its prefix.
    ///
    /// # Errors
    /// When `wad` does not make them.
    pub fn make(program: &Path, prefixes: [&str; 2]) -> Result<Self, BothEndsError> {
        let folder = tempfile::tempdir()?;
        // The near end has the authority, too.
        for ((name, prefix), made) in NAMES.into_iter().zip(prefixes).zip(["init", "issue"]) {
            let mut command = Command::new(program);
            command.args(["peer", made, name, "--prefix", prefix, "--folder"]).arg(folder.path());
            run_command(&mut command)?;
        }
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        Ok(Self { folder, port })
    }

    /// Returns the tables of an end's configuration, with more keys of its peer's table.
    #[must_use]
    pub fn tables(&self, end: End, of_peer: &str) -> String {
        let folder = match end {
            End::Near => self.folder.path().to_owned(),
            End::Far => self.folder.path().join("issued").join(NAMES[1]),
        };
        let file = |name: &str| folder.join(name).display().to_string();
        let [near, far] = NAMES;
        let (listen, name, address) = match end {
            End::Near => (String::new(), far, format!("address = '127.0.0.1:{}'\n", self.port)),
            End::Far => (format!("listen = '127.0.0.1:{}'\n", self.port), near, String::new()),
        };
        format!(
            "[peers]\n{listen}certificate = '{}'\nkey = '{}'\nca = '{}'\n\n[[peer]]\nname = \
             '{name}'\nidentity = 'wad://{name}'\nevery = '{}s'\n{address}{of_peer}\n",
            file("host.crt"),
            file("host.key"),
            file("ca.crt"),
            EVERY.as_secs()
        )
    }
}

/// Waits until an agent has heard its peer.
///
/// # Errors
/// When it does not, or cannot be asked.
pub fn await_heard(home: &Home) -> Result<(), BothEndsError> {
    let is_heard = |paths: &Value| of(paths, "peers").any(|peer| !peer["heard"].is_null());
    await_paths("the peer is heard", home, is_heard)
}

/// Waits until an agent has a path by its peer's word.
///
/// # Errors
/// When it does not, or cannot be asked.
pub fn await_path_by_peer(home: &Home) -> Result<(), BothEndsError> {
    let is_by_peer =
        |paths: &Value| of(paths, "paths").any(|path| path["by_peer"]["rcvbuf"] == true);
    await_paths("there is a path by the peer's word", home, is_by_peer)
}

fn of<'v>(paths: &'v Value, kind: &str) -> impl Iterator<Item = &'v Value> {
    paths[kind].as_array().map_or(&[][..], Vec::as_slice).iter()
}

fn await_paths(
    what: &'static str,
    home: &Home,
    fits: impl Fn(&Value) -> bool,
) -> Result<(), BothEndsError> {
    let paths = || -> Result<Value, BothEndsError> {
        Ok(serde_json::from_str(&run_command(home.command("paths").arg("--json"))?)?)
    };
    until(what, LIMIT, paths, fits)?;
    Ok(())
}
