//! All that is said comes over whole, and what cannot be is refused.

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value as Json, json};

use super::*;
use crate::testing::nets;

fn full() -> Statement {
    let value =
        |value| Some(Value { value, age: Duration::from_millis(1_500), source: Source::File });
    let bytes = |value| Some(Value { value, age: Duration::ZERO, source: Source::Measured });
    Statement {
        every: Duration::from_secs(30),
        prefixes: Some(nets(&["192.0.2.0/24", "2001:db8::/48"])),
        said: Said {
            node: Some("dtn.tokyo.example".to_owned()),
            nic_bits_per_second: Some(10e9),
            mtu_bytes: Some(9_000),
            mss_bytes: Some(8_948),
            max_rcvbuf_bytes: Some(256 << 20),
            max_sndbuf_bytes: Some(128 << 20),
            free_tcp_memory_bytes: Some(4 << 30),
            ecn: Some(true),
            sending: Direction {
                law: Some(Value {
                    value: "wad_aimd".to_owned(),
                    age: Duration::ZERO,
                    source: Source::File,
                }),
                wanted_window_bytes: bytes(64 << 20),
                bandwidth_bits_per_second: value(622e6),
                min_rtt_seconds: value(0.07),
                best_rate_bits_per_second: value(580e6),
                limited_by: vec![
                    LimitedBy { limit: "peer_window".to_owned(), part: 0.75 },
                    LimitedBy { limit: "loss".to_owned(), part: 0.25 },
                ],
            },
            receiving: Direction { wanted_window_bytes: bytes(32 << 20), ..Direction::default() },
            consent: Some(Consent {
                max_bits_per_second: Some(5e9),
                prefixes: nets(&["192.0.2.0/25"]),
                ends_in: Some(Duration::from_secs(86_400)),
            }),
        },
    }
}

fn json() -> Json {
    serde_json::from_slice(&full().write()).unwrap()
}

fn read(json: &Json) -> Result<Statement, Refusal> {
    Statement::read(&serde_json::to_vec(json).unwrap())
}

#[test]
fn all_that_is_said_comes_over() {
    assert_eq!(read(&json()), Ok(full()));
    let least = json!({ "version": 1, "every_ms": 30_000 });
    let statement = read(&least).unwrap();
    assert_eq!((statement.said, statement.prefixes), (Said::default(), None));
}

/// The form is what other versions rest on.
#[test]
fn the_form_is_as_agreed() {
    let said = |value: Json, age_ms: u64, source: &str| json!({ "value": value, "age_ms": age_ms, "source": source });
    let expected = json!({
        "version": 1,
        "every_ms": 30_000,
        "node": "dtn.tokyo.example",
        "prefixes": ["192.0.2.0/24", "2001:db8::/48"],
        "nic_bits_per_second": 1e10,
        "mtu_bytes": 9_000,
        "mss_bytes": 8_948,
        "max_rcvbuf_bytes": 268_435_456,
        "max_sndbuf_bytes": 134_217_728,
        "free_tcp_memory_bytes": 4_294_967_296_u64,
        "ecn": true,
        "sending": {
            "law": said(json!("wad_aimd"), 0, "file"),
            "wanted_window_bytes": said(json!(67_108_864), 0, "measured"),
            "bandwidth_bits_per_second": said(json!(622e6), 1_500, "file"),
            "min_rtt_us": said(json!(70_000), 1_500, "file"),
            "best_rate_bits_per_second": said(json!(580e6), 1_500, "file"),
            "limited_by": [
                { "limit": "peer_window", "part": 0.75 },
                { "limit": "loss", "part": 0.25 },
            ],
        },
        "receiving": { "wanted_window_bytes": said(json!(33_554_432), 0, "measured") },
        "consent": {
            "to": "aggressive",
            "max_bits_per_second": 5e9,
            "prefixes": ["192.0.2.0/25"],
            "ends_in_ms": 86_400_000,
        },
    });
    assert_eq!(json(), expected);
}

#[test]
fn what_is_not_known_is_passed_over() {
    let mut more = json();
    more["flows"] = json!([{ "remote": "192.0.2.1" }]);
    more["sending"]["later"] = json!({ "value": 1e300 });
    assert_eq!(read(&more), Ok(full()));
}

#[test]
fn a_value_that_cannot_be_refuses_all_of_it() {
    for (at, value) in [
        ("/nic_bits_per_second", json!(1e30)),
        ("/nic_bits_per_second", json!(0)),
        ("/nic_bits_per_second", json!(-1e9)),
        ("/mtu_bytes", json!(0)),
        ("/mss_bytes", json!(70_000)),
        ("/max_rcvbuf_bytes", json!(0)),
        ("/max_rcvbuf_bytes", json!(1_u64 << 40)),
        ("/free_tcp_memory_bytes", json!(u64::MAX)),
        ("/every_ms", json!(0)),
        ("/every_ms", json!(u64::MAX)),
        ("/node", json!("a b")),
        ("/node", json!("x".repeat(1_000))),
        ("/sending/law/value", json!("cubic; rm")),
        ("/sending/law/value", json!("a".repeat(16))),
        ("/sending/law/source", json!("heard")),
        ("/sending/wanted_window_bytes/value", json!(u64::MAX)),
        ("/sending/bandwidth_bits_per_second/value", json!(1e30)),
        ("/sending/bandwidth_bits_per_second/age_ms", json!(u64::MAX)),
        ("/sending/min_rtt_us/value", json!(0)),
        ("/sending/min_rtt_us/value", json!(u64::MAX)),
        ("/sending/best_rate_bits_per_second/value", json!(1e30)),
        ("/sending/limited_by/0/part", json!(1.5)),
        ("/sending/limited_by/0/part", json!(-0.5)),
        ("/sending/limited_by/0/limit", json!("Peer Window")),
        ("/consent/max_bits_per_second", json!(1e30)),
        ("/consent/to", json!("everything")),
        ("/consent/prefixes/0", json!("192.0.2.1/24")),
        ("/prefixes/0", json!("::ffff:192.0.2.0/120")),
    ] {
        let mut wrong = json();
        *wrong.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(read(&wrong), Err(Refusal::OutOfRange), "{at}: {value}");
    }
    let mut many = json();
    many["prefixes"] = vec!["192.0.2.0/24"; 65].into();
    assert_eq!(read(&many), Err(Refusal::OutOfRange));
    let mut many = json();
    many["sending"]["limited_by"] = vec![json!({ "limit": "loss", "part": 0.0 }); 33].into();
    assert_eq!(read(&many), Err(Refusal::OutOfRange));
}

