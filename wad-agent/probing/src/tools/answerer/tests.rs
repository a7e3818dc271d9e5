use std::{io::ErrorKind, num::NonZeroU16, time::Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream, UdpSocket},
    task::JoinHandle,
    time::timeout,
};

use super::*;
use crate::{
    measurement::{Confidence, Share},
    row::Ending,
    tools::{
        self, Echo, Rtt, Target, Tool, ToolError, Transfer,
        message::{self, BYTES, Hello, Message},
    },
};

const LOOPBACK: &[&str] = &["127.0.0.0/8", "::1/128"];

fn terms(allowed: &[&str]) -> Terms {
    let allowed = allowed.iter().map(|prefix| prefix.parse().unwrap()).collect();
    Terms { allowed, transfers: 1, bytes: 1000, time: Duration::from_secs(5) }
}

fn start(address: &str, terms: Terms) -> (SocketAddr, JoinHandle<Result<(), AnswererError>>) {
    let answerer = Answerer::bind(address.parse().unwrap(), terms).unwrap();
    let address = answerer.address();
    (address, tokio::spawn(answerer.serve()))
}

fn target(address: SocketAddr) -> Target {
    Target {
        host: address.ip().to_string(),
        address: address.ip(),
        interface: None,
        mark: None,
        deadline: Duration::from_secs(10),
        max_bytes: 1_000_000,
    }
}

fn rtt(by: Echo, count: u16) -> Tool {
    let count = NonZeroU16::new(count).unwrap();
    let (interval, wait) = (Duration::from_millis(1), Duration::from_millis(200));
    Tool::Rtt(Rtt { by, count, interval, payload_bytes: 100, wait })
}

#[tokio::test]
async fn echoes_come_back_over_both() {
    for at in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let (address, served) = start(at, terms(LOOPBACK));
        let port = address.port();
        let to = match address.ip().is_unspecified() {
            true => target(SocketAddr::new([127, 0, 0, 1].into(), port)),
            false => target(address),
        };
        let found = tools::run(&rtt(Echo::Udp { port }, 20), &to).await.unwrap();
        assert_eq!(found.loss, Some(Share { part: 0, whole: 20 }), "{at}");
        assert_eq!(found.reordering, Some(Share { part: 0, whole: 20 }), "{at}");
        let headers = if to.address.is_ipv6() { 48 } else { 28 };
        assert_eq!(found.spent_bytes, 20 * (100 + headers) + 20 * (32 + headers), "{at}");
        let times = found.rtt.unwrap();
        assert!(times.samples == 20 && times.max_seconds < 1.0, "{times:?}");
        let found = tools::run(&rtt(Echo::Tcp { port }, 5), &to).await.unwrap();
        assert_eq!((found.rtt.unwrap().samples, found.loss), (5, None), "{at}");
        assert!((640..2000).contains(&found.spent_bytes), "{found:?}");
        served.abort();
    }
}

#[tokio::test]
async fn who_may_not_hears_nothing_or_why() {
    let (address, _served) = start("127.0.0.1:0", terms(&["192.0.2.0/24"]));
    let port = address.port();
    let silent = tools::run(&rtt(Echo::Udp { port }, 3), &target(address)).await.unwrap_err();
    assert!(matches!(silent, ToolError::Silent { .. }), "{silent}");
    let refused = tools::run(&rtt(Echo::Tcp { port }, 3), &target(address)).await.unwrap_err();
    let Ending::Refused(why) = refused.ending() else { panic!("{refused}") };
    assert!(why.contains("answer_to"), "{why}");
}

#[tokio::test]
async fn strangers_take_no_place_of_those_who_may() {
    let (address, _served) = start("127.0.0.1:0", terms(&["127.0.0.1/32"]));
    let mut silent = Vec::new();
    for _ in 0..2 * sessions::MOST_WAITING {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        silent.push(socket.connect(address).await.unwrap());
    }
    let port = address.port();
    let within = Duration::from_secs(3);
    let echo = rtt(Echo::Tcp { port }, 3);
    let found = timeout(within, tools::run(&echo, &target(address))).await;
    assert_eq!(found.expect("they wait for five seconds").unwrap().rtt.unwrap().samples, 3);
}

#[tokio::test]
async fn a_port_that_nobody_has_is_told() {
    let (address, served) = start("127.0.0.1:0", terms(LOOPBACK));
    served.abort();
    let _aborted = served.await;
    let port = address.port();
    let silent = tools::run(&rtt(Echo::Udp { port }, 3), &target(address)).await.unwrap_err();
    let Ending::Failed(why) = silent.ending() else { panic!("{silent}") };
    assert!(why.contains("none of 3") && why.contains("refused"), "{why}");
    let failed = tools::run(&rtt(Echo::Tcp { port }, 3), &target(address)).await.unwrap_err();
    assert!(matches!(failed, ToolError::Connect { .. }), "{failed}");
}

