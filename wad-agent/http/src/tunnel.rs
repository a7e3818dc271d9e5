//! A tunnel through a proxy (`CONNECT`, RFC 9110 section 9.3.6), which cannot read what
//! goes through it.

use http_body_util::Empty;
use hyper::{Method, Request, body::Bytes, client::conn::http1, header::HOST, upgrade};
use hyper_util::rt::TokioIo;
use wad_toolbox::url::Url;

use crate::{
    MAX_HEAD_BYTES,
    error::{HttpError, broken},
    stream::Stream,
};

/// Has a proxy at the other end connect to a URL's host.
pub async fn through(
    proxy: &Url,
    stream: Box<dyn Stream>,
    to: &Url,
) -> Result<Box<dyn Stream>, HttpError> {
    // The port is said even where it is the usual one.
    let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
    let target = format!("{host}:{}", to.port);
    let request = Request::builder().method(Method::CONNECT).uri(&target).header(HOST, &target);
    let request = request.body(Empty::<Bytes>::new()).map_err(broken)?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let asked = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        if !status.is_success() {
            let (proxy, authority) = (proxy.authority(), to.authority());
            return Err(HttpError::Tunnel { proxy, authority, status: status.as_u16() });
        }
        upgrade::on(answer).await.map_err(broken)
    };
    let connection = connection.with_upgrades();
    tokio::pin!(connection);
    tokio::pin!(asked);
    let tunnel = tokio::select! {
        tunnel = &mut asked => tunnel?,
        ended = &mut connection => {
            ended.map_err(broken)?;
            asked.await?
        }
    };
    Ok(Box::new(TokioIo::new(tunnel)))
}
