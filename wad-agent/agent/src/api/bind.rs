//! The listening sockets, opened before anything on the host is changed.

use std::{
    fs::{self, Permissions},
    io,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use tokio::net::{TcpListener, UnixListener};
use wad_linux::lock::{self, Lock};

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("another program listens on {address}; set [{table}] listen to a free address")]
    InUse { table: &'static str, address: SocketAddr },
    #[error(
        "this host has no address {}; set [{table}] listen to one that it has, such as \
         127.0.0.1:{}",
        .address.ip(), .address.port()
    )]
    NotOurs { table: &'static str, address: SocketAddr },
    #[error("cannot listen on {address}; see [{table}] listen")]
    Tcp { table: &'static str, address: SocketAddr, source: io::Error },
    #[error("cannot listen on the socket {}", .socket.display())]
    Control { socket: PathBuf, source: io::Error },
}

/// Binds the address that a table of the configuration has.
pub async fn bind_tcp(table: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { table, address },
        io::ErrorKind::AddrNotAvailable => BindError::NotOurs { table, address },
        _ => BindError::Tcp { table, address, source },
    })
}

/// Replaces the socket of a dead agent; the lock says that there is no live one.
/// It must be called within a tokio runtime.
pub fn bind_control(lock: &Lock) -> Result<UnixListener, BindError> {
    bind_unix(lock.socket(), None)
}

/// Does the same with the socket that a group may open, too.
pub fn bind_readers(lock: &Lock, group: u32) -> Result<UnixListener, BindError> {
    bind_unix(&lock::readers(lock.socket()), Some(group))
}

fn bind_unix(socket: &Path, group: Option<u32>) -> Result<UnixListener, BindError> {
    // Bound under another name until only those who may can open it.
    let private = socket.with_extension("new");
    let bind = || {
        match fs::remove_file(&private) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&private)?;
        fs::set_permissions(&private, Permissions::from_mode(0o600))?;
        if group.is_some() {
            chown(&private, None, group)?;
            fs::set_permissions(&private, Permissions::from_mode(0o660))?;
        }
        fs::rename(&private, socket)?;
        Ok(listener)
    };
    bind().map_err(|source| BindError::Control { socket: socket.to_owned(), source })
}