#[test]
fn what_is_no_message_is_refused() {
    for text in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"version":"1","every_ms":1000}"#,
        r#"{"version":-1,"every_ms":1000}"#,
        r#"{"version":1}"#,
        r#"{"version":1,"every_ms":1e30}"#,
        r#"{"version":1,"every_ms":1000,"every_ms":1000}"#,
        r#"{"version":1,"every_ms":1000,"prefixes":["a"]}"#,
        r#"{"version":1,"every_ms":1000,"mtu_bytes":1500.5}"#,
        r#"{"version":1,"every_ms":1000,"ecn":1}"#,
        r#"{"version":1,"every_ms":1000} {}"#,
        &"[".repeat(10_000),
    ] {
        assert_eq!(Statement::read(text.as_bytes()), Err(Refusal::Malformed), "{text}");
    }
    for version in [0, 2, u32::MAX] {
        let mut other = json();
        other["version"] = version.into();
        assert_eq!(read(&other), Err(Refusal::Version));
    }
    let mut long = json();
    long["more"] = "x".repeat(MAX_BYTES).into();
    assert_eq!(read(&long), Err(Refusal::TooLarge));
}

prop_compose! {
    fn a_value()(value in 1_u64..=1 << 30, age_ms in 0_u64..=86_400_000, source in 0..3_usize)
        -> Value<u64>
    {
        Value { value, age: Duration::from_millis(age_ms), source: Source::ALL[source] }
    }
}

prop_compose! {
    fn a_direction()(
        window in option::of(a_value()),
        rate in option::of(a_value()),
        rtt in option::of(a_value()),
        // Other fractions may lose their last bit on the way.
        parts in vec((0_u32..=1024).prop_map(|part| f64::from(part) / 1024.0), 0..4),
    ) -> Direction {
        let scaled = |of: Option<Value<u64>>, by: f64| {
            of.map(|Value { value, age, source }| Value { value: value as f64 * by, age, source })
        };
        Direction {
            law: window.clone().map(|Value { age, source, .. }| {
                Value { value: "cubic".to_owned(), age, source }
            }),
            wanted_window_bytes: window,
            bandwidth_bits_per_second: scaled(rate.clone(), 8.0),
            // The bound is 1000 s.
            min_rtt_seconds: rtt.map(|Value { value, age, source }| Value {
                value: (value % 1_000_000 + 1) as f64 / 1e6, age, source,
            }),
            best_rate_bits_per_second: scaled(rate, 4.0),
            limited_by: parts.into_iter()
                .map(|part| LimitedBy { limit: "loss".to_owned(), part })
                .collect(),
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_said_within_its_bounds_comes_over(
        sending in a_direction(),
        receiving in a_direction(),
        every in 1_u64..=86_400,
        mtu_bytes in option::of(68_u32..=1 << 20),
        ecn in option::of(any::<bool>()),
    ) {
        let said = Said { mtu_bytes, ecn, sending, receiving, ..Said::default() };
        let statement = Statement { every: Duration::from_secs(every), prefixes: None, said };
        let json = statement.write();
        prop_assert!(json.len() < MAX_BYTES);
        prop_assert_eq!(Statement::read(&json), Ok(statement));
    }

    #[test]
    fn whatever_comes_is_read_or_refused(bytes in vec(any::<u8>(), 0..2_000)) {
        let _ = Statement::read(&bytes);
    }

    #[test]
    fn whatever_a_value_becomes_is_read_or_refused(
        at in 0..23_usize,
        number in prop_oneof![any::<f64>().prop_map(Json::from), any::<u64>().prop_map(Json::from)],
    ) {
        let mut changed = json();
        let mut leaves = Vec::new();
        paths(&changed, String::new(), &mut leaves);
        let at = &leaves[at % leaves.len()];
        *changed.pointer_mut(at).unwrap() = number;
        if let Ok(statement) = read(&changed) {
            prop_assert!(Statement::read(&statement.write()).is_ok());
        }
    }
}

/// Finds all that is no table and no list.
fn paths(json: &Json, at: String, leaves: &mut Vec<String>) {
    match json {
        Json::Object(table) => {
            table.iter().for_each(|(key, value)| paths(value, format!("{at}/{key}"), leaves));
        }
        Json::Array(list) => {
            list.iter().enumerate().for_each(|(n, it)| paths(it, format!("{at}/{n}"), leaves));
        }
        _ => leaves.push(at),
    }
}
