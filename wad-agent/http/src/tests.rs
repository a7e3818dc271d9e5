use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};
use wad_toolbox::{
    access::{Credentials, Header, HeaderText},
    mutex::locked,
};

use super::*;

#[test]
fn a_server_says_how_long_to_wait() {
    let wait = |text: &'static str| {
        retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]))
    };
    assert_eq!(wait("120"), Some(Duration::from_secs(120)));
    assert!(wait("Wed, 31 Dec 2200 23:59:59 GMT") > Some(Duration::from_secs(1 << 30)));
    for text in ["Fri, 31 Dec 1999 23:59:59 GMT", "-1", "soon", ""] {
        assert_eq!(wait(text), None, "{text}");
    }
    assert_eq!(retry_after(&HeaderMap::new()), None);
}

#[test]
fn a_query_is_encoded() {
    let text = encoded("rate(x{a=\"b c\"}[5m])").to_string();
    assert_eq!(text, "rate%28x%7Ba%3D%22b%20c%22%7D%5B5m%5D%29");
    assert_eq!(encoded("a-b.c_d~").to_string(), "a-b.c_d~");
}

/// A server, or a proxy, that answers by the head of the request, and keeps the heads.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let bytes = head
                    .split_once("content-length: ")
                    .map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
                stream.read_exact(&mut vec![0; bytes]).await.unwrap();
                let answer = answer(&head);
                locked(&kept).push(head);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { address, heads, task }
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    fn heads(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.heads))
    }
}

fn whole(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn moved(status: u16, location: &str) -> String {
    whole(&format!("{status} Moved\r\nlocation: {location}"), "")
}

fn terms(access: &Access) -> Terms<'_> {
    Terms { access, timeout: Duration::from_secs(10), max_response_bytes: 1000 }
}

async fn get(access: &Access, url: &Url) -> Result<Bytes> {
    Client::new(terms(access), url)?.get("").await
}

/// Returns what says who asks, in three ways, with a file that it needs.
fn secrets(folder: &tempfile::TempDir) -> Access {
    let file = folder.path().join("secret");
    fs::write(&file, "open sesame\n").unwrap();
    let name = |name: &str| name.parse().unwrap();
    Access {
        credentials: Some(Credentials::Basic {
            username: "Aladdin".to_owned(),
            file: file.clone(),
        }),
        headers: vec![
            Header { name: name("x-scope-orgid"), value: HeaderText::Given("7".to_owned()) },
            Header { name: name("x-key"), value: HeaderText::File(file) },
        ],
        ..Access::default()
    }
}

const SECRETS: [&str; 3] = [
    "\r\nauthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n",
    "\r\nx-scope-orgid: 7\r\n",
    "\r\nx-key: open sesame\r\n",
];

#[tokio::test]
async fn a_server_is_told_who_asks_and_another_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let access = secrets(&folder);
    let other = Server::start(|_| whole("200 OK", "other")).await;
    let to_other = other.address;
    let server = Server::start(move |head| match head.split(' ').nth(1).unwrap() {
        "/here" => whole("200 OK", "here"),
        "/near" => moved(302, "here"),
        _ => moved(301, &format!("http://{to_other}/there")),
    })
    .await;
    for (path, body, heads) in [("/here", "here", 1), ("/near", "here", 2), ("/far", "other", 1)] {
        assert_eq!(get(&access, &server.url(path)).await.unwrap(), body, "{path}");
        let seen = server.heads();
        assert_eq!(seen.len(), heads, "{path}");
        for (head, secret) in seen.iter().flat_map(|head| SECRETS.map(|secret| (head, secret))) {
            assert!(head.contains(secret), "{head}");
        }
    }
    let [head] = &other.heads()[..] else { panic!("one request") };
    assert!(head.starts_with("GET /there HTTP/1.1\r\n"), "{head}");
    for secret in ["authorization", "x-scope-orgid", "x-key", "sesame"] {
        assert!(!head.contains(secret), "{head}");
    }
}