#[tokio::test]
async fn what_a_task_does_not_allow_is_not_sent() {
    let (address, _served) = start("127.0.0.1:0", terms(LOOPBACK));
    let to = Target { max_bytes: 1_800, ..target(address) };
    let tool = rtt(Echo::Udp { port: address.port() }, 10);
    assert_eq!(tool.most_bytes(&to), 10 * (128 + 60));
    let Ending::Refused(why) = tools::run(&tool, &to).await.unwrap_err().ending() else { panic!() };
    assert!(why.contains("1.8 KiB") && why.contains("max_bytes"), "{why}");
}

async fn hello(address: SocketAddr, hello: Message) -> (TcpStream, Message) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&hello.encode()).await.unwrap();
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes).await.unwrap();
    (stream, Message::decode(&bytes).unwrap())
}

#[tokio::test]
async fn transfers_are_bounded_in_number_bytes_and_time() {
    let (address, _served) = start("127.0.0.1:0", terms(LOOPBACK));
    let asked =
        |milliseconds| Message::Hello(Hello { nonce: 7, echoes: 0, bytes: 5000, milliseconds });
    let (mut first, granted) = hello(address, asked(300)).await;
    let grant = message::Grant { bytes: 1000, milliseconds: 300 };
    assert_eq!(granted, Message::Welcome { nonce: 7, answer: Ok(grant) });
    let busy = Message::Welcome { nonce: 7, answer: Err(message::Refusal::Busy) };
    assert_eq!(hello(address, asked(300)).await.1, busy);
    // More than is granted: the answerer closes.
    first.write_all(&[0; 1001]).await.unwrap();
    let ended = timeout(Duration::from_secs(5), first.read(&mut [0])).await.unwrap();
    assert!(
        matches!(&ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
    );
    // Its place is free again; who sends nothing is gone when his time is over.
    let (mut second, granted) = hello(address, asked(300)).await;
    assert_eq!(granted, Message::Welcome { nonce: 7, answer: Ok(grant) });
    let ended = timeout(Duration::from_secs(5), second.read(&mut [0])).await.unwrap();
    assert_eq!(ended.unwrap(), 0);
}

#[tokio::test]
async fn a_transfer_ends_at_its_bounds_or_when_it_knows() {
    let terms = Terms { bytes: u64::MAX, ..terms(LOOPBACK) };
    let (address, _served) = start("127.0.0.1:0", terms);
    let tool = |time| Tool::Bandwidth(Transfer { port: address.port(), time });
    let few = Target { max_bytes: 1 << 20, ..target(address) };
    let found = tools::run(&tool(Duration::from_secs(5)), &few).await.unwrap();
    assert!(found.spent_bytes <= few.max_bytes, "{found:?}");
    let bandwidth = found.bandwidth.unwrap();
    assert!(bandwidth.bits_per_second > 1e6, "{bandwidth:?}");
    assert_ne!(bandwidth.confidence, Confidence::Converged);
    let many = Target { max_bytes: 1 << 40, ..target(address) };
    let begun = Instant::now();
    let found = tools::run(&tool(Duration::from_secs(2)), &many).await.unwrap();
    let bandwidth = found.bandwidth.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(8), "{bandwidth:?}");
    assert!(bandwidth.bits_per_second > 1e7 && bandwidth.loaded_rtt.is_some(), "{bandwidth:?}");
    assert!(bandwidth.held_up.unwrap().busy_seconds > 0.0, "{bandwidth:?}");
    assert!(found.rtt.unwrap().samples == 5 && found.spent_bytes > 1 << 20);
}

#[tokio::test]
async fn a_transfer_that_is_over_at_once_has_a_bandwidth() {
    let (address, _served) = start("127.0.0.1:0", Terms { bytes: u64::MAX, ..terms(LOOPBACK) });
    let tool = Tool::Bandwidth(Transfer { port: address.port(), time: Duration::from_secs(5) });
    // Most of these are over before the first tick.
    for _ in 0..20 {
        let few = Target { max_bytes: 32 << 10, ..target(address) };
        let found = tools::run(&tool, &few).await.unwrap();
        assert!(found.bandwidth.unwrap().bits_per_second > 0.0);
    }
}

#[tokio::test]
async fn what_is_no_question_is_not_answered() {
    let (address, _served) = start("127.0.0.1:0", terms(LOOPBACK));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let answer = Message::Answer(message::Echo { nonce: 1, sequence: 2 });
    let hello = Message::Hello(Hello { nonce: 7, echoes: 1, bytes: 0, milliseconds: 0 });
    for bytes in [&answer.encode()[..], &hello.encode(), b"WADP", &[]] {
        socket.send_to(bytes, address).await.unwrap();
    }
    let question = Message::Question(message::Echo { nonce: 1, sequence: 2 });
    socket.send_to(&question.encode(), address).await.unwrap();
    let mut bytes = [0; 100];
    let length = socket.recv(&mut bytes).await.unwrap();
    assert_eq!(Message::decode(&bytes[..length]), Ok(answer));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[b'x'; BYTES]).await.unwrap();
    assert_eq!(stream.read(&mut bytes).await.unwrap(), 0);
}
