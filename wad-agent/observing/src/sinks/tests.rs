//! Sinks as the agent has them, with real files, sockets and a server on loopback.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    path::PathBuf,
    sync::Mutex,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use wad_policy::config::{Config, testing::host};

use super::*;
use crate::{
    events::record::Ends,
    metrics::{Readings, SinkReading},
};

const LIMIT: Duration = Duration::from_secs(20);

fn start(folder: &TempDir, sinks: &str) -> Sinks {
    let config = Config::parse("wad.toml", sinks, &host());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    Sinks::start(&config.sinks, folder.path(), "default").unwrap()
}

fn tell(sinks: &Sinks, event: EventName, number: u64) {
    sinks.tell(&Record {
        time: Timestamp::UNIX_EPOCH,
        event,
        ends: Some(Ends {
            local: "10.0.0.1:1".parse().unwrap(),
            remote: "10.0.0.2:2".parse().unwrap(),
        }),
        cookie: Some(number),
        path: "bob",
        values: json!({ "n": number }),
    });
}

fn reading(sinks: &Sinks) -> SinkReading {
    let mut readings = Readings::default();
    sinks.board().read(&mut readings);
    readings.sinks.remove(0)
}

/// Waits until the first sink is as it should be.
fn await_sink(sinks: &Sinks, fits: impl Fn(&SinkReading) -> bool) -> SinkReading {
    let begun = Instant::now();
    loop {
        let seen = reading(sinks);
        if fits(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < LIMIT, "{seen:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn numbers(lines: &str) -> Vec<u64> {
    let line = |line| serde_json::from_str::<Value>(line).unwrap()["values"]["n"].as_u64().unwrap();
    lines.lines().map(line).collect()
}

fn file_sink(folder: &TempDir) -> (String, PathBuf) {
    let path = folder.path().join("events.jsonl");
    (format!("[[sink]]\nname = 'f'\nkind = 'file'\npath = '{}'\n", path.display()), path)
}

#[test]
fn a_file_gets_the_events_that_it_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = file_sink(&folder);
    let sinks = start(&folder, &format!("{config}events = ['closed', 'left']\n"));
    assert!(sinks.want(EventName::Closed) && !sinks.want(EventName::Open));
    for number in 0..1000 {
        tell(&sinks, EventName::Open, number);
        tell(&sinks, EventName::Closed, number);
    }
    sinks.finish();
    assert_eq!(numbers(&fs::read_to_string(path).unwrap()), (0..1000).collect::<Vec<_>>());
    let SinkReading { sent, spooled_bytes, failing, .. } = reading(&sinks);
    assert_eq!((sent, spooled_bytes, failing), (1000, 0, None));
    let mut readings = Readings::default();
    sinks.board().read(&mut readings);
    assert_eq!(readings.events[EventName::Closed as usize], ("closed", 1000));
    // Nobody was told.
    assert_eq!(readings.events[EventName::Open as usize], ("open", 0));
}

#[test]
fn without_sinks_nothing_is_started_or_kept() {
    let folder = tempfile::tempdir().unwrap();
    let sinks = start(&folder, "");
    tell(&sinks, EventName::Open, 1);
    sinks.finish();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_written_gets_all_of_it_later() {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = file_sink(&folder);
    fs::create_dir(&path).unwrap();
    let sinks = start(&folder, &config);
    for number in 0..100 {
        tell(&sinks, EventName::Open, number);
    }
    let seen = await_sink(&sinks, |seen| seen.failing.is_some());
    assert!(seen.spooled_bytes > 0 && seen.failing.unwrap().contains("Is a directory"));
    sinks.finish();

    // The next agent.
    fs::remove_dir(&path).unwrap();
    let sinks = start(&folder, &config);
    tell(&sinks, EventName::Open, 100);
    await_sink(&sinks, |seen| seen.sent == 101);
    sinks.finish();
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(numbers(&text), (0..=100).collect::<Vec<_>>());
    // No two are the same event.
    let id = |line| serde_json::from_str::<Value>(line).unwrap()["id"].to_string();
    let ids: std::collections::BTreeSet<_> = text.lines().map(id).collect();
    assert_eq!(ids.len(), 101);
}

#[test]
fn more_than_a_spool_may_hold_is_lost_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[[sink]]\nname = 'h'\nkind = 'http'\nurl = 'http://127.0.0.1:1'\n\
                  spool_max = '1MiB'\n";
    let sinks = start(&folder, config);
    for number in 0..5000 {
        tell(&sinks, EventName::Open, number);
        thread::sleep(Duration::from_micros(20));
    }
    let lost = |seen: &SinkReading, why: &str| {
        seen.lost.iter().find(|(reason, _)| *reason == why).unwrap().1
    };
    let seen = await_sink(&sinks, |seen| lost(seen, "spool") > 1000);
    assert!(seen.failing.is_some_and(|why| why.contains("127.0.0.1:1")));
    assert!((900_000..=1 << 20).contains(&seen.spooled_bytes), "{}", seen.spooled_bytes);
    let begun = Instant::now();
    sinks.finish();
    assert!(begun.elapsed() < 2 * GRACE);
}

#[test]
fn daemons_get_a_datagram_for_each_and_may_be_away() {
    for (kind, begins) in [("syslog", "<30>wad["), ("journald", "PRIORITY=6\n")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let config =
            format!("[[sink]]\nname = 's'\nkind = '{kind}'\npath = '{}'\n", path.display());
        let sinks = start(&folder, &config);
        tell(&sinks, EventName::Open, 0);
        await_sink(&sinks, |seen| seen.failing.is_some());
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        // More than it has room for.
        for number in 1..600 {
            tell(&sinks, EventName::Open, number);
        }
        let mut taken = Vec::new();
        let mut buffer = [0; 4096];
        while taken.len() < 600 {
            let bytes = socket.recv(&mut buffer).unwrap();
            let text = std::str::from_utf8(&buffer[..bytes]).unwrap();
            assert!(text.starts_with(begins), "{text}");
            taken.extend(numbers(&text[text.find('{').unwrap()..]));
        }
        assert_eq!(taken, (0..600).collect::<Vec<_>>());
        await_sink(&sinks, |seen| seen.sent == 600 && seen.failing.is_none());
        sinks.finish();
    }
}

/// Holds what came by POST, of which the first few were refused.
#[derive(Default)]
struct Taken {
    requests: Vec<(String, Instant)>,
    lines: String,
}

const TAKEN: &str = "204 No Content";

/// Answers each request by its number and its lines.
fn serve(
    listener: &TcpListener,
    taken: &Mutex<Taken>,
    status: impl Fn(usize, &str) -> &'static str,
) {
    for stream in listener.incoming() {
        let mut stream: TcpStream = stream.unwrap();
        let mut bytes = Vec::new();
        let mut block = [0; 4096];
        let (head, mut body) = loop {
            let count = stream.read(&mut block).unwrap();
            bytes.extend_from_slice(&block[..count]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                break (head.to_lowercase(), body.to_owned());
            }
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().parse().unwrap();
        while body.len() < length {
            let count = stream.read(&mut block).unwrap();
            body.push_str(std::str::from_utf8(&block[..count]).unwrap());
        }
        let mut taken = taken.lock().unwrap();
        taken.requests.push((head, Instant::now()));
        let status = status(taken.requests.len() - 1, &body);
        if status == TAKEN {
            taken.lines.push_str(&body);
        }
        drop(taken);
        let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    }
}

#[test]
fn a_server_gets_json_lines_and_the_time_that_it_asks_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Taken::default()));
    let served = Arc::clone(&taken);
    thread::spawn(move || {
        serve(&listener, &served, |request, _| match request {
            0 | 1 => "503 Busy\r\nretry-after: 1",
            _ => TAKEN,
        });
    });
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let sinks = start(
        &folder,
        &format!(
            "[[sink]]\nname = 'h'\nkind = 'http'\nurl = 'http://{address}/in?x=1'\n\
             token_file = '{}'\n",
            token.display()
        ),
    );
    for number in 0..3000 {
        tell(&sinks, EventName::Open, number);
    }
    let seen = await_sink(&sinks, |seen| seen.failing.is_some());
    assert!(seen.failing.unwrap().contains("503"));
    await_sink(&sinks, |seen| seen.sent == 3000 && seen.failing.is_none());
    sinks.finish();
    let taken = taken.lock().unwrap();
    assert_eq!(numbers(&taken.lines), (0..3000).collect::<Vec<_>>());
    let [(head, first), (_, second), (_, third), ..] = &taken.requests[..] else {
        panic!("{} requests", taken.requests.len());
    };
    assert!(head.starts_with("post /in?x=1 http/1.1"), "{head}");
    for line in ["content-type: application/x-ndjson", "authorization: bearer secret"] {
        assert!(head.contains(line), "{head}");
    }
    for pause in [*second - *first, *third - *second] {
        assert!((900..3000).contains(&pause.as_millis()), "{pause:?}");
    }
}

