//! A source that answers from right to as wrong as can be.

use std::{
    net::SocketAddr,
    time::{Duration, Instant, SystemTime},
};

use tokio::net::TcpListener;
use wad_http::HttpError;
use wad_policy::config::{Config, testing::host};

use super::{
    poll::{Known, poll},
    store::{News, Store},
    testing::server::{Reply, Script, Server, json},
    *,
};

/// Seconds since 1970 that all samples are from.
const THEN: f64 = 1_700_000_000.0;

/// A vector of series: label's value and value.
fn vector(series: &[(&str, &str)]) -> Reply {
    let series: Vec<_> = series
        .iter()
        .map(|(path, value)| format!(r#"{{"metric":{{"path":"{path}"}},"value":[1,{value}]}}"#))
        .collect();
    let result = series.join(",");
    json(&format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#))
}

/// Answers a query for values, or for their times.
fn rtt(head: &str, series: &[(&str, &str)]) -> Reply {
    if !head.contains("timestamp%28") {
        return vector(series);
    }
    let times: Vec<_> = series.iter().map(|(path, _)| (*path, "\"1700000000\"")).collect();
    vector(&times)
}

fn config(url: &str, keys: &str) -> Config {
    let text = format!(
        "[[source]]\nname = 's'\nkind = 'prometheus'\nurl = '{url}'\nrtt = 'rtt{{a=\"b\"}}'\n\
         rtt_unit = 'ms'\ntimeout = '500ms'\nmax_response = '64KiB'\n{keys}\n\
         [[path]]\nname = 'a'\nremote = '10.0.0.0/8'\nmode = 'measured'\nsndbuf = 'auto'\n\
         [[path]]\nname = 'b'\nremote = '2001:db8::/32'\nmode = 'measured'\nsndbuf = 'auto'\n"
    );
    Config::parse("wad.toml", &text, &host()).unwrap_or_else(|error| panic!("{error}"))
}

async fn ask(address: SocketAddr, keys: &str) -> Result<Answer, SourceError> {
    let config = config(&format!("http://{address}"), keys);
    poll(&config.sources[0], &Targets::new(&config.paths), &mut Known::default()).await
}

/// Returns what comes of a poll: readings, or the kinds of errors.
async fn polled(script: Script) -> (Vec<Reading>, Vec<&'static str>) {
    let server = Server::start(script).await;
    match ask(server.address, "").await {
        Ok(Answer { readings, errors }) => {
            (readings, errors.iter().map(|error| error.kind().label()).collect())
        }
        Err(error) => (Vec::new(), vec![error.kind().label()]),
    }
}

fn reading(target: usize, rtt_seconds: f64) -> Reading {
    let sample = Sample { value: rtt_seconds, measured_at_seconds: THEN, is_least: false };
    Reading { target, metric: Metric::Rtt, sample }
}

#[tokio::test]
async fn series_are_taken_by_name_and_by_address() {
    let (mut readings, errors) =
        polled(|head| rtt(head, &[("a", r#""70""#), ("[2001:db8::1]:9", "120"), ("x", "\"1\"")]))
            .await;
    readings.sort_by_key(|reading| reading.target);
    assert_eq!(readings, [reading(0, 0.07), reading(1, 0.12)]);
    assert_eq!(errors, [""; 0]);
}

#[tokio::test]
async fn a_value_that_is_none_leaves_the_others() {
    for value in ["\"NaN\"", "\"+Inf\"", "\"-1\"", "\"0\"", "\"x\"", "null", "[]", "\"1e99\""] {
        // Scripts have no state of their own.
        let (readings, errors) = match value {
            "\"NaN\"" => polled(|head| rtt(head, &[("a", "\"NaN\""), ("b", "\"70\"")])).await,
            "\"+Inf\"" => polled(|head| rtt(head, &[("a", "\"+Inf\""), ("b", "\"70\"")])).await,
            "\"-1\"" => polled(|head| rtt(head, &[("a", "\"-1\""), ("b", "\"70\"")])).await,
            "\"0\"" => polled(|head| rtt(head, &[("a", "\"0\""), ("b", "\"70\"")])).await,
            "\"x\"" => polled(|head| rtt(head, &[("a", "\"x\""), ("b", "\"70\"")])).await,
            "null" => polled(|head| rtt(head, &[("a", "null"), ("b", "\"70\"")])).await,
            "[]" => polled(|head| rtt(head, &[("a", "[]"), ("b", "\"70\"")])).await,
            _ => polled(|head| rtt(head, &[("a", "\"1e99\""), ("b", "\"70\"")])).await,
        };
        assert_eq!(readings, [reading(1, 0.07)], "{value}");
        assert_eq!(errors, ["value"], "{value}");
    }
}

#[tokio::test]
async fn several_series_for_a_path_are_none() {
    let (readings, errors) =
        polled(|head| rtt(head, &[("a", "\"70\""), ("10.0.0.1", "\"80\""), ("b", "\"70\"")])).await;
    assert_eq!(readings, [reading(1, 0.07)]);
    assert_eq!(errors, ["ambiguous"]);
}

#[tokio::test]
async fn each_wrong_answer_is_named() {
    let cases: &[(Script, &str)] = &[
        (|_| vector(&[]), "empty"),
        (|_| json(r#"{"status":"success","data":null}"#), "empty"),
        (|head| rtt(head, &[("elsewhere", "\"70\"")]), "unmatched"),
        (|_| json("null"), "malformed"),
        (|_| json(""), "malformed"),
        (
            |_| json(r#"{"status":"success","data":{"resultType":"vector","result":7}}"#),
            "malformed",
        ),
        (|_| Reply::Whole("200 OK", "text/html", "<html>".to_owned()), "malformed"),
        (|_| Reply::Whole("400 Bad Request", "text/plain", "bad\nquery".to_owned()), "refused"),
        (|_| Reply::Whole("403 Forbidden", "text/plain", "no".to_owned()), "status"),
        (|_| Reply::Whole("404 Not Found", "text/plain", String::new()), "status"),
        (|_| Reply::Whole("302 Found", "text/plain", String::new()), "status"),
        (|_| Reply::Whole("503 Service Unavailable", "text/plain", "x".repeat(70_000)), "status"),
        (|_| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()), "broken"),
        (|_| Reply::Raw(Vec::new()), "broken"),
        (|_| Reply::Raw(b"SSH-2.0-OpenSSH\r\n".to_vec()), "broken"),
        (
            |_| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n".to_vec()),
            "too_large",
        ),
        (|_| Reply::Endless(100 << 20), "too_large"),
        (|_| Reply::Drip, "timeout"),
        (|_| Reply::Silence, "timeout"),
    ];
    for (n, (script, kind)) in cases.iter().enumerate() {
        let begun = Instant::now();
        assert_eq!(polled(*script).await, (Vec::new(), vec![*kind]), "case {n}");
        assert!(begun.elapsed() < Duration::from_secs(10), "case {n}");
    }
}

#[tokio::test]
async fn a_head_without_end_is_broken() {
    let (readings, errors) = polled(|_| {
        let line = b"x-padding: 0123456789\r\n".as_slice();
        Reply::Raw([b"HTTP/1.1 200 OK\r\n".as_slice(), &line.repeat(100_000)].concat())
    })
    .await;
    assert_eq!((readings, errors), (Vec::new(), vec!["broken"]));
}

#[tokio::test]
async fn nobody_there_and_no_such_name_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = ask(address, "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
    let config = config("http://no-such-host.invalid", "");
    let error =
        poll(&config.sources[0], &Targets::default(), &mut Known::default()).await.unwrap_err();
    // It takes long where no name server answers.
    assert!(matches!(error.kind(), ErrorKind::Resolve | ErrorKind::Timeout), "{error}");
}

#[tokio::test]
async fn a_plain_server_has_no_certificate() {
    let server = Server::start(|_| Reply::Silence).await;
    let config = config(&format!("https://{}", server.address), "");
    let error =
        poll(&config.sources[0], &Targets::default(), &mut Known::default()).await.unwrap_err();
    // It waits for the end of a head that never comes.
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[tokio::test]
async fn the_token_is_read_for_each_poll() {
    let server = Server::start(|head| {
        let bearer = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
        if bearer == Some("second") {
            rtt(head, &[("a", "\"70\"")])
        } else {
            Reply::Whole("401 Unauthorized", "text/plain", "who are you?".to_owned())
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let keys = format!("token_file = '{}'", file.display());
    let error = ask(server.address, &keys).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::File, "{error}");
    for (token, kind) in
        [("first\n", ErrorKind::Status), ("", ErrorKind::File), ("a\nb", ErrorKind::File)]
    {
        std::fs::write(&file, token).unwrap();
        let error = ask(server.address, &keys).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.told().contains("first"), "{error}");
    }
    std::fs::write(&file, "second\n").unwrap();
    assert_eq!(ask(server.address, &keys).await.unwrap().readings, [reading(0, 0.07)]);
}

#[tokio::test]
async fn the_time_of_measurement_may_be_a_series() {
    let server = Server::start(|head| {
        if head.contains("query=when") {
            vector(&[("a", "\"1600000000\"")])
        } else {
            vector(&[("a", "\"70\""), ("b", "\"70\"")])
        }
    })
    .await;
    let answer = ask(server.address, "measured_at = 'when'").await.unwrap();
    let sample = Sample { value: 0.07, measured_at_seconds: 1.6e9, is_least: false };
    assert_eq!(answer.readings, [Reading { target: 0, metric: Metric::Rtt, sample }]);
    // There is no saying how old the other is.
    assert_eq!(answer.errors.len(), 1);
    assert_eq!(answer.errors[0].kind(), ErrorKind::Value);
}

fn store() -> (Config, Targets, Store) {
    let config = config("http://a", "");
    let targets = Targets::new(&config.paths);
    let store = Store::new(&config.sources, &targets);
    (config, targets, store)
}

#[test]
fn what_is_wrong_is_said_once_and_so_is_that_it_is_over() {
    let (_, _, mut store) = store();
    let now = SystemTime::now();
    let mut record = |result: Result<Vec<SourceError>, SourceError>| {
        let answer = |errors| Answer { readings: vec![reading(0, 0.07)], errors };
        store.record(0, result.map(answer), now)
    };
    let late = || SourceError::from(HttpError::Timeout { seconds: 1.0 });
    assert_eq!(record(Ok(vec![])), None);
    assert!(matches!(record(Err(late())), Some(News::Failing(_))));
    assert_eq!(record(Err(late())), None);
    assert!(matches!(record(Err(HttpError::TooLarge { most: 1 }.into())), Some(News::Failing(_))));
    assert_eq!(record(Ok(vec![])), Some(News::Well));
    assert!(matches!(
        record(Ok(vec![SourceError::Empty { query: "rtt" }])),
        Some(News::Failing(_))
    ));
    let (_, health) = store.health().next().unwrap();
    assert_eq!((health.polls, health.errors(ErrorKind::Timeout)), (6, 2));
}

#[test]
fn nothing_is_measured_in_the_future() {
    let (_, _, mut store) = store();
    let before = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(THEN - seconds);
    let mut record = |now| {
        let answer = Answer { readings: vec![reading(0, 0.07)], errors: vec![] };
        store.record(0, Ok(answer), now);
        store.findings(0, now)
    };
    assert_eq!(record(before(1_000.0)).get(Metric::Rtt), None);
    // Clocks differ by a little.
    let found = record(before(200.0)).get(Metric::Rtt).unwrap();
    assert_eq!((found.age_seconds, found.is_stale), (0.0, false));
    // It is as old as it is, however often it is said again.
    assert!(record(before(-301.0)).get(Metric::Rtt).unwrap().is_stale);
    // The clock was set back since.
    assert!(store.findings(0, before(1_000.0)).get(Metric::Rtt).unwrap().is_stale);
}
