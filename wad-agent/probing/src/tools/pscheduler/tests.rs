use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
};
use wad_toolbox::access::Access;

use super::*;

const TASK: &str = "3fb6a7c8-0d9e-4b52-9f5f-2a4c3b1d0e9f";
const RUN: &str = "0a0b0c0d-0000-4b52-9f5f-2a4c3b1d0e9f";

/// Starts a server that answers so one request after the other, and tells what it is asked.
async fn server(answers: Vec<(&'static str, String)>) -> (Url, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/pscheduler", listener.local_addr().unwrap());
    let (heard, asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 4096];
            let length = stream.read(&mut bytes).await.unwrap();
            heard.send(String::from_utf8_lossy(&bytes[..length]).into_owned()).unwrap();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
        }
    });
    (Url::parse(&url).unwrap(), asked)
}

fn asked(url: Url) -> PScheduler {
    let test = PSchedulerTest::Rtt { count: 5.try_into().unwrap() };
    PScheduler { url, access: Access::default(), test }
}

fn target() -> Target {
    Target {
        host: "b.example".to_owned(),
        address: [192, 0, 2, 1].into(),
        interface: None,
        mark: None,
        deadline: Duration::from_secs(20),
        max_bytes: 1000,
    }
}

fn run_of(state: &str, result: Value) -> String {
    json!({"state": state, "end-time": "2026-05-19T14:00:30Z", "result-merged": result}).to_string()
}

#[tokio::test]
async fn a_task_is_asked_and_its_run_waited_for() {
    let result = json!({"succeeded": true, "sent": 5, "received": 4, "lost": 1, "reorders": 0,
                        "roundtrips": [{"rtt": "PT0.021S"}, {"rtt": "PT0.020S"}, {}]});
    let (url, mut heard) = server(vec![
        ("200 OK", format!("\"https://ps.example/pscheduler/tasks/{TASK}\"")),
        ("200 OK", "[]".to_owned()),
        ("200 OK", format!("[\"https://ps.example/pscheduler/tasks/{TASK}/runs/{RUN}\"]")),
        ("200 OK", run_of("finished", result)),
    ])
    .await;
    let found = run(&asked(url), &target()).await.unwrap();
    let rtt = found.rtt.unwrap();
    assert_eq!((rtt.samples, rtt.min_seconds, rtt.max_seconds), (2, 0.02, 0.021));
    assert_eq!(found.loss, Some(Share { part: 1, whole: 5 }));
    assert_eq!(found.reordering, Some(Share { part: 0, whole: 4 }));
    let first = heard.recv().await.unwrap();
    assert!(first.starts_with("POST /pscheduler/tasks HTTP/1.1"), "{first}");
    let last = [heard.recv().await, heard.recv().await, heard.recv().await].map(Option::unwrap);
    assert!(last[0].starts_with(&format!("GET /pscheduler/tasks/{TASK}/runs HTTP")), "{last:?}");
    assert!(last[2].starts_with(&format!("GET /pscheduler/tasks/{TASK}/runs/{RUN} ")), "{last:?}");
}

#[tokio::test]
async fn refusals_and_failures_are_told_apart() {
    let (url, _heard) = server(vec![("403 Forbidden", "limits: no".to_owned())]).await;
    let error = run(&asked(url), &target()).await.unwrap_err();
    assert!(matches!(&error, PSchedulerError::Refused { reason, .. } if reason == "limits: no"));
    let (url, _heard) = server(vec![
        ("201 Created", format!("\"/{TASK}\"")),
        ("200 OK", format!("[\"/{RUN}\"]")),
        ("200 OK", run_of("nonstart", Value::Null)),
    ])
    .await;
    let error = run(&asked(url), &target()).await.unwrap_err();
    assert!(matches!(&error, PSchedulerError::Failed { reason, .. } if reason == "nonstart"));
}

#[test]
fn tasks_are_as_the_server_takes_them() {
    let of = |test: PSchedulerTest| task(&test, &target());
    let count = 100.try_into().unwrap();
    let time = Duration::from_secs(10);
    let task = of(PSchedulerTest::Throughput { time });
    let spec = json!({"schema": 1, "dest": "b.example", "duration": "PT10S"});
    assert_eq!(task["test"], json!({"type": "throughput", "spec": spec}));
    assert_eq!(of(PSchedulerTest::Latency { count })["test"]["spec"]["packet-count"], 100);
}

#[test]
fn results_are_read_as_far_as_they_tell() {
    let throughput = json!({"summary": {"summary": {"throughput-bits": 9.4e9,
                                                    "throughput-bytes": 11_750_000_000_u64}}});
    let found = read(Test::Throughput, &throughput).unwrap();
    assert_eq!(
        (found.bandwidth.unwrap().bits_per_second, found.spent_bytes),
        (9.4e9, 11_750_000_000)
    );
    let latency = json!({"packets-sent": 600, "packets-lost": 3, "packets-received": 597,
                         "packets-reordered": 2});
    let found = read(Test::Latency, &latency).unwrap();
    assert_eq!(found.loss, Some(Share { part: 3, whole: 600 }));
    assert_eq!(found.reordering, Some(Share { part: 2, whole: 597 }));
    for test in Test::ALL {
        assert_eq!(read(test, &json!({})), None);
        assert_eq!(read(test, &json!([7])), None);
    }
}