#[test]
fn what_a_server_refuses_for_good_is_set_aside_and_the_next_is_told() {
    const BAD: &str = "\"cookie\":4711,";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Taken::default()));
    let served = Arc::clone(&taken);
    thread::spawn(move || {
        serve(&listener, &served, |request, lines| match request {
            // That is about the time, whatever it holds, and so often that it would do.
            0..12 => "429 Slow Down\r\nretry-after: 0",
            _ if lines.contains(BAD) => "400 Cookie\r\nretry-after: 0",
            _ => TAKEN,
        });
    });
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[[sink]]\nname = 'h'\nkind = 'http'\nurl = 'http://{address}'\n");
    let sinks = start(&folder, &config);
    tell(&sinks, EventName::Open, 4711);
    let requests = || taken.lock().unwrap().requests.len();
    let begun = Instant::now();
    while requests() < 14 {
        assert!(begun.elapsed() < LIMIT);
        thread::sleep(Duration::from_millis(5));
    }
    // These come while that one is refused, and are not refused with it.
    for number in 0..1000 {
        tell(&sinks, EventName::Open, number);
    }
    let seen = await_sink(&sinks, |seen| seen.sent == 1000 && seen.failing.is_none());
    assert_eq!((seen.refused, seen.spooled_bytes), (1, 0));
    assert!(seen.lost.iter().all(|(_, count)| *count == 0), "{seen:?}");
    sinks.finish();
    let aside = fs::read_to_string(folder.path().join("events-default/h.refused.jsonl")).unwrap();
    assert_eq!(numbers(&aside), [4711]);
    assert_eq!(numbers(&taken.lock().unwrap().lines), (0..1000).collect::<Vec<_>>());
}

