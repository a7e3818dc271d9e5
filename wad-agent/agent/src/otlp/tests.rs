//! Exports to a service that answers as a test wants.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Mutex,
    time::SystemTime,
};

use flate2::read::GzDecoder;
use tokio::net::TcpSocket;
use wad_observing::metrics::{OtlpReading, Readings, testing::example};
use wad_toolbox::{
    access::{Access, Header, HeaderName, HeaderText},
    mutex::locked,
    url::Url,
};

use super::*;

const SOON: Duration = Duration::from_secs(10);
/// No test sees the end of an interval that is so long, nor of the first, which is a part of
/// one by chance.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// An export as the service was sent it.
#[derive(Clone)]
struct Sent {
    head: String,
    body: Vec<u8>,
    at: Instant,
}

/// A service that gives these answers, one after the other, and the last for ever.
struct Service {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Service {
    fn start(answers: &[&[u8]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, sent) = (listener.local_addr().unwrap(), Arc::default());
        let (kept, answers) = (Arc::clone(&sent), answers.iter().map(|it| it.to_vec()));
        let answers: Vec<_> = answers.collect();
        thread::spawn(move || {
            for (stream, number) in listener.incoming().flatten().zip(0..) {
                let answer = &answers[answers.len().min(number + 1) - 1];
                // Whoever asks may go away in the midst of it.
                let _ = serve(&stream, &kept, answer);
            }
        });
        Self { address, sent }
    }

    fn sent(&self) -> Vec<Sent> {
        locked(&self.sent).clone()
    }

    fn to(&self, interval: Duration) -> Otlp {
        let url = Url::parse(&format!("http://{}/v1/metrics", self.address)).unwrap();
        let name = HeaderName::from_static("x-scope-orgid");
        let header = Header { name, value: HeaderText::Given("7".to_owned()) };
        let access = Access { headers: vec![header], ..Access::default() };
        Otlp { url, access, interval, timeout: Duration::from_secs(5) }
    }
}

fn serve(mut stream: &TcpStream, sent: &Mutex<Vec<Sent>>, answer: &[u8]) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        head.push_str(&line.to_ascii_lowercase());
        line.clear();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    locked(sent).push(Sent { head, body, at: Instant::now() });
    stream.write_all(answer)
}

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn exporter(to: &Otlp) -> Exporter {
    let mut exporter = Exporter::default();
    let origin = Origin { host: "here".to_owned(), instance: "default".to_owned() };
    let export = move || Ok(Export::new(example(), 1000, SystemTime::UNIX_EPOCH, &origin)?);
    exporter.prepare(Some(to)).unwrap();
    exporter.put_in_force(Some(to));
    exporter.begin(Arc::new(export));
    exporter
}

fn reading(board: &Board) -> Option<OtlpReading> {
    let mut readings = Readings::default();
    board.read(&mut readings);
    readings.otlp
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < SOON, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn metrics_are_sent_at_once_and_then_each_interval() {
    let service = Service::start(&[TAKEN]);
    let exporter = exporter(&service.to(Duration::from_millis(200)));
    wait_for("three exports", || service.sent().len() >= 3);
    let sent = service.sent();
    let head = &sent[0].head;
    assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
    for header in [
        "content-type: application/x-protobuf\r\n",
        "content-encoding: gzip\r\n",
        "x-scope-orgid: 7\r\n",
    ] {
        assert!(head.contains(header), "{head}");
    }
    let mut body = Vec::new();
    GzDecoder::new(&*sent[0].body).read_to_end(&mut body).unwrap();
    let has = |text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("wad_sent_bytes_total") && has("service.name") && has("here/default"));
    // The first interval is a part of one, by chance.
    assert!(sent[2].at - sent[1].at > Duration::from_millis(150));
    let reading = reading(&exporter.board).unwrap();
    assert!(reading.sent >= 2 && reading.failed == 0 && reading.failing.is_none(), "{reading:?}");
    assert!(reading.last_success.is_some());
}

#[test]
fn what_is_refused_for_now_is_tried_again_when_the_service_says() {
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
    let service = Service::start(&[busy, &answer("429 Too Many Requests", b""), TAKEN]);
    let exporter = exporter(&service.to(LONG));
    wait_for("a failure", || reading(&exporter.board).is_some_and(|it| it.failing.is_some()));
    wait_for("a success", || reading(&exporter.board).is_some_and(|it| it.sent == 1));
    let sent = service.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent[1].at - sent[0].at >= Duration::from_millis(990));
    assert!(sent[0].body == sent[1].body && sent[1].body == sent[2].body);
    let reading = reading(&exporter.board).unwrap();
    assert!(reading.failed == 0 && reading.failing.is_none(), "{reading:?}");
}