#[tokio::test]
async fn redirects_have_an_end_and_a_body_goes_where_it_is_meant_to() {
    let round = Server::start(|head| {
        let number = head.split(['/', ' ']).nth(2).unwrap().parse::<u32>().unwrap();
        if number == 0 { whole("200 OK", "done") } else { moved(307, &(number - 1).to_string()) }
    })
    .await;
    let access = Access::default();
    assert_eq!(get(&access, &round.url("/5")).await.unwrap(), "done");
    assert_eq!(round.heads().len(), 6);
    let error = get(&access, &round.url("/6")).await.unwrap_err();
    assert!(matches!(&error, HttpError::Moved { .. }) && round.heads().len() == 6, "{error}");

    let (url, again) = (round.url("/1"), Bytes::from_static(b"line"));
    let client = Client::new(terms(&access), &url).unwrap();
    assert_eq!(client.post(HeaderMap::new(), again).await.unwrap(), "done");
    let heads = round.heads();
    assert!(heads.len() == 2 && heads.iter().all(|head| head.starts_with("POST ")), "{heads:?}");
    let see_other = Server::start(|_| moved(303, "/")).await;
    let url = see_other.url("");
    let client = Client::new(terms(&access), &url).unwrap();
    let error = client.post(HeaderMap::new(), Bytes::new()).await.unwrap_err();
    assert!(matches!(error, HttpError::Status { status: 303, .. }), "{error}");
}

#[tokio::test]
async fn a_version_that_is_known_is_not_sent_again() {
    let server = Server::start(|head| {
        let is_known = head.contains("\r\nif-none-match: W/\"1\"\r\n");
        let head = if is_known { "304 Not Modified" } else { "200 OK\r\netag: W/\"1\"" };
        if is_known { format!("HTTP/1.1 {head}\r\n\r\n") } else { whole(head, "list") }
    })
    .await;
    let (access, url) = (Access::default(), server.url("/list"));
    let client = Client::new(terms(&access), &url).unwrap();
    let Fetched::New { body, version: Some(version) } = client.fetch(None).await.unwrap() else {
        panic!("the first time it is new")
    };
    assert_eq!(body, "list");
    assert_eq!(client.fetch(Some(&version)).await.unwrap(), Fetched::Same);
    // Nobody has asked whether it is the same.
    let always = Server::start(|_| "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned()).await;
    let error = get(&access, &always.url("")).await.unwrap_err();
    assert!(matches!(error, HttpError::Status { status: 304, .. }), "{error}");
}

/// A server that sends what it is told, when it is told.
async fn told(parts: mpsc::Receiver<&'static str>) -> (Url, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let task = tokio::spawn(async move {
        let mut parts = parts;
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        while let Some(part) = parts.recv().await {
            stream.write_all(part.as_bytes()).await.unwrap();
        }
    });
    (url, task)
}

#[tokio::test]
async fn a_body_is_taken_as_it_comes() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for end in ["0\r\n\r\n", "", "garbage\r\n"] {
        let (say, parts) = mpsc::channel(1);
        let (url, server) = told(parts).await;
        let access = Access::default();
        let client = Client::new(terms(&access), &url).unwrap();
        say.send(HEAD).await.unwrap();
        let mut body = client.open("/watch").await.unwrap();
        for (sent, part) in [("3\r\none\r\n", "one"), ("3\r\ntwo\r\n", "two")] {
            // Whoever waits no longer loses nothing.
            assert!(timeout(Duration::from_millis(20), body.part()).await.is_err());
            say.send(sent).await.unwrap();
            assert_eq!(body.part().await.unwrap().unwrap(), part);
        }
        say.send(end).await.unwrap();
        drop(say);
        server.await.unwrap();
        let last = body.part().await;
        match end.starts_with('0') {
            true => assert_eq!(last.unwrap(), None),
            false => assert!(matches!(last, Err(HttpError::Broken { .. })), "{last:?}"),
        }
    }
}

