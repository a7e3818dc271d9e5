//! The servers on loopback and on sockets in temporary folders, asked by a real
//! client, by slow ones and by many.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use hyper::body::Bytes;
use tokio::{io::AsyncReadExt, net::TcpStream, sync::watch, task::JoinHandle};
use wad_instruments::{Reading, testing::flow};
use wad_linux::lock::{self, Lock};
use wad_observing::metrics::{Readings, testing::example};
use wad_tuning::attachment::{Lost, Part};

use super::{testing::api, *};
use crate::{
    client::{self, ClientError, Request},
    reload::ReloadOutcome,
};

async fn ask(run_dir: &Path, instance: &str) -> Result<Status, ClientError> {
    let socket = lock::socket(run_dir, instance);
    client::ask(&socket, instance, &Request::get("/v1/status")).await
}

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(source: Source) -> Self {
        let listener = bind_tcp("metrics", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(serve(
            listener,
            metrics_router(
                api(source),
                Duty::new(Mutex::new(Arc::new(
                    Guard::new(&wad_policy::config::Guard::default()).unwrap(),
                ))),
            ),
            stopped,
        ));
        Self { address, stop, task }
    }

    async fn get(&self, path: &str, accept: &str) -> hyper::Response<Bytes> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        client::send(stream, &Request::get(path), accept).await.unwrap()
    }

    /// Stops it, and says how long that took.
    async fn stop(self) -> Duration {
        let start = Instant::now();
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
        start.elapsed()
    }
}

fn text(answer: &hyper::Response<Bytes>) -> (&str, &str) {
    let content_type = answer.headers()[header::CONTENT_TYPE].to_str().unwrap();
    (content_type, std::str::from_utf8(answer.body()).unwrap())
}

#[tokio::test]
async fn metrics_come_in_the_format_asked_for() {
    let server = Server::start(Source::new(|| Ok(example()))).await;
    let answer = server.get("/metrics", "application/openmetrics-text;version=1.0.0").await;
    let (content_type, body) = text(&answer);
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(body.ends_with("# EOF\n"));
    let answer = server.get("/metrics", "*/*").await;
    let (content_type, body) = text(&answer);
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(body.contains("# TYPE wad_flows_opened_total counter\n"));
    assert!(body.contains("wad_flows_opened_total{path=\"bob\"} 13\n"));
}

#[tokio::test]
async fn each_scrape_reads_anew() {
    let generation = AtomicU64::new(0);
    let server = Server::start(Source::new(move || {
        let generation = generation.fetch_add(1, Ordering::SeqCst);
        Ok(Readings { generation, ..Default::default() })
    }))
    .await;
    for generation in 0..3 {
        let answer = server.get("/metrics", "").await;
        let line = format!("\nwad_policy_generation {generation}\n");
        assert!(text(&answer).1.contains(&line));
    }
}

#[tokio::test]
async fn a_source_that_fails_is_an_error_not_an_empty_page() {
    let server = Server::start(Source::new(|| Err("the map of counts is gone".into()))).await;
    let answer = server.get("/metrics", "").await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(text(&answer).1, "the map of counts is gone\n");
}

#[tokio::test]
async fn the_other_pages() {
    let server = Server::start(Source::new(|| Ok(example()))).await;
    let landing = server.get("/", "text/html").await;
    assert!(text(&landing).1.contains("href=\"/metrics\""));
    assert_eq!(text(&server.get("/-/healthy", "").await).1, "wad is healthy.\n");
    assert_eq!(text(&server.get("/-/ready", "").await).1, "wad is ready.\n");
    assert_eq!(server.get("/v1/status", "").await.status(), StatusCode::NOT_FOUND);
}