#[test]
fn what_is_refused_for_good_is_given_up() {
    // The message stands in a google.rpc.Status.
    let status = answer("400 Bad Request", b"\x08\x03\x12\x08too\nold!");
    let service = Service::start(&[&status]);
    let exporter = exporter(&service.to(LONG));
    wait_for("a failure", || reading(&exporter.board).is_some_and(|it| it.failed == 1));
    thread::sleep(Duration::from_millis(600));
    let why = reading(&exporter.board).unwrap().failing.unwrap();
    assert_eq!(service.sent().len(), 1, "{why}");
    assert!(why.ends_with(": it answers 400: too\\nold!"), "{why}");
}

#[test]
fn a_service_that_is_to_be_spared_for_long_is() {
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n";
    let service = Service::start(&[busy]);
    let exporter = exporter(&service.to(Duration::from_millis(100)));
    wait_for("a failure", || reading(&exporter.board).is_some_and(|it| it.failed == 1));
    thread::sleep(Duration::from_millis(600));
    assert_eq!(service.sent().len(), 1);
}

#[test]
fn what_is_left_out_is_counted() {
    // 7 points, and a message.
    let partial = answer("200 OK", b"\x0a\x07\x08\x07\x12\x03old");
    let service = Service::start(&[&partial]);
    let exporter = exporter(&service.to(LONG));
    wait_for("an export", || reading(&exporter.board).is_some_and(|it| it.sent == 1));
    let reading = reading(&exporter.board).unwrap();
    assert_eq!((reading.rejected_points, reading.failed), (7, 0));
}

#[test]
fn broken_answers_are_failures() {
    let endless = answer("200 OK", &vec![b'x'; 10 << 20]);
    for (broken, said) in [
        (&b""[..], "the connection broke off"),
        (b"HTTP/1.1 200", "the connection broke off"),
        (b"ICY 200 OK\r\n\r\n", "the connection broke off"),
        (&answer("200 OK", b"<html>welcome"), "not by OTLP"),
        (&endless, "more than 65536 bytes"),
        (b"HTTP/1.1 302 Found\r\nlocation: ftp://x\r\ncontent-length: 0\r\n\r\n", "302"),
        (&answer("500 Internal Server Error", &[0xff; 1000]), "it answers 500: "),
    ] {
        let service = Service::start(&[broken]);
        let exporter = exporter(&service.to(LONG));
        let failing = || reading(&exporter.board).and_then(|it| it.failing);
        wait_for(said, || failing().is_some());
        let why = failing().unwrap();
        assert!(why.contains(said) && why.len() < 2000, "{why}");
        assert_eq!(reading(&exporter.board).unwrap().sent, 0);
    }
}

#[test]
fn it_goes_elsewhere_at_once_and_ends_when_nothing_is_to_be_sent() {
    // Who is bound there does not listen, and no other test gets the port.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let away = Service { address: nobody.local_addr().unwrap(), sent: Arc::default() };
    let mut exporter = exporter(&away.to(LONG));
    wait_for("a failure", || reading(&exporter.board).is_some_and(|it| it.failing.is_some()));
    let service = Service::start(&[TAKEN]);
    let to = service.to(Duration::from_millis(100));
    exporter.prepare(Some(&to)).unwrap();
    exporter.put_in_force(Some(&to));
    wait_for("two exports", || service.sent().len() >= 2);
    let told = reading(&exporter.board).unwrap();
    assert!(told.failing.is_none() && told.url == to.url.to_string(), "{told:?}");

    exporter.prepare(None).unwrap();
    exporter.put_in_force(None);
    assert_eq!(reading(&exporter.board), None);
    // One may be on its way.
    thread::sleep(Duration::from_millis(300));
    let sent = service.sent().len();
    thread::sleep(Duration::from_millis(400));
    assert_eq!(service.sent().len(), sent);
    // Counts go on.
    exporter.put_in_force(Some(&to));
    assert!(reading(&exporter.board).unwrap().sent >= told.sent);
}

#[tokio::test]
async fn the_end_exports_once_more_and_waits_only_for_a_moment() {
    let service = Service::start(&[TAKEN]);
    let running = exporter(&service.to(LONG));
    let board = running.board();
    wait_for("an export", || reading(&board).is_some_and(|it| it.sent == 1));
    running.finish().await;
    assert_eq!(reading(&board).unwrap().sent, 2);

    // Somebody who listens and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = Service { address: mute.local_addr().unwrap(), sent: Arc::default() };
    let running = exporter(&away.to(LONG));
    let (board, begun) = (running.board(), Instant::now());
    running.finish().await;
    assert!(begun.elapsed() < 2 * GRACE, "{:?}", begun.elapsed());
    assert_eq!(reading(&board).unwrap().failed, 1);
    // Where nothing was to be exported, nothing is.
    Exporter::default().finish().await;
}
