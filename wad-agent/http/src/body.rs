//! A body as it comes, with the connection that it comes by.

use std::future::pending;

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request,
    body::{Body as _, Bytes, Incoming},
    client::conn::http1::{Builder, Connection, SendRequest},
    http::response::Parts,
};
use hyper_util::rt::TokioIo;

use crate::{
    MAX_HEAD_BYTES, Result,
    error::{HttpError, broken},
    stream::Stream,
};

type ToServer = Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

/// A body of which one part comes after the other, for as long as its server sends any.
pub struct Body {
    incoming: Incoming,
    /// None when it is done, while parts may still have to be taken.
    connection: Option<ToServer>,
    /// Nothing is sent by it again; but the connection would end with it.
    _sender: SendRequest<Full<Bytes>>,
}

impl Body {
    /// Sends a request by a connection of its own, and waits for the head of its answer.
    pub async fn open(
        stream: Box<dyn Stream>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Parts, Self)> {
        let (mut sender, mut connection) = Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let answer = sender.send_request(request);
        tokio::pin!(answer);
        let (answer, connection) = tokio::select! {
            answer = &mut answer => (answer, Some(connection)),
            // The connection may be done while the answer still has to be taken.
            ended = &mut connection => {
                ended.map_err(broken)?;
                (answer.await, None)
            }
        };
        let (head, incoming) = answer.map_err(broken)?.into_parts();
        Ok((head, Self { incoming, connection, _sender: sender }))
    }

    /// Waits for the next part; there is none after the end. A part is not lost if nobody
    /// waits any more.
    pub async fn part(&mut self) -> Result<Option<Bytes>> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = self.incoming.frame() => frame,
                ended = done(&mut self.connection) => {
                    self.connection = None;
                    ended.map_err(broken)?;
                    continue;
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            if let Ok(data) = frame.map_err(broken)?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Waits for all of it, of so many bytes at most.
    pub async fn whole(mut self, most_bytes: usize) -> Result<Bytes> {
        let too_large = HttpError::TooLarge { most: most_bytes };
        if self.incoming.size_hint().lower() > most_bytes as u64 {
            return Err(too_large);
        }
        let mut bytes = Vec::new();
        while let Some(data) = self.part().await? {
            if bytes.len() + data.len() > most_bytes {
                return Err(too_large);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    }
}

/// Waits until a connection is done; for ever where it is already.
async fn done(connection: &mut Option<ToServer>) -> hyper::Result<()> {
    match connection {
        Some(connection) => connection.await,
        None => pending().await,
    }
}
