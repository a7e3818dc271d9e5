//! A peer that means harm, or somebody that is no peer: refused with the reason, counted, and
//! nothing of it is heard.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls};
use wad_policy::config::{Peer, Peers};

use super::{End, any, at, until, with};
use crate::{
    message::{EXCHANGE, MAX_BYTES},
    serve::MOST_AT_A_TIME as MOST,
    testing::{Authority, Host, Kind, believing, named},
};

/// One end that listens for a peer `b`, and whoever asks it.
pub struct Stage {
    pub authority: Authority,
    pub a: End,
}

impl Stage {
    pub fn new() -> Self {
        let authority = Authority::new();
        let host = authority.host(&Kind::of("a.example", &["192.0.2.0/24"]));
        let peer = Peer { every: Duration::from_secs(1), ..named("b", "b.example") };
        let settings = Peers { listen: any(), ..with(vec![peer]) };
        let a = End::start(&host, Some(&authority), settings);
        Self { authority, a }
    }

    pub fn address(&self) -> SocketAddr {
        self.a.address.unwrap()
    }

    /// A peer as it should be.
    pub fn good(&self) -> Host {
        self.authority.host(&kind())
    }
}

fn kind() -> Kind {
    Kind::of("b.example", &["198.51.100.0/24"])
}

/// Connects from an address, and says who it is.
pub async fn connect(
    from: [u8; 4],
    to: SocketAddr,
    host: Option<&Host>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(to).await?;
    let name = rustls::pki_types::ServerName::IpAddress(to.ip().into());
    TlsConnector::from(Arc::new(believing(host))).connect(name, stream).await
}

pub fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn statement() -> Json {
    json!({ "version": 1, "every_ms": 30_000, "prefixes": ["198.51.100.0/24"], "mtu_bytes": 1500 })
}

/// Sends bytes as a peer, and returns what comes back; None where nothing does.
pub async fn ask(stage: &Stage, host: &Host, request: &[u8]) -> Option<String> {
    let mut stream = connect([127, 0, 0, 1], stage.address(), Some(host)).await.ok()?;
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
}

async fn say(stage: &Stage, host: &Host, message: &Json) -> Option<String> {
    ask(stage, host, post(EXCHANGE, &message.to_string()).as_bytes()).await
}

#[tokio::test]
async fn certificates_that_are_wrong_in_any_way_get_no_answer() {
    let stage = Stage::new();
    let (own, other) = (&stage.authority, Authority::new());
    let uris =
        |uris: &[&str]| Kind { uris: uris.iter().map(|&uri| uri.to_owned()).collect(), ..kind() };
    for (host, reason) in [
        (Some(other.host(&kind())), "untrusted"),
        (Some(own.host(&Kind { days: -9..-1, ..kind() })), "expired"),
        (Some(own.host(&Kind { days: 1..9, ..kind() })), "not-yet-valid"),
        (Some(own.host(&Kind { signs_others: true, ..kind() })), "authority"),
        (Some(own.host(&Kind { for_servers_alone: true, ..kind() })), "purpose"),
        (Some(own.host(&uris(&["wad://b.example", "wad://c.example"]))), "several-identities"),
        (Some(own.host(&uris(&["https://b.example"]))), "no-identity"),
        (Some(own.host(&Kind::of("c.example", &[]))), "stranger"),
        (None, "no-certificate"),
    ] {
        let before = stage.a.refused(reason);
        if let Ok(mut stream) = connect([127, 0, 0, 1], stage.address(), host.as_ref()).await {
            let _ = stream.write_all(post(EXCHANGE, &statement().to_string()).as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.is_empty(), "{reason}: {answer:?}");
        }
        until(reason, || (stage.a.refused(reason) == before + 1).then_some(())).await;
    }
    assert!(stage.a.board.heard().is_empty());
    assert_eq!(stage.a.heard_count(), 0);
    // The one that is right is.
    assert!(say(&stage, &stage.good(), &statement()).await.unwrap().starts_with("HTTP/1.1 200 OK"));
    assert_eq!(stage.a.heard_count(), 1);
}