fn reload(sinks: &Sinks, text: &str) {
    let config = Config::parse("wad.toml", text, &host());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    sinks.put_in_force(sinks.prepare(&config.sinks).unwrap());
}

/// Returns how many threads of sinks have not ended.
fn senders(sinks: &Sinks) -> usize {
    let threads = locked(&sinks.threads);
    threads.senders.iter().filter(|sender| !sender.thread.is_finished()).count()
}

fn await_senders(sinks: &Sinks, count: usize) {
    let begun = Instant::now();
    while senders(sinks) != count {
        assert!(begun.elapsed() < LIMIT, "{} threads", senders(sinks));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sinks_come_change_and_go_and_each_event_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let sink = |name: &str, of: &str| {
        format!("[[sink]]\nname = '{name}'\nkind = 'file'\npath = '{}'\n", file(of).display())
    };
    let sinks = start(&folder, "");
    assert!(sinks.is_empty() && !sinks.want(EventName::Open));
    let mut number = 0;
    let mut tell_some = |sinks: &Sinks| {
        for _ in 0..500 {
            tell(sinks, EventName::Open, number);
            number += 1;
        }
    };
    tell_some(&sinks);
    // Without a pause: each line goes to those that were there when it was told.
    reload(&sinks, &sink("a", "a1"));
    tell_some(&sinks);
    reload(&sinks, &(sink("a", "a1") + &sink("b", "b1")));
    tell_some(&sinks);
    reload(&sinks, &(sink("b", "b1") + "events = ['closed']\n"));
    tell_some(&sinks);
    assert!(!sinks.want(EventName::Open) && sinks.want(EventName::Closed));
    reload(&sinks, &(sink("b", "b1") + &sink("a", "a2")));
    tell_some(&sinks);
    await_senders(&sinks, 2);
    sinks.finish();
    let told = |of: &str| numbers(&fs::read_to_string(file(of)).unwrap_or_default());
    // What was changed before it was sent goes where the sink is now.
    let of_a = [told("a1"), told("a2")].concat();
    assert_eq!(of_a, [(500..1500).collect::<Vec<_>>(), (2000..2500).collect()].concat());
    assert_eq!(told("b1"), [(1000..1500).collect::<Vec<_>>(), (2000..2500).collect()].concat());
}

#[test]
fn sinks_that_are_not_put_in_force_leave_all_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (config, path) = file_sink(&folder);
    let sinks = start(&folder, &config);
    let other = "[[sink]]\nname = 'g'\nkind = 'file'\npath = '/dev/full'\n";
    let other = config.replace("events.jsonl", "other.jsonl") + other;
    let other = Config::parse("wad.toml", &other, &host()).unwrap_or_else(|it| panic!("{it}"));
    drop(sinks.prepare(&other.sinks).unwrap());
    tell(&sinks, EventName::Open, 1);
    await_sink(&sinks, |seen| seen.sent == 1);
    assert_eq!(numbers(&fs::read_to_string(path).unwrap()), [1]);
    assert!(!folder.path().join("other.jsonl").exists() && senders(&sinks) == 1);
    sinks.finish();
}

