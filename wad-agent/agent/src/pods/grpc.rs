//! As much of gRPC as a call takes that a server answers with many messages: one request
//! without content by HTTP/2, over a Unix socket (`doc/PROTOCOL-HTTP2.md` of grpc).

use std::{io, path::Path};

use h2::{RecvStream, client::Builder};
use hyper::{
    HeaderMap, Request, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, TE, USER_AGENT},
};
use tokio::{net::UnixStream, task::JoinSet};
use wad_http::shown;

/// Most bytes of a message, which may have all pods of a node: a hundred kilobytes for each of
/// some hundred.
const MOST_MESSAGE_BYTES: usize = 32 << 20;
/// Bytes that a server may send ahead.
const WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of an answer's heads.
const MOST_HEAD_BYTES: u32 = 16 << 10;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// A message without content.
const EMPTY: Bytes = Bytes::from_static(&[0; PREFIX_BYTES]);

/// A server knows no such call (`codes.Unimplemented` of gRPC).
pub const UNIMPLEMENTED: u32 = 12;

/// Says why there are no messages, or no more.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("the connection broke off")]
    Broken(#[from] h2::Error),
    #[error("the answer is not of gRPC: {status}")]
    Head { status: StatusCode },
    #[error("it ends with gRPC status {code}: {message}")]
    Status { code: u32, message: String },
    #[error("it has ended")]
    Ended,
    #[error("a message is compressed, which was not asked for")]
    Compressed,
    #[error("a message has {bytes} bytes, more than {MOST_MESSAGE_BYTES}")]
    TooLarge { bytes: usize },
}

/// The messages of an answer.
pub struct Messages {
    body: RecvStream,
    buffer: Buffer,
    /// Ends with it.
    _connection: JoinSet<()>,
}

impl Messages {
    /// Calls a method, as `/package.Service/Method`.
    pub async fn of(socket: &Path, method: &str) -> Result<Self, GrpcError> {
        let stream = UnixStream::connect(socket).await.map_err(GrpcError::Connect)?;
        let (requests, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(MOST_HEAD_BYTES)
            .handshake(stream)
            .await?;
        let mut task = JoinSet::new();
        // What ends it ends the messages as well, which tell of it.
        task.spawn(async move {
            let _ = connection.await;
        });
        let request = Request::post(format!("http://localhost{method}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header(USER_AGENT, concat!("wad/", env!("CARGO_PKG_VERSION")))
            .body(())
            .expect("the name of a method fits into a URL");
        let (answer, mut sending) = requests.ready().await?.send_request(request, false)?;
        sending.send_data(EMPTY, true)?;
        let (head, body) = answer.await?.into_parts();
        let kind = head.headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        if head.status != StatusCode::OK || !kind.starts_with(b"application/grpc") {
            return Err(GrpcError::Head { status: head.status });
        }
        if head.headers.contains_key("grpc-status") {
            return Err(end(&head.headers));
        }
        Ok(Self { body, buffer: Buffer::default(), _connection: task })
    }

    /// Waits for the next message.
    pub async fn next(&mut self) -> Result<Bytes, GrpcError> {
        loop {
            if let Some(message) = self.buffer.take()? {
                return Ok(message);
            }
            let Some(data) = self.body.data().await else {
                let trailers = self.body.trailers().await?;
                return Err(trailers.as_ref().map_or(GrpcError::Ended, end));
            };
            let data = data?;
            self.body.flow_control().release_capacity(data.len())?;
            self.buffer.0.extend_from_slice(&data);
        }
    }
}

/// Bytes of messages, the last of which may not be whole.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl Buffer {
    /// Takes the first message out, if it is whole.
    fn take(&mut self) -> Result<Option<Bytes>, GrpcError> {
        let Some((prefix, rest)) = self.0.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            return Err(GrpcError::Compressed);
        }
        let bytes = u32::from_be_bytes(length) as usize;
        if bytes > MOST_MESSAGE_BYTES {
            return Err(GrpcError::TooLarge { bytes });
        }
        let Some(message) = rest.get(..bytes).map(Bytes::copy_from_slice) else {
            return Ok(None);
        };
        self.0.drain(..PREFIX_BYTES + bytes);
        Ok(Some(message))
    }
}

/// Reads what a call ends with.
fn end(headers: &HeaderMap) -> GrpcError {
    let text = |name| {
        let value = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        String::from_utf8_lossy(value).into_owned()
    };
    match text("grpc-status").parse() {
        Ok(0) => GrpcError::Ended,
        Ok(code) => GrpcError::Status { code, message: shown(&text("grpc-message")) },
        Err(_) => GrpcError::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0], &length[..], message].concat()
    }

    #[test]
    fn messages_are_whole_however_they_are_cut() {
        let messages: [&[u8]; 4] = [b"one", b"", &[7; 1000], b"four"];
        let all: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
        for length in [1, 2, 4, 5, 6, 100, all.len()] {
            let (mut buffer, mut taken) = (Buffer::default(), Vec::new());
            for part in all.chunks(length) {
                buffer.0.extend_from_slice(part);
                while let Some(message) = buffer.take().unwrap() {
                    taken.push(message);
                }
            }
            assert_eq!(taken, messages, "{length}");
            assert!(buffer.0.is_empty());
        }
    }

    #[test]
    fn what_is_too_large_or_compressed_is_refused_at_once() {
        let taken = |bytes: &[u8]| Buffer(bytes.to_vec()).take();
        assert!(matches!(taken(&[1, 0, 0, 0, 0]), Err(GrpcError::Compressed)));
        let (most, more) = (0x200_0000_u32.to_be_bytes(), 0x200_0001_u32.to_be_bytes());
        assert!(matches!(taken(&[&[0], &most[..]].concat()), Ok(None)));
        let error = taken(&[&[0], &more[..]].concat()).unwrap_err();
        assert!(matches!(error, GrpcError::TooLarge { bytes: 33_554_433 }), "{error}");
    }

    #[test]
    fn an_end_says_why() {
        let ended = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (name.parse().unwrap(), hyper::header::HeaderValue::from_static(value))
            });
            end(&pairs.collect()).to_string()
        };
        let refused = [("grpc-status", "9"), ("grpc-message", "Kubelet is initializing")];
        assert_eq!(ended(&refused), "it ends with gRPC status 9: Kubelet is initializing");
        assert_eq!(ended(&[("grpc-status", "0")]), "it has ended");
        assert_eq!(ended(&[("grpc-status", "x")]), "it has ended");
        assert_eq!(ended(&[]), "it has ended");
    }
}
