//! The listening sockets, opened before anything on the host is changed.

use std::{
    fs::{self, Permissions},
    io,
    net::SocketAddr,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt, chown},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tracing::warn;
use wad_linux::lock::{self, Lock};
use wad_toolbox::{
    own_folder::{self, FolderError},
    whole_file,
};

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("another program listens on {address}; set [{table}] listen to a free address")]
    InUse { table: &'static str, address: SocketAddr },
    #[error(
        "[{table}] listen cannot become {address} while this agent listens on {own}: set it to \
         another port, or restart the agent"
    )]
    Own { table: &'static str, address: SocketAddr, own: SocketAddr },
    #[error(
        "this host has no address {}; set [{table}] listen to one that it has, such as \
         127.0.0.1:{}",
        .address.ip(), .address.port()
    )]
    NotOurs { table: &'static str, address: SocketAddr },
    #[error(
        "port {} takes CAP_NET_BIND_SERVICE; set [{table}] listen to one from {FIRST_HIGH_PORT} \
         on, or give the agent that capability", .address.port()
    )]
    LowPort { table: &'static str, address: SocketAddr, source: io::Error },
    #[error("cannot listen on {address}; see [{table}] listen")]
    Tcp { table: &'static str, address: SocketAddr, source: io::Error },
    #[error("another program listens on {}; set [page] listen to another name", .socket.display())]
    SocketInUse { socket: PathBuf },
    #[error(
        "{} is there already, and is no socket; set [page] listen to another name",
        .socket.display()
    )]
    NoSocket { socket: PathBuf },
    #[error("cannot listen on the socket of [page]")]
    Folder(#[from] FolderError),
    #[error("cannot listen on the socket {}", .socket.display())]
    Control { socket: PathBuf, source: io::Error },
    #[error(
        "cannot give the socket {} to the group of [api], which takes CAP_CHOWN; leave [api] \
         group out to do without", .socket.display()
    )]
    Group { socket: PathBuf, source: io::Error },
}

/// The ports below it are privileged by default (net.ipv4.ip_unprivileged_port_start).
const FIRST_HIGH_PORT: u16 = 1024;

/// Clients that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Binds the address that a table of the configuration has. It must be called within a
/// tokio runtime.
pub fn bind_tcp(table: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bind().map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { table, address },
        io::ErrorKind::AddrNotAvailable => BindError::NotOurs { table, address },
        io::ErrorKind::PermissionDenied if address.port() < FIRST_HIGH_PORT => {
            BindError::LowPort { table, address, source }
        }
        _ => BindError::Tcp { table, address, source },
    })
}

/// Replaces the socket of a dead agent; the lock says that there is no live one.
/// It must be called within a tokio runtime.
pub fn bind_control(lock: &Lock) -> Result<UnixListener, BindError> {
    let (listener, private) = bind_unix(lock.socket(), None)?;
    let placed = fs::rename(&private, lock.socket());
    placed.map(|()| listener).map_err(|source| control(lock.socket(), source))
}

/// A socket before it is in its place.
pub struct Unplaced {
    group: Option<u32>,
    listener: Option<UnixListener>,
    private: PathBuf,
    socket: PathBuf,
}

/// Makes the socket that a group may open. It must be called within a tokio runtime.
pub fn bind_readers(lock: &Lock, group: u32) -> Result<Unplaced, BindError> {
    Unplaced::bind(lock::readers(lock.socket()), Some(group))
}

/// Makes the socket of the page, which a group may open, too, if one is named. It takes the place
/// of a dead agent's, and of the one that is this agent's own. It must be called within a tokio
/// runtime.
pub fn bind_page(socket: &Path, group: Option<u32>, is_own: bool) -> Result<Unplaced, BindError> {
    own_folder::guard(socket.parent().unwrap_or(Path::new("/")))?;
    match fs::symlink_metadata(socket) {
        Ok(found) if !found.file_type().is_socket() => {
            Err(BindError::NoSocket { socket: socket.to_owned() })
        }
        Ok(_) if !is_own && UnixStream::connect(socket).is_ok() => {
            Err(BindError::SocketInUse { socket: socket.to_owned() })
        }
        _ => Unplaced::bind(socket.to_owned(), group),
    }
}

impl Unplaced {
    fn bind(socket: PathBuf, group: Option<u32>) -> Result<Self, BindError> {
        let (listener, private) = bind_unix(&socket, group)?;
        Ok(Self { group, listener: Some(listener), private, socket })
    }

    /// Puts it where it is looked for, instead of the one before.
    pub fn put_in_place(mut self) -> UnixListener {
        let placed = fs::rename(&self.private, &self.socket);
        let is_shared = self.group.is_some() && self.socket.starts_with(lock::RUN_DIR);
        let placed = placed.and_then(|()| match is_shared {
            true => own_folder::let_pass(Path::new(lock::RUN_DIR)).map_err(io::Error::other),
            false => Ok(()),
        });
        if let Err(error) = placed {
            warn!("others cannot open {}: {error}", self.socket.display());
        }
        self.listener.take().expect("it is taken once")
    }
}

impl Drop for Unplaced {
    fn drop(&mut self) {
        if self.listener.is_some() {
            // Nobody has seen it.
            let _ = fs::remove_file(&self.private);
        }
    }
}

/// Binds a socket under another name, until only those who may can open it.
fn bind_unix(socket: &Path, group: Option<u32>) -> Result<(UnixListener, PathBuf), BindError> {
    let private = whole_file::unfinished(socket);
    let bind = || {
        whole_file::remove(&private)?;
        let listener = UnixListener::bind(&private)?;
        fs::set_permissions(&private, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    let bound = bind().map_err(|source| control(socket, source))?;
    if group.is_some() {
        let given = chown(&private, None, group)
            .and_then(|()| fs::set_permissions(&private, Permissions::from_mode(0o660)));
        given.map_err(|source| {
            // Nobody has seen it.
            let _ = fs::remove_file(&private);
            BindError::Group { socket: socket.to_owned(), source }
        })?;
    }
    Ok((bound, private))
}

fn control(socket: &Path, source: io::Error) -> BindError {
    BindError::Control { socket: socket.to_owned(), source }
}