#[test]
fn a_sender_that_is_stuck_keeps_its_spool_for_the_sink_of_its_name() {
    // It accepts, and keeps silent.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let http = |address: SocketAddr| {
        format!("[[sink]]\nname = 'h'\nkind = 'http'\nurl = 'http://{address}'\ntimeout = '1s'\n")
    };
    let sinks = start(&folder, &http(silent.local_addr().unwrap()));
    for number in 0..100 {
        tell(&sinks, EventName::Open, number);
    }
    let (stuck, _) = silent.accept().unwrap();
    let begun = Instant::now();
    reload(&sinks, "");
    assert!(sinks.is_empty() && begun.elapsed() < Duration::from_millis(500));
    assert_eq!(senders(&sinks), 1);
    // Back again, before the old one has ended: it goes on with that one's lines.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Taken::default()));
    let served = Arc::clone(&taken);
    thread::spawn(move || serve(&listener, &served, |_, _| TAKEN));
    reload(&sinks, &http(address));
    for number in 100..200 {
        tell(&sinks, EventName::Open, number);
    }
    let has_all = |until: u64| {
        let numbers = numbers(&taken.lock().unwrap().lines);
        numbers == (0..until).collect::<Vec<_>>()
    };
    await_sink(&sinks, |seen| seen.spooled_bytes == 0 && has_all(200));
    // Gone for good, and what it does not take is there for the next.
    reload(&sinks, &http(silent.local_addr().unwrap()));
    for number in 200..300 {
        tell(&sinks, EventName::Open, number);
    }
    let (stuck_too, _) = silent.accept().unwrap();
    reload(&sinks, "");
    await_senders(&sinks, 0);
    reload(&sinks, &http(address));
    await_sink(&sinks, |seen| seen.spooled_bytes == 0 && has_all(300));
    assert_eq!(senders(&sinks), 1);
    sinks.finish();
    drop((stuck, stuck_too));
}
