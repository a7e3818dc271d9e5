//! Pages of known answers, and what of them is refused.

use std::sync::Mutex;

use axum::body::{Body, to_bytes};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use wad_instruments::{Reading, testing::flow};
use wad_observing::{
    events::{Ends, Record},
    metrics::{Source, testing::example},
    reading,
};
use wad_policy::{
    config::{Page as Settings, PageAddress},
    event_name::EventName,
};

use super::*;
use crate::{api::testing, guards, paths};

/// Serves flows that are made so.
struct Pages(Router);

impl Pages {
    fn of(change: impl FnOnce(&mut Api)) -> Self {
        let mut api = testing::api(Source::new(|| Ok(example())));
        change(Arc::get_mut(&mut api).expect("nobody else has it yet"));
        let gate = Gate::default();
        let listen = PageAddress::Socket("/run/wad/page.sock".into());
        gate.open_for(Some(Settings { listen, hosts: Vec::new() }));
        Self(router(api, gate))
    }

    fn of_flows(flows: Vec<wad_instruments::Flow>) -> Self {
        let reading = Mutex::new(Reading { time: Timestamp::UNIX_EPOCH, flows });
        let read = move |filter: &Filter| {
            let Reading { time, flows } = reading.lock().unwrap().clone();
            let is_wanted = |flow: &wad_instruments::Flow| {
                filter.cookies.is_empty() || filter.cookies.contains(&flow.cookie)
            };
            Ok(Reading { time, flows: flows.into_iter().filter(is_wanted).collect() })
        };
        Self::of(|api| api.flows = reading::Source::new(read))
    }

    async fn ask(&self, at: &str, host: &str) -> Response {
        let request = Request::get(at).header(header::HOST, host).body(Body::empty()).unwrap();
        TowerToHyperService::new(self.0.clone()).call(request).await.unwrap()
    }

    async fn get(&self, at: &str) -> (StatusCode, String) {
        let answer = self.ask(at, "localhost").await;
        let status = answer.status();
        let text = to_bytes(answer.into_body(), 1 << 24).await.unwrap();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }
}

#[tokio::test]
async fn every_answer_is_hardened() {
    let pages = Pages::of(|_| {});
    for (at, host, status) in [
        ("/", "localhost", StatusCode::OK),
        ("/nowhere", "localhost", StatusCode::NOT_FOUND),
        ("/assets/page.0.js", "localhost", StatusCode::NOT_FOUND),
        (assets::paths().style, "localhost", StatusCode::OK),
        ("/", "evil.example", StatusCode::MISDIRECTED_REQUEST),
    ] {
        let answer = pages.ask(at, host).await;
        assert_eq!(answer.status(), status, "{at} of {host}");
        for (name, value) in HEADERS {
            assert_eq!(answer.headers()[&name], value, "{name} of {at}");
        }
        let is_kept = answer.headers()[header::CACHE_CONTROL] != "no-store";
        assert_eq!(is_kept, at.ends_with(".css"), "{at}");
    }
}

#[tokio::test]
async fn all_pages_link_to_each_other_and_load_nothing_else() {
    let pages = Pages::of(|_| {});
    for at in ["/", "/path?name=bob", "/flows", "/flow?cookie=7", "/evidence", "/events", "/host"] {
        let (status, text) = pages.get(at).await;
        assert_eq!(status, StatusCode::OK, "{at}: {text}");
        for other in ["/flows", "/evidence", "/events", "/host", assets::paths().script] {
            assert!(text.contains(&format!("\"{other}\"")), "{other} on {at}");
        }
        assert!(
            !text.contains("//")
                || text.contains("http://127.0.0.1:9467/")
                || at == "/host"
                || at == "/",
            "{at}"
        );
        for no in ["<style", "style=", "onclick", "javascript:", "<script>"] {
            assert!(!text.contains(no), "{no} on {at}");
        }
    }
}

