//! A stream of bytes to a server or a proxy.

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use wad_toolbox::url::Url;

use crate::{connect, error::HttpError, names};

/// A stream, whatever is below it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to a URL's host.
pub async fn to(url: &Url) -> Result<TcpStream, HttpError> {
    let resolve = |source| HttpError::Resolve { host: url.host.clone(), source };
    let addresses = names::addresses(&url.host, url.port).await.map_err(resolve)?;
    let connected = connect::connect(addresses).await;
    connected.map_err(|source| HttpError::Connect { authority: url.authority(), source })
}
