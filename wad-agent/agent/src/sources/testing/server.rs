//! A server on loopback that answers as a test has it.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

/// A script says what the server does with a connection, by the head of the request.
pub type Script = fn(&str) -> Reply;

pub enum Reply {
    /// Status line's end, type and body.
    Whole(&'static str, &'static str, String),
    /// These bytes as they are, then the end.
    Raw(Vec<u8>),
    /// A body of so many bytes, as fast as they are taken.
    Endless(u64),
    /// A byte every now and then.
    Drip,
    /// Nothing.
    Silence,
}

pub struct Server {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            // Each by itself: who gets no answer keeps nobody from theirs.
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // Whoever is asked badly goes away.
                serving.spawn(serve(stream, script));
            }
        });
        Self { address, task }
    }
}

async fn serve(mut stream: TcpStream, script: Script) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    match script(&String::from_utf8_lossy(&head)) {
        Reply::Whole(status, kind, body) => {
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n");
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await
        }
        Reply::Raw(bytes) => stream.write_all(&bytes).await,
        Reply::Endless(bytes) => {
            stream.write_all(chunked).await?;
            let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
            for _ in 0..bytes / 0x10000 {
                stream.write_all(&chunk).await?;
            }
            Ok(())
        }
        Reply::Drip => {
            stream.write_all(chunked).await?;
            loop {
                stream.write_all(b"1\r\n \r\n").await?;
                sleep(Duration::from_millis(20)).await;
            }
        }
        Reply::Silence => {
            sleep(Duration::from_secs(60)).await;
            Ok(())
        }
    }
}

pub fn json(body: &str) -> Reply {
    Reply::Whole("200 OK", "application/json", body.to_owned())
}