#[tokio::test]
async fn a_peer_that_says_what_cannot_be_is_refused_and_counted() {
    let stage = Stage::new();
    let host = stage.good();
    let with = |key: &str, value: Json| {
        let mut message = statement();
        message[key] = value;
        message
    };
    let rate = json!({ "value": 1e30, "age_ms": 0, "source": "measured" });
    for (message, status, reason) in [
        (with("nic_bits_per_second", json!(1e30)), 400, "out-of-range"),
        (with("sending", json!({ "bandwidth_bits_per_second": rate })), 400, "out-of-range"),
        (with("prefixes", json!(["203.0.113.0/24"])), 403, "prefix"),
        (with("prefixes", json!(["0.0.0.0/0"])), 403, "prefix"),
        (with("version", json!(2)), 400, "version"),
        (with("every_ms", json!("soon")), 400, "malformed"),
    ] {
        let before = stage.a.refused_peer(reason);
        let answer = say(&stage, &host, &message).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{reason}: {answer}");
        // No more is said to it than why.
        assert!(!answer.contains("mtu_bytes"), "{answer}");
        until(reason, || (stage.a.refused_peer(reason) == before + 1).then_some(())).await;
    }
    assert!(stage.a.board.heard().is_empty());
    assert!(stage.a.board.told().peers[0].failing.is_some());
}

#[tokio::test]
async fn requests_that_are_none_or_too_large_are_refused() {
    let stage = Stage::new();
    let host = stage.good();
    let long = json!({ "version": 1, "every_ms": 30_000, "more": "x".repeat(MAX_BYTES) });
    let endless =
        format!("POST {EXCHANGE} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            + &format!("{:x}\r\n{}\r\n", MAX_BYTES, "x".repeat(MAX_BYTES)).repeat(2);
    let head = format!("POST {EXCHANGE} HTTP/1.1\r\nx: {}", "y".repeat(64 << 10));
    for (request, status, reason) in [
        (post(EXCHANGE, &long.to_string()), "413", "too-large"),
        (endless, "413", "too-large"),
        (post("/v1/flows", "{}"), "404", "request"),
        (format!("GET {EXCHANGE} HTTP/1.1\r\nhost: a\r\n\r\n"), "404", "request"),
        (head, "4", "request"),
        ("garbage\r\n\r\n".to_owned(), "400", "request"),
    ] {
        let before = stage.a.refused_peer(reason);
        let answer = ask(&stage, &host, request.as_bytes()).await;
        // It may be cut off while it still sends.
        let is_refused = |answer: &String| answer.starts_with(&format!("HTTP/1.1 {status}"));
        assert!(answer.as_ref().is_none_or(is_refused), "{reason}: {answer:?}");
        until(reason, || (stage.a.refused_peer(reason) == before + 1).then_some(())).await;
    }
    assert!(stage.a.board.heard().is_empty());
}

#[tokio::test]
async fn a_peer_asks_little_at_a_time_and_not_too_often() {
    let stage = Stage::new();
    let host = stage.good();
    let mut held = Vec::new();
    for _ in 0..MOST {
        held.push(connect([127, 0, 0, 1], stage.address(), Some(&host)).await.unwrap());
    }
    let answer = until_answered(&stage, &host, "429").await;
    assert!(answer.contains("it asks too much at a time"), "{answer}");
    until("it is counted", || (stage.a.refused_peer("busy") > 0).then_some(())).await;
    drop(held);
    let answer = until_answered(&stage, &host, "200").await;
    assert!(answer.contains("\"mtu_bytes\":9000"), "{answer}");
    for _ in 0..40 {
        say(&stage, &host, &statement()).await;
    }
    until("it is counted", || (stage.a.refused_peer("too-often") > 0).then_some(())).await;
}

async fn until_answered(stage: &Stage, host: &Host, status: &str) -> String {
    for _ in 0..100 {
        let answer = say(stage, host, &statement()).await.unwrap_or_default();
        if answer.starts_with(&format!("HTTP/1.1 {status}")) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never {status}")
}

#[tokio::test]
async fn whoever_is_slow_is_cut_off_and_holds_up_nobody() {
    let stage = Stage::new();
    let host = stage.good();
    let silent = TcpStream::connect(stage.address()).await.unwrap();
    let other = stage.authority.host(&Kind::of("b.example", &["198.51.100.0/24"]));
    let half_request = &post(EXCHANGE, &statement().to_string())[..80];
    let mut halves = Vec::new();
    for _ in 0..MOST {
        let mut half = connect([127, 0, 0, 1], stage.address(), Some(&other)).await.unwrap();
        half.write_all(half_request.as_bytes()).await.unwrap();
        half.flush().await.unwrap();
        halves.push(half);
    }
    // They are in, so this end of the same peer is not; strangers' silence is nobody's business.
    assert_eq!(say(&stage, &host, &statement()).await.unwrap().get(9..12), Some("429"));
    until("the silent one is cut off", || (stage.a.refused("slow") > 0).then_some(())).await;
    until("the slow one is cut off", || (stage.a.refused_peer("slow") > 0).then_some(())).await;
    until_answered(&stage, &host, "200").await;
    drop((silent, halves));
}

/// Hands bytes on in both directions, and remembers those to the server.
fn recording(to: SocketAddr, listener: TcpListener) -> JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(to).await.unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        let back = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        });
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
        while let Ok(bytes @ 1..) = from_client.read(&mut buffer).await {
            sent.extend_from_slice(&buffer[..bytes]);
            if to_server.write_all(&buffer[..bytes]).await.is_err() {
                break;
            }
        }
        back.abort();
        sent
    })
}

