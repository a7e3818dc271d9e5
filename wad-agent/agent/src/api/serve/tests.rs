//! Clients that are silent, that dribble, and that take no answer, beside one that asks
//! as it should.

use std::{net::SocketAddr, time::Instant};

use axum::routing::get;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

use super::*;
use crate::client;

const SOON: Duration = Duration::from_secs(1);
/// More than the kernel's buffers take of an answer.
const LARGE_BYTES: usize = 32 << 20;

async fn start() -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/", get(|| async { "well" }))
        .route("/large", get(|| async { "x".repeat(LARGE_BYTES) }));
    let (stop, stopped) = watch::channel(false);
    (address, stop, tokio::spawn(serve(listener, router, stopped)))
}

/// Says what is answered to the last one, and how soon.
async fn ask(address: SocketAddr) -> (String, Duration) {
    let begun = Instant::now();
    let stream = TcpStream::connect(address).await.unwrap();
    let answer = client::send(stream, &client::Request::get("/"), "").await.unwrap();
    (String::from_utf8(answer.body().to_vec()).unwrap(), begun.elapsed())
}

async fn say(address: SocketAddr, words: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(words.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn those_who_keep_silent_or_take_no_answer_starve_nobody() {
    for words in ["", "GET / HT", "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let (address, _stop, _) = start().await;
        let mut slow = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            slow.push(say(address, words).await);
        }
        for _ in 0..10 {
            let (answer, took) = ask(address).await;
            assert!(answer == "well" && took < SOON, "{words:?}: {answer} after {took:?}");
        }
    }
}

#[tokio::test]
async fn one_who_takes_the_answer_gets_all_of_it_beside_silent_ones() {
    let (address, _stop, _) = start().await;
    let mut taker = TcpStream::connect(address).await.unwrap();
    taker.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut silent = Vec::new();
    let mut taken = 0;
    let mut block = vec![0; 1 << 20];
    loop {
        let read = taker.read(&mut block).await.unwrap();
        if read == 0 {
            break;
        }
        taken += read;
        if silent.len() < 2 * CONNECTIONS {
            silent.push(say(address, "").await);
        }
    }
    assert!(taken > LARGE_BYTES, "{taken}");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let (address, _stop, _) = start().await;
    let begun = Instant::now();
    let mut stream = say(address, "GET / HTTP/1.1\r\n").await;
    let ended = timeout(HEAD_TIME + SOON, stream.read(&mut [0; 1])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    assert!(begun.elapsed() + SOON > HEAD_TIME);
}

#[tokio::test]
async fn a_name_of_others_is_refused() {
    let (address, _stop, _) = start().await;
    let mut stream = say(address, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 ") && answer.contains("localhost"), "{answer}");
}
