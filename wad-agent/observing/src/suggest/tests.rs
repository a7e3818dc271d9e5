//! Suggestions from numbers that show what limits connections.

use jiff::{SignedDuration, Timestamp};
use wad_instruments::{Flow, Reading};
use wad_policy::{
    config::{Config, Host},
    tuning_plan::KernelBuffers,
};

use super::{Suggestions, Watch};
use crate::diagnose::{FIELDS, Limit};

pub const DEBIAN: KernelBuffers = KernelBuffers { sndbuf_bytes: 4 << 20, rcvbuf_bytes: 6 << 20 };
/// Instruments count so much a second where a window of 3 MiB goes in 70 ms.
pub const RATE: f64 = 3_145_728.0 / 0.07;

/// A connection in the second `n`, which waits for this.
pub fn flow(cookie: u64, remote: &str, n: f64, timer: &str) -> Flow {
    let mut flow = wad_instruments::testing::flow(cookie, n, n * RATE);
    flow.remote = remote.parse().unwrap();
    flow.path = "".into();
    flow.outcome = "no_path".into();
    flow.congestion = "cubic".into();
    let timers = ["SndLimTimeRwin", "SndLimTimeCwnd", "SndLimTimeSnd", "SndLimTimeSndbuf"]
        .map(|name| (name, if is_running(name, timer) { n * 1e3 } else { 0.0 }));
    let values = [
        ("ElapsedSecs", n),
        ("HCThruOctetsAcked", n * RATE),
        ("HCThruOctetsReceived", 0.0),
        ("DataSegsOut", n * 1e5),
        ("SegsRetrans", 0.0),
        ("CurCwnd", 4e6),
        ("CurMSS", 1448.0),
        ("CurRetxQueue", 3_145_728.0),
        ("CurAppWQueue", 1e6),
        ("CurAppRQueue", 0.0),
        ("CurRwinRcvd", 3_145_728.0),
        ("CurRwinSent", 65_536.0),
        ("SmoothedRTT", 70_100.0),
        ("MinRTT", 70_000.0),
        ("SndBuf", 4_194_304.0),
        ("IsAppLimited", 0.0),
    ];
    let fields = FIELDS.into_iter().zip([3_145_728.0, 1.8e19, 1_600_000.0, 1500.0]);
    let all = values.into_iter().chain(fields).chain(timers);
    flow.instruments = all.map(|(name, value)| (name, Some(value))).collect();
    flow
}

/// Whether a timer runs as this one does: the wait for the send buffer is a part of the one
/// for the sender's own sake.
fn is_running(name: &str, timer: &str) -> bool {
    name == timer || (name, timer) == ("SndLimTimeSnd", "SndLimTimeSndbuf")
}

/// Watches these in each second for a while.
fn watch(seconds: i64, flows: impl Fn(f64) -> Vec<Flow>) -> Suggestions {
    let mut watch = Watch::default();
    for n in 1..=seconds {
        let time = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(n);
        watch.look(Reading { time, flows: flows(n as f64) });
    }
    watch.suggestions(DEBIAN)
}

/// All of it can be pasted.
fn paths(suggestions: &Suggestions) -> usize {
    let toml = suggestions.to_string();
    if !toml.contains("\n[[path]]") {
        return 0;
    }
    match Config::parse("suggested.toml", &toml, &Host::default()) {
        Ok(config) => config.paths.len(),
        Err(errors) => panic!("{errors}\n{toml}"),
    }
}

#[test]
fn a_window_that_limits_is_to_be_four_times_as_large() {
    let suggestions = watch(10, |n| vec![flow(1, "203.0.113.5:443", n, "SndLimTimeRwin")]);
    let [only] = &suggestions.suggestions[..] else { panic!("{suggestions:?}") };
    assert_eq!((only.connections, only.remote.as_str()), (1, "203.0.113.5"));
    assert_eq!((only.limits[0].limit, only.limits[0].share), (Limit::PeerWindow, 1.0));
    assert_eq!(only.limits[0].evidence.as_deref(), Some("3.0 MiB in each 70 ms makes 360 Mbit/s"));
    let toml = &only.path.as_ref().unwrap().toml;
    assert!(toml.contains("bandwidth = \"1.4Gbit\"\nrtt = \"70000us\"\n"), "{toml}");
    assert!(toml.contains("sndbuf = \"auto\"  # the next limit"), "{toml}");
    assert!(only.notes[0].contains("remote = \"192.0.2.1\""), "{only:?}");
    assert_eq!(paths(&suggestions), 1);
}

