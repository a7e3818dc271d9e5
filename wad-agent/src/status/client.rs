//! Asking a running agent: one HTTP request over its Unix socket.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response,
    body::Bytes,
    client::conn::http1,
    header::{ACCEPT, HOST},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
    time::timeout,
};

/// What a busy agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no agent runs as instance \"{instance}\" (nothing answers at {}): start one with `wad \
         run`, or name another --instance",
        .socket.display()
    )]
    NotRunning { instance: String, socket: PathBuf },
    #[error("only root may speak to the agent at {}", .socket.display())]
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

/// The agent's answer to a path of its API.
pub async fn ask<T: DeserializeOwned>(
    socket: &Path,
    instance: &str,
    path: &str,
) -> Result<T, Error> {
    let at = || socket.to_owned();
    let stream = UnixStream::connect(socket).await.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Error::NotRunning { instance: instance.to_owned(), socket: at() }
        }
        io::ErrorKind::PermissionDenied => Error::Denied { socket: at() },
        _ => Error::Connect { socket: at(), source },
    })?;
    let answer = timeout(PATIENCE, get(stream, path, "application/json")).await;
    let answer = answer
        .map_err(|_| Error::Silent { socket: at() })?
        .map_err(|source| Error::Http { socket: at(), source })?;
    let status = answer.status();
    if !status.is_success() {
        let reason = String::from_utf8_lossy(answer.body()).trim().to_owned();
        return Err(Error::Refused { socket: at(), status: status.as_u16(), reason });
    }
    serde_json::from_slice(answer.body())
        .map_err(|source| Error::Unreadable { socket: at(), source })
}

/// One request, one answer, whole.
pub async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    accept: &str,
) -> Result<Response<Bytes>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path)
        .header(HOST, "wad")
        .header(ACCEPT, accept)
        .body(Empty::<Bytes>::new())
        .expect("paths and types are constants of this program");
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
