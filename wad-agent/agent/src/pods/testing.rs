//! A kubelet and an API server on this host, which say what a test has them say.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use h2::{RecvStream, SendStream, server::SendResponse};
use hyper::{HeaderMap, Request, Response, body::Bytes, header::HeaderValue};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixListener},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
    server::TlsStream,
};

/// Whatever is waited for comes within this time.
pub const SOON: Duration = Duration::from_secs(20);

/// A server by gRPC over a Unix socket. It ends with its connections when dropped; the socket
/// stays.
pub struct Kubelet {
    calls: mpsc::Receiver<Call>,
    task: JoinHandle<()>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A call that waits for its answer.
pub struct Call {
    pub request: Request<RecvStream>,
    pub respond: SendResponse<Bytes>,
}

impl Kubelet {
    pub fn start(socket: &Path) -> Self {
        // As kubelets do with what another has left.
        let _ = fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (sender, calls) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                serving.spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let _ = sender.send(Call { request, respond }).await;
                    }
                });
            }
        });
        Self { calls, task }
    }

    pub async fn call(&mut self) -> Call {
        timeout(SOON, self.calls.recv()).await.expect("a call").unwrap()
    }

    /// Answers the next call, which is for a watch, by messages.
    pub async fn watch(&mut self) -> Messages {
        self.answer("/v1alpha1.Pods/WatchPods").await
    }

    /// Answers the next call, which is for a list, by messages.
    pub async fn list(&mut self) -> Messages {
        self.answer("/v1alpha1.Pods/ListPods").await
    }

    async fn answer(&mut self, method: &str) -> Messages {
        let Call { request, mut respond } = self.call().await;
        assert_eq!(request.uri().path(), method);
        let kind = &request.headers()["content-type"];
        assert_eq!(kind, "application/grpc");
        let mut body = request.into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), &[0; 5][..]);
        let head = Response::builder().header("content-type", "application/grpc").body(());
        Messages(respond.send_response(head.unwrap(), false).unwrap())
    }
}

/// Sends messages; the call is reset when it is dropped.
pub struct Messages(SendStream<Bytes>);

impl Messages {
    pub fn send(&mut self, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        self.send_raw([&[0], &length[..], message].concat());
    }

    pub fn send_raw(&mut self, bytes: Vec<u8>) {
        self.0.send_data(bytes.into(), false).unwrap();
    }

    pub fn end(mut self, status: &'static str, message: &'static str) {
        self.0.send_trailers(status_headers(status, message)).unwrap();
    }
}

pub fn status_headers(status: &'static str, message: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", HeaderValue::from_static(status));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    headers
}

/// The folder of what tests read.
pub const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pods/testdata");

/// A server by HTTPS on 127.0.0.1, by the certificate of the testdata.
pub struct ApiServer {
    pub port: u16,
    asked: mpsc::Receiver<Asked>,
    task: JoinHandle<()>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request that waits for its answer.
pub struct Asked {
    pub head: String,
    stream: TlsStream<TcpStream>,
}

impl ApiServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = acceptor();
        let (sender, asked) = mpsc::channel(8);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Whoever has left meanwhile asks nothing.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let Ok(asked) = Asked::read(stream).await else { continue };
                let _ = sender.send(asked).await;
            }
        });
        Self { port, asked, task }
    }

    pub async fn asked(&mut self) -> Asked {
        timeout(SOON, self.asked.recv()).await.expect("a request").unwrap()
    }
}

fn acceptor() -> TlsAcceptor {
    let pem = |name: &str| fs::read(Path::new(TESTDATA).join(name)).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&pem("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

impl Asked {
    async fn read(mut stream: TlsStream<TcpStream>) -> io::Result<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        Ok(Self { head: String::from_utf8(head).unwrap(), stream })
    }

    /// Returns a parameter of its query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let path = self.head.split(' ').nth(1).unwrap();
        let query = path.strip_prefix("/api/v1/pods?").unwrap();
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    pub async fn answer(mut self, status: &str, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        self.stream.write_all(answer.as_bytes()).await.unwrap();
        self.stream.shutdown().await.unwrap();
    }

    /// Begins a watch.
    pub async fn watch(self) -> Lines {
        assert_eq!(self.parameter("watch"), Some("1"), "{}", self.head);
        let mut lines = Lines(self.stream);
        lines.raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        lines
    }
}

/// Sends lines in chunks; they break off when it is dropped.
pub struct Lines(TlsStream<TcpStream>);

impl Lines {
    pub async fn send(&mut self, line: &str) {
        self.chunk(&format!("{line}\n")).await;
    }

    pub async fn chunk(&mut self, part: &str) {
        self.raw(&format!("{:x}\r\n{part}\r\n", part.len())).await;
    }

    pub async fn raw(&mut self, text: &str) {
        // Who has left hears no more of it.
        if self.0.write_all(text.as_bytes()).await.is_ok() {
            let _ = self.0.flush().await;
        }
    }

    /// Ends as a server does when its time is over.
    pub async fn end(mut self) {
        self.raw("0\r\n\r\n").await;
        let _ = self.0.shutdown().await;
    }

    /// Waits until the other end has left.
    pub async fn until_left(mut self) {
        let read = timeout(SOON, self.0.read(&mut [0])).await.expect("an end");
        assert_eq!(read.unwrap_or(0), 0);
    }
}