#[test]
fn whoever_asks_whether_it_is_ready_gets_the_reasons_why_not() {
    let mut attachment = Attachment::default();
    assert_eq!(readiness(&attachment).0, StatusCode::OK);
    let lost = [Part::Pins, Part::Tuner].map(|part| Lost { part, why: part.name().to_owned() });
    attachment.set_lost(&lost);
    let expected = (StatusCode::SERVICE_UNAVAILABLE, "tuner\npins\n".to_owned());
    assert_eq!(readiness(&attachment), expected);
}

#[tokio::test]
async fn slow_clients_neither_block_others_nor_the_end() {
    let server = Server::start(Source::new(|| Ok(example()))).await;
    let mut slow = Vec::new();
    for sent in ["", "GET /metrics HT", "GET /metrics HTTP/1.1\r\nHost: w"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, sent.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    assert_eq!(server.get("/-/healthy", "").await.status(), StatusCode::OK);
    assert!(server.stop().await < Duration::from_secs(1));
    for mut stream in slow {
        let ended = stream.read(&mut [0; 1]).await;
        assert!(matches!(ended, Ok(0) | Err(_)));
    }
}

#[tokio::test]
async fn an_answer_on_its_way_is_finished() {
    let server = Server::start(Source::new(|| {
        std::thread::sleep(Duration::from_millis(100));
        Ok(example())
    }))
    .await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let asking = tokio::spawn(async move {
        let request = Request::get("/metrics");
        client::send(stream, &request, "").await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(server.stop().await < Duration::from_secs(1));
    assert_eq!(asking.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_cure() {
    let first = bind_tcp("metrics", "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first.local_addr().unwrap();
    let error = bind_tcp("metrics", address).unwrap_err().to_string();
    let words = format!("another program listens on {address}; set [metrics] listen");
    assert!(error.starts_with(&words), "{error}");
    let foreign = bind_tcp("metrics", "192.0.2.1:9464".parse().unwrap()).unwrap_err();
    assert!(foreign.to_string().starts_with("this host has no address 192.0.2.1;"));
}

#[tokio::test]
async fn status_is_asked_by_the_socket() {
    let run = tempfile::tempdir().unwrap();
    let lock = Lock::take(run.path(), "default", "version 1").unwrap();
    // The socket of a dead agent.
    drop(std::os::unix::net::UnixListener::bind(lock.socket()).unwrap());
    let error = ask(run.path(), "default").await.unwrap_err().to_string();
    assert!(error.starts_with("no agent runs as instance \"default\""), "{error}");

    let listener = bind_control(&lock).unwrap();
    let mode = fs::metadata(lock.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (stop, stopped) = watch::channel(false);
    let (commands, _) = mpsc::channel(1);
    let router = control_router(api(Source::new(|| Ok(example()))), commands);
    let task = tokio::spawn(serve(listener, router, stopped));

    let status = ask(run.path(), "default").await.unwrap();
    assert_eq!(status.pid, std::process::id());
    assert_eq!(status.paths[0].flows_untuned.max_flows, 3);
    assert_eq!(status.paths[1].rtt_us, None);
    assert_eq!(status.changes, example().changes);

    let socket = lock.socket();
    let paths: Paths = client::ask(socket, "default", &Request::get("/v1/paths")).await.unwrap();
    assert_eq!(paths, paths::testing::example());

    // A sender that is gone stops it, too.
    drop(stop);
    task.await.unwrap();
    assert!(ask(run.path(), "default").await.is_err());
    drop(lock);
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn where_no_agent_runs_the_instance_and_the_socket_are_named() {
    let run = tempfile::tempdir().unwrap();
    let error = ask(run.path(), "test").await.unwrap_err().to_string();
    let socket = run.path().join("test.sock");
    assert!(error.contains("\"test\"") && error.contains(socket.to_str().unwrap()), "{error}");
    assert!(error.contains("`wad run`"));
}

#[tokio::test]
async fn a_reload_is_answered_by_whoever_does_it() {
    let run = tempfile::tempdir().unwrap();
    let lock = Lock::take(run.path(), "default", "version 1").unwrap();
    let listener = bind_control(&lock).unwrap();
    let (commands, mut asked) = mpsc::channel(1);
    let router = control_router(api(Source::new(|| Ok(example()))), commands);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(serve(listener, router, stopped));

    let reload = Request { method: hyper::Method::POST, ..Request::get("/v1/reload") };
    let ask = || client::ask::<ReloadOutcome>(lock.socket(), "default", &reload);
    let agent = async {
        let Some(Command::Reload(answer)) = asked.recv().await else { panic!("not asked") };
        answer.send(ReloadOutcome::Applied { policy_set: 7, diff: Box::default() }).unwrap();
    };
    let (outcome, ()) = tokio::join!(ask(), agent);
    assert_eq!(outcome.unwrap(), ReloadOutcome::Applied { policy_set: 7, diff: Box::default() });

    // Nobody does it any more.
    drop(asked);
    let error = ask().await.unwrap_err().to_string();
    assert!(error.contains("the agent is stopping"), "{error}");
    // Looking alone changes nothing.
    let look =
        client::ask::<ReloadOutcome>(lock.socket(), "default", &Request::get("/v1/reload")).await;
    assert!(look.unwrap_err().to_string().contains("405"));
    drop(stop);
    task.await.unwrap();
}

#[tokio::test]
async fn flows_are_told_with_the_time_that_reading_them_took() {
    let folder = tempfile::tempdir().unwrap();
    let lock = Lock::take(folder.path(), "default", "version 1").unwrap();
    let listener = bind_control(&lock).unwrap();
    let (stop, stopped) = watch::channel(false);
    let (commands, _asked) = mpsc::channel(1);
    let router = control_router(api(Source::new(|| Ok(example()))), commands);
    let task = tokio::spawn(serve(listener, router, stopped));
    let get = async |path: &str| {
        let stream = tokio::net::UnixStream::connect(lock.socket()).await.unwrap();
        client::send(stream, &Request::get(path), "").await.unwrap()
    };
    let answer = get("/v1/flows?path=bob").await;
    assert!(answer.headers()["server-timing"].to_str().unwrap().starts_with("read;dur="));
    let reading: Reading = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(reading.flows, [flow(7, 1.0, 1e6)]);
    for (query, words) in [("cookie=bob", "\"bob\" is no cookie"), ("field=snd_wn", "`snd_wnd`")] {
        let answer = get(&format!("/v1/flows?{query}")).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert!(String::from_utf8_lossy(answer.body()).contains(words), "{answer:?}");
    }
    drop(stop);
    task.await.unwrap();
}

#[tokio::test]
async fn a_path_is_told_by_address_to_anyone_on_the_host() {
    let listener = bind_tcp("api", "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let router = paths_router(api(Source::new(|| Ok(example()))));
    let task = tokio::spawn(serve(listener, router, stopped));
    let get = async |path: &str| {
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = client::send(stream, &Request::get(path), "").await.unwrap();
        let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        (answer.status().as_u16(), json)
    };
    let (status, json) = get("/v1/path?remote=2001:db8::5&local=%3A%3A1").await;
    assert_eq!(status, 200);
    assert_eq!(json["remote"], "2001:db8::5");
    assert_eq!((&json["local"], &json["path"]), (&"::1".into(), &serde_json::Value::Null));
    for (path, status, words) in [
        ("/v1/path", 400, "`remote` is missing"),
        ("/v1/path?remote=bob", 400, "names are not taken"),
        ("/v1/path?remote=10.0.0.1:80", 500, "the map of rules is gone"),
    ] {
        let (found, json) = get(path).await;
        assert_eq!(found, status, "{path}");
        assert!(json["error"].as_str().unwrap().contains(words), "{json}");
    }
    // Nothing else is to be had here.
    for path in ["/v1/status", "/v1/reload", "/v1/switch", "/metrics"] {
        assert_eq!(get(path).await.0, 404, "{path}");
    }
    drop(stop);
    task.await.unwrap();
}
