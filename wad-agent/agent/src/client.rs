//! Asking a running agent: one HTTP request over its Unix socket.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Response,
    body::Bytes,
    client::conn::http1,
    header::{ACCEPT, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
    time::timeout,
};
use wad_linux::lock;
use wad_tuning::instance::Instance;

const JSON: &str = "application/json";

/// Holds what is asked of the agent.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// The path, with what follows a `?`, if anything does.
    pub path: String,
    /// JSON, or empty.
    pub body: Bytes,
    /// Time that a busy agent may take to answer.
    pub patience: Duration,
}

impl Request {
    /// Makes a request for what is only looked up.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        let patience = Duration::from_secs(10);
        Self { method: Method::GET, path: path.into(), body: Bytes::new(), patience }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "no agent runs as instance \"{instance}\" (nothing answers at {}): start one with `wad \
         run`, or name another --instance",
        .socket.display()
    )]
    NotRunning { instance: String, socket: PathBuf },
    #[error(
        "only root may speak to the agent at {}, and the group of [api] group ask it what there is",
        .socket.display()
    )]
    Denied { socket: PathBuf },
    #[error("cannot speak to the agent at {}", .socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("the agent at {} broke off", .socket.display())]
    Http { socket: PathBuf, source: hyper::Error },
    #[error("the agent at {} does not answer; its log may say why", .socket.display())]
    Silent { socket: PathBuf },
    #[error("the agent at {} cannot say ({status}): {reason}", .socket.display())]
    Refused { socket: PathBuf, status: u16, reason: String },
    #[error(
        "the agent at {} answers in another form; is it of another version?",
        .socket.display()
    )]
    Unreadable { socket: PathBuf, source: serde_json::Error },
}

/// Asks the agent of an instance, from a program that does nothing else meanwhile.
pub fn ask_instance<T: DeserializeOwned>(
    instance: &Instance,
    request: &Request,
) -> anyhow::Result<T> {
    ask_at(None, instance, request)
}

/// Asks who is at a socket, or, where none is named, the agent of an instance.
pub fn ask_at<T: DeserializeOwned>(
    socket: Option<&Path>,
    instance: &Instance,
    request: &Request,
) -> anyhow::Result<T> {
    let of_agent = || lock::socket(Path::new(lock::RUN_DIR), instance.name());
    let socket = socket.map_or_else(of_agent, Path::to_owned);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(ask(&socket, instance.name(), request))?)
}

pub async fn ask<T: DeserializeOwned>(
    socket: &Path,
    instance: &str,
    request: &Request,
) -> Result<T, ClientError> {
    let at = || socket.to_owned();
    let stream = connect(socket, request).await.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClientError::NotRunning { instance: instance.to_owned(), socket: at() }
        }
        io::ErrorKind::PermissionDenied => ClientError::Denied { socket: at() },
        _ => ClientError::Connect { socket: at(), source },
    })?;
    let answer = timeout(request.patience, send(stream, request, JSON)).await;
    let answer = answer
        .map_err(|_| ClientError::Silent { socket: at() })?
        .map_err(|source| ClientError::Http { socket: at(), source })?;
    let status = answer.status();
    if !status.is_success() {
        let reason = String::from_utf8_lossy(answer.body()).trim().to_owned();
        return Err(ClientError::Refused { socket: at(), status: status.as_u16(), reason });
    }
    serde_json::from_slice(answer.body())
        .map_err(|source| ClientError::Unreadable { socket: at(), source })
}

/// Whether the agent that listens there is in this process' PID namespace or one within, as
/// one in the same container is: the kernel has no number for a process elsewhere.
pub async fn is_near(socket: &Path) -> io::Result<bool> {
    let stream = UnixStream::connect(socket).await?;
    Ok(stream.peer_cred()?.pid().is_some_and(|pid| pid != 0))
}

/// Connects to the agent. Who may not change anything asks where a group may.
async fn connect(socket: &Path, request: &Request) -> io::Result<UnixStream> {
    match UnixStream::connect(socket).await {
        Err(denied)
            if denied.kind() == io::ErrorKind::PermissionDenied
                && request.method == Method::GET =>
        {
            UnixStream::connect(lock::readers(socket)).await.map_err(|_| denied)
        }
        connected => connected,
    }
}

/// Sends one request, and returns its answer, whole.
pub async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &Request,
    accept: &str,
) -> Result<Response<Bytes>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = hyper::Request::builder()
        .method(&request.method)
        .uri(&request.path)
        .header(HOST, "localhost")
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, JSON)
        .body(Full::new(request.body.clone()))
        .expect("paths and types are made by this program");
    let answer = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    };
    tokio::pin!(connection);
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        // The connection may be done while the answer still has to be taken.
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error),
        }
    }
}