#[tokio::test]
async fn a_path_shows_what_is_known_of_it() {
    let pages = Pages::of(|api| api.paths = paths::Source::new(|| Ok(paths::testing::example())));
    let (_, text) = pages.get("/path?name=bob").await;
    for part in [
        "622 Mbit/s",
        "too old to count",
        "a bandwidth of 6.22e-4 Mbit/s by source monitor does not count",
        "4859375",
        "= 4.6 MiB",
        "wad_aimd",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (status, text) = pages.get("/path?name=%3Cb%3E").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.contains("&lt;b&gt;") && !text.contains("<b>&"), "{text}");
}

#[tokio::test]
async fn flows_are_sorted_filtered_and_shown_a_part_at_a_time() {
    let mut flows: Vec<_> = (1..=250).map(|n| flow(n, 10.0, n as f64 * 1e6)).collect();
    flows[6].owner.process = Some("<i>&\"'".into());
    flows[7].remote = "[2001:db8::7]:443".parse().unwrap();
    let pages = Pages::of_flows(flows);
    let first = |text: &str| {
        text.find("/flow?cookie=").map(|at| text[at + 13..].split('"').next().unwrap().to_owned())
    };
    let (_, text) = pages.get("/flows").await;
    assert_eq!(first(&text).as_deref(), Some("250"), "the fastest first");
    assert_eq!(text.matches("/flow?cookie=").count(), 50);
    assert!(text.contains("1 to 50 of 250") && text.contains("rel=\"next\""), "{text}");
    let (_, text) = pages.get("/flows?sort=sent&order=up&rows=200&page=2").await;
    assert_eq!((first(&text).as_deref(), text.matches("/flow?cookie=").count()), (Some("201"), 50));
    assert!(text.contains("aria-sort=\"ascending\""), "{text}");
    for (words, expected) in
        [("2001:db8::/32", Some("8")), ("%3CI%3E", Some("7")), ("nobody", None)]
    {
        let (_, text) = pages.get(&format!("/flows?q={words}")).await;
        assert_eq!(first(&text).as_deref(), expected, "{words}");
        assert!(!text.contains("<i>"), "{words}: {text}");
    }
}

#[tokio::test]
async fn a_flow_that_has_gone_is_told_of_by_its_events() {
    let pages = Pages::of(|api| {
        api.flows =
            reading::Source::new(|_| Ok(Reading { time: Timestamp::UNIX_EPOCH, flows: vec![] }));
        api.recent.keep(true);
        let ends = Ends {
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:5201".parse().unwrap(),
        };
        let values = serde_json::json!({
            "seconds": 16.0, "sent_bytes": 1 << 30, "goodput_bits_per_second": 499_987_500_u64,
        });
        let event = EventName::Closed;
        api.recent.tell(&Record {
            time: Timestamp::now(),
            event,
            ends: Some(ends),
            cookie: Some(9),
            path: "<u>",
            values,
        });
    });
    let (status, text) = pages.get("/flow?cookie=9").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("not there any more") && text.contains("500 Mbit/s"), "{text}");
    assert!(text.contains("&lt;u&gt;") && !text.contains("<u>"), "{text}");
    let (_, text) = pages.get("/events?event=closed").await;
    assert!(text.contains("1.0 GiB sent") && text.contains("1 closed"), "{text}");
    for at in ["/flow?cookie=10", "/flow?cookie=bob", "/flow"] {
        assert_eq!(pages.get(at).await.0, StatusCode::NOT_FOUND, "{at}");
    }
}

#[tokio::test]
async fn guards_and_experiments_are_told_of() {
    let pages = Pages::of(|api| {
        api.guards = guards::testing::held_back("<bob>");
        api.experiments = crate::evidence::testing::begun("eve");
    });
    let (status, text) = pages.get("/evidence").await;
    assert_eq!(status, StatusCode::OK);
    for part in [
        "held back for another",
        "goodput is worse than before, 10.0 times",
        "&lt;bob&gt;",
        "waits for its next block",
        "no data",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text) = Pages::of(|_| {}).get("/evidence").await;
    assert!(text.contains("No path has one.") && text.contains("There is none."), "{text}");
}

#[tokio::test]
async fn what_cannot_be_said_is_said_so() {
    let pages =
        Pages::of(|api| api.source = Source::new(|| Err("the map of <counts> is gone".into())));
    let (status, text) = pages.get("/host").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("the map of &lt;counts&gt; is gone"), "{text}");
}