#[test]
fn what_no_buffer_helps_is_said_to_be_so() {
    let suggestions = watch(10, |n| vec![flow(1, "203.0.113.5:443", n, "SndLimTimeSnd")]);
    let [only] = &suggestions.suggestions[..] else { panic!("{suggestions:?}") };
    assert_eq!((only.limits[0].limit, &only.path), (Limit::SendingApplication, &None));
    let text = suggestions.to_string();
    assert!(text.contains("Nothing here would help any of them"), "{text}");
    assert!(text.contains("as soon as the application writes"), "{text}");
    assert_eq!(paths(&suggestions), 0);
}

#[test]
fn the_kernels_own_buffers_are_not_suggested() {
    // A LAN: the window is small, and the kernel would give more.
    let near = |n| {
        let mut flow = flow(1, "203.0.113.5:443", n, "SndLimTimeSndbuf");
        let set = [("SmoothedRTT", 200.0), ("MinRTT", 190.0)];
        let others = flow.instruments.iter().map(|(name, value)| {
            let new = set.iter().find(|(key, _)| *key == name);
            (name.to_owned(), new.map_or(value, |(_, value)| Some(*value)))
        });
        flow.instruments = others.collect();
        flow
    };
    let suggestions = watch(10, |n| vec![near(n)]);
    let [only] = &suggestions.suggestions[..] else { panic!("{suggestions:?}") };
    assert_eq!((only.limits[0].limit, &only.path), (Limit::SendBuffer, &None));
    assert!(only.notes[0].contains("override_setsockopt"), "{only:?}");
}

#[test]
fn neighbours_are_one_prefix_where_they_are_alike() {
    let remotes = |n| {
        let to = |cookie, remote: &str, timer| flow(cookie, remote, n, timer);
        vec![
            to(1, "203.0.113.5:443", "SndLimTimeRwin"),
            to(2, "203.0.113.6:443", "SndLimTimeRwin"),
            to(3, "203.0.113.7:443", "SndLimTimeRwin"),
            // Elsewhere.
            to(4, "198.51.100.1:443", "SndLimTimeRwin"),
            // The same network, but its application is slow.
            to(5, "203.0.113.200:443", "SndLimTimeSnd"),
            to(6, "[2001:db8::5]:443", "SndLimTimeRwin"),
            to(7, "[2001:db8::6]:443", "SndLimTimeRwin"),
        ]
    };
    let suggestions = watch(3, remotes);
    let mut found: Vec<_> = suggestions
        .suggestions
        .iter()
        .map(|it| (it.remote.as_str(), it.connections, it.path.is_some()))
        .collect();
    found.sort_unstable();
    let expected = [
        ("198.51.100.1", 1, true),
        ("2001:db8::4/126", 2, true),
        ("203.0.113.200", 1, false),
        ("203.0.113.4/30", 3, true),
    ];
    assert_eq!(found, expected);
    assert_eq!(paths(&suggestions), 3);
}

#[test]
fn what_is_tuned_or_seen_once_is_only_counted() {
    let suggestions = watch(3, |n| {
        let mut tuned = flow(1, "203.0.113.5:443", n, "SndLimTimeRwin");
        tuned.outcome = "tuned".into();
        // Another one at each look.
        let short = flow(10 + n as u64, "203.0.113.6:443", n, "SndLimTimeRwin");
        let own = flow(2, "127.0.0.1:443", n, "SndLimTimeRwin");
        vec![tuned, short, own]
    });
    assert!(suggestions.suggestions.is_empty(), "{suggestions:?}");
    assert_eq!((suggestions.left_out.tuned, suggestions.left_out.too_short), (1, 2));
}

#[test]
fn idle_connections_are_only_counted() {
    let suggestions = watch(3, |n| {
        let mut idle = flow(1, "203.0.113.5:443", n, "SndLimTimeSnd");
        let values = idle.instruments.iter().map(|(name, value)| {
            let moves = name.starts_with("HC") || name.ends_with("Queue");
            (name.to_owned(), if moves { Some(0.0) } else { value })
        });
        idle.instruments = values.collect();
        vec![idle]
    });
    assert!(suggestions.suggestions.is_empty(), "{suggestions:?}");
    assert_eq!(suggestions.left_out.idle, 1);
}

#[test]
fn no_numbers_make_it_fail() {
    for value in [None, Some(0.0), Some(f64::NAN), Some(f64::INFINITY), Some(1e300)] {
        let suggestions = watch(3, |n| {
            let mut wild = flow(1, "203.0.113.5:443", n, "SndLimTimeRwin");
            let names: Vec<_> = wild.instruments.names().to_vec();
            let all = names.into_iter().map(|name| match name.as_str() {
                "ElapsedSecs" => (name, Some(n)),
                _ => (name, value),
            });
            wild.instruments = all.collect();
            vec![wild]
        });
        paths(&suggestions);
    }
}
