//! Paths for tests: a measured one of which not all is fresh, and a static one.

use wad_policy::config::{Settings, Value, Window};

use super::{
    ConditionsInfo, Known, LearnedInfo, MeasuredInfo, PathInfo, Paths, RefusedInfo, SourceInfo,
};

fn known(value: f64, age_seconds: f64, is_stale: bool) -> Option<Known> {
    Some(Known { value, source: "monitor".to_owned(), age_seconds, is_stale })
}

fn policy(sndbuf_bytes: u32, congestion: Option<&str>) -> Settings {
    Settings::from([
        ("sndbuf_bytes", Value::number(sndbuf_bytes)),
        ("rcvbuf_bytes", None),
        ("congestion", congestion.map(|name| Value::Text(name.to_owned()))),
        ("additive_increase", Some(Value::Real(1.0))),
        ("decrease", Some(Value::Real(0.5))),
        ("initial_ssthresh", Some(Value::Window(Window::Bytes(3_732_000)))),
        ("max_cwnd", None),
    ])
}

pub fn example() -> Paths {
    let measured = MeasuredInfo {
        bandwidth_bits_per_second: known(622e6, 4.0, false),
        rtt_seconds: known(0.07, 200.0, true),
        loss: known(1e-5, 119.0, false),
        reordering: None,
        policy_is_for: ConditionsInfo {
            bits_per_second: Some(622e6),
            rtt_seconds: Some(0.05),
            reorder_segments: None,
            is_leaky: false,
        },
        refused: vec![RefusedInfo {
            metric: "bandwidth".to_owned(),
            value: 622.0,
            source: "monitor".to_owned(),
            age_seconds: 4.0,
            reason: "band".to_owned(),
            text: "a bandwidth of 6.22e-4 Mbit/s by source monitor does not count".to_owned(),
        }],
    };
    Paths {
        sources: vec![SourceInfo {
            name: "monitor".to_owned(),
            kind: "prometheus".to_owned(),
            url: Some("https://prometheus.example.org".to_owned()),
            polls: 12,
            errors: [("timeout".to_owned(), 3)].into(),
            age_seconds: None,
            error: Some("no whole answer within 10 s".to_owned()),
        }],
        paths: vec![
            PathInfo {
                name: "bob".to_owned(),
                measured: Some(measured),
                learned: None,
                by_peer: None,
                policy: policy(4_859_375, Some("wad_aimd")),
            },
            PathInfo {
                name: "static".to_owned(),
                measured: None,
                learned: None,
                by_peer: None,
                policy: policy(1 << 20, None),
            },
            PathInfo {
                name: "learned-203.0.113.0/24".to_owned(),
                measured: None,
                learned: Some(LearnedInfo {
                    bits_per_second: 1.4e9,
                    rtt_seconds: 0.07,
                    evidence: "connections were limited by the send buffer 71% of the time"
                        .to_owned(),
                    unused_seconds: 7.0,
                }),
                by_peer: None,
                policy: policy(15_312_500, None),
            },
        ],
        peers: Vec::new(),
    }
}