#[tokio::test]
async fn a_body_that_is_refused_says_why_and_its_head_has_a_limit() {
    let access = Access::default();
    let server = Server::start(|_| whole("410 Gone", "too old")).await;
    let url = server.url("/api");
    let refused = Client::new(terms(&access), &url).unwrap().open("/pods?watch=1").await;
    let Err(HttpError::Status { status: 410, reason, .. }) = refused else { panic!("refused") };
    assert_eq!(reason, "too old");
    assert!(server.heads()[0].starts_with("GET /api/pods?watch=1 HTTP/1.1\r\n"));
    let server = Server::start(|_| moved(301, "/")).await;
    let url = server.url("");
    let refused = Client::new(terms(&access), &url).unwrap().open("/").await;
    assert!(matches!(refused, Err(HttpError::Status { status: 301, .. })));

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", silent.local_addr().unwrap())).unwrap();
    let terms = Terms { timeout: Duration::from_millis(100), ..terms(&access) };
    let refused = Client::new(terms, &url).unwrap().open("/").await;
    assert!(matches!(refused, Err(HttpError::Timeout { .. })));
}

#[tokio::test]
async fn a_proxy_is_asked_for_the_server_and_what_it_answers_is_told() {
    let proxy = Server::start(|head| match head.split(' ').next().unwrap() {
        "CONNECT" => whole("407 Who Are You", "secret page"),
        _ => whole("200 OK", "by proxy"),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let access = Access { proxy: Some(proxy.url("")), ..secrets(&folder) };
    let url = Url::parse("http://server.invalid:81/a?b").unwrap();
    assert_eq!(get(&access, &url).await.unwrap(), "by proxy");
    let heads = proxy.heads();
    assert!(heads[0].starts_with("GET http://server.invalid:81/a?b HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[0].contains("\r\nhost: server.invalid:81\r\n"), "{heads:?}");

    let url = Url::parse("https://server.invalid").unwrap();
    let error = get(&access, &url).await.unwrap_err();
    assert!(matches!(error, HttpError::Tunnel { status: 407, .. }), "{error}");
    let heads = proxy.heads();
    assert!(heads[0].starts_with("CONNECT server.invalid:443 HTTP/1.1\r\n"), "{heads:?}");
    // They are for the end of the tunnel.
    for secret in ["authorization", "x-scope-orgid", "x-key"] {
        assert!(!heads[0].contains(secret), "{heads:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_answers_badly_holds_nobody_up() {
    let answers: [fn() -> String; 4] = [
        String::new,
        || "HTTP/1.1 200 OK\r\nx: ".to_owned() + &"y".repeat(MAX_HEAD_BYTES),
        || "garbage".repeat(100),
        // A tunnel to nothing.
        || "HTTP/1.1 200 OK\r\n\r\nno TLS".to_owned(),
    ];
    for answer in answers {
        let proxy = Server::start(move |_| answer()).await;
        let access = Access { proxy: Some(proxy.url("")), ..Access::default() };
        let url = Url::parse("https://server.invalid").unwrap();
        let error = get(&access, &url).await.unwrap_err();
        assert!(matches!(error, HttpError::Broken { .. } | HttpError::Tls { .. }), "{error:?}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Url::parse(&format!("http://{}", silent.local_addr().unwrap())).unwrap();
    let access = Access { proxy: Some(proxy), ..Access::default() };
    let url = Url::parse("https://server.invalid").unwrap();
    let terms = Terms { timeout: Duration::from_millis(100), ..terms(&access) };
    let error = Client::new(terms, &url).unwrap().get("").await.unwrap_err();
    assert!(matches!(error, HttpError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn secrets_are_not_told_by_errors() {
    let folder = tempfile::tempdir().unwrap();
    let access = secrets(&folder);
    let file = folder.path().join("secret");
    let url = Url::parse("http://127.0.0.1:1").unwrap();
    for text in ["", "two\nlines", "a\u{7}b"] {
        fs::write(&file, text).unwrap();
        let error = get(&access, &url).await.unwrap_err();
        let told = wad_toolbox::causes::told(&error);
        assert!(matches!(error, HttpError::Secret { .. }), "{told}");
        assert!(told.ends_with("secret holds no password of one line"), "{told}");
    }
    let shown = format!("{access:?}");
    assert!(shown.contains("Given(..)") && !shown.contains("\"7\""), "{shown}");
}