#[tokio::test]
async fn bytes_that_are_sent_again_say_nothing() {
    let stage = Stage::new();
    let host = stage.good();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let middle = listener.local_addr().unwrap();
    let recorded = recording(stage.address(), listener);
    let mut stream = connect([127, 0, 0, 1], middle, Some(&host)).await.unwrap();
    stream.write_all(post(EXCHANGE, &statement().to_string()).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    drop(stream);
    let sent = recorded.await.unwrap();
    assert!(sent.len() > 500, "{} bytes", sent.len());
    let heard = stage.a.heard_count();
    assert_eq!(heard, 1);
    for _ in 0..3 {
        let before = stage.a.refused("tls");
        let mut again = TcpStream::connect(stage.address()).await.unwrap();
        let _ = again.write_all(&sent).await;
        let mut answer = Vec::new();
        let _ = again.read_to_end(&mut answer).await;
        until("no TLS", || (stage.a.refused("tls") > before).then_some(())).await;
    }
    assert_eq!(stage.a.heard_count(), heard);
}

#[tokio::test]
async fn a_session_is_not_taken_up_again_and_nothing_is_sent_before_its_end() {
    let stage = Stage::new();
    let host = stage.good();
    // A client that would: it keeps what it gets, for the next connection.
    let mut client = believing(Some(&host));
    client.enable_early_data = true;
    let client = Arc::new(client);
    for _ in 0..2 {
        let stream = TcpStream::connect(stage.address()).await.unwrap();
        let name = rustls::pki_types::ServerName::IpAddress(stage.address().ip().into());
        let connector = TlsConnector::from(Arc::clone(&client));
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(post(EXCHANGE, &statement().to_string()).as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let (_, connection) = stream.get_ref();
        assert!(!connection.is_early_data_accepted());
        assert_eq!(connection.tls13_tickets_received(), 0);
        assert_eq!(connection.handshake_kind(), Some(rustls::HandshakeKind::Full));
        assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    }
}

#[tokio::test]
async fn an_answerer_that_means_harm_is_not_heard() {
    let (authority, other) = (Authority::new(), Authority::new());
    let host = other.host(&Kind::of("a.example", &["192.0.2.0/24"]));
    // It has the right name, of an authority that nobody here trusts.
    let listening = Peers { listen: any(), ..with(vec![named("b", "b.example")]) };
    let false_a = End::start(&host, Some(&other), listening);
    let b = authority.host(&Kind::of("b.example", &["198.51.100.0/24"]));
    let asked = Peer { address: at(&false_a), ..named("a", "a.example") };
    let b = End::start(&b, Some(&authority), with(vec![asked]));
    until("it is not trusted", || (b.refused_peer("untrusted") > 0).then_some(())).await;
    assert!(b.board.heard().is_empty() && false_a.board.heard().is_empty());
}
