//! A flow for tests.

use super::{Flow, Owner, Place};

/// Returns one that has sent so many octets in so many seconds, the path's bound for
/// nine of them.
pub fn flow(cookie: u64, seconds: f64, octets: f64) -> Flow {
    let values = [
        ("ElapsedSecs", Some(seconds)),
        ("HCThruOctetsAcked", Some(octets)),
        ("HCThruOctetsReceived", Some(0.0)),
        ("DataSegsOut", Some(1000.0)),
        ("SegsRetrans", Some(1.0)),
        ("CurCwnd", Some(14_480.0)),
        ("CurMSS", Some(1448.0)),
        ("SmoothedRTT", Some(75_120.0)),
        ("SndLimTimeRwin", Some(0.0)),
        ("SndLimTimeCwnd", Some(9000.0)),
        ("SndLimTimeSndbuf", Some(0.0)),
        ("Phase", Some(2.0)),
    ];
    Flow {
        cookie,
        netns: 4_026_531_840,
        path: "bob".into(),
        local: "192.0.2.1:40000".parse().unwrap(),
        remote: "203.0.113.5:443".parse().unwrap(),
        role: "connected".into(),
        outcome: "tuned".into(),
        refused: vec![],
        congestion: "wad_aimd".into(),
        owner: owner(),
        instruments: values.into_iter().collect(),
    }
}

/// Returns one who has all that can be known of him but a container.
pub fn owner() -> Owner {
    Owner {
        uid: Some(1_000),
        pid: Some(4_711),
        process: Some("globus-gridftp-".into()),
        place: Place::of("system.slice/globus.service"),
    }
}
