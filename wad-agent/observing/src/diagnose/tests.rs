//! Each limit from numbers that it shows itself by, and nonsense.

use proptest::prelude::*;
use wad_instruments::{Flow, STANDARD, Values};

use super::{
    Diagnosis, FIELDS,
    advice::Place,
    course::{Course, Span},
    limit::Limit,
    mtu::{Interface, PATH_MTU, shortfall},
    sender::{MAX_PACING, MAX_WINDOW, QUEUED},
    show::Page,
    worst_first,
};

/// A second of a sender that waits for nothing but its congestion window, which it
/// fills: 1000 segments in each 100 ms, with no queue and no loss.
const BEFORE: &[(&str, f64)] = &[
    ("ElapsedSecs", 10.0),
    ("HCThruOctetsAcked", 1e6),
    ("HCThruOctetsReceived", 0.0),
    ("DataSegsOut", 700.0),
    ("SegsRetrans", 0.0),
    ("CurTimeoutCount", 0.0),
    ("CurCwnd", 1_440_000.0),
    ("CurMSS", 1440.0),
    ("CurRetxQueue", 1_440_000.0),
    ("CurAppWQueue", 100_000.0),
    ("CurAppRQueue", 0.0),
    ("CurRwinRcvd", 3_000_000.0),
    ("CurRwinSent", 64_000.0),
    ("SmoothedRTT", 100_000.0),
    ("MinRTT", 99_000.0),
    ("SndLimTimeRwin", 0.0),
    ("SndLimTimeCwnd", 10_000.0),
    ("SndLimTimeSnd", 0.0),
    ("SndLimTimeSndbuf", 0.0),
    ("SndBuf", 4_000_000.0),
    ("IsAppLimited", 0.0),
    (MAX_WINDOW, 3_000_000.0),
    (MAX_PACING, 1.8e19),
    (QUEUED, 1_600_000.0),
    (PATH_MTU, 1500.0),
];
const AFTER: &[(&str, f64)] = &[
    ("ElapsedSecs", 11.0),
    ("HCThruOctetsAcked", 15_400_000.0),
    ("DataSegsOut", 10_700.0),
    ("CurCwnd", 1_454_400.0),
    ("CurRetxQueue", 1_454_400.0),
    ("SndLimTimeCwnd", 11_000.0),
];

/// Values of `base`, with others in their places.
fn flow(changes: &[&[(&str, f64)]]) -> Flow {
    let mut values = BEFORE.to_vec();
    for &(name, value) in changes.iter().copied().flatten() {
        values.retain(|(known, _)| *known != name);
        values.push((name, value));
    }
    with(values.into_iter().map(|(name, value)| (name, Some(value))).collect())
}

fn with(instruments: Values) -> Flow {
    Flow {
        cookie: 4711,
        netns: 4_026_531_840,
        path: "bob".into(),
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "10.5.128.74:5201".parse().unwrap(),
        role: "connected".into(),
        outcome: "tuned".into(),
        refused: vec![],
        congestion: "cubic".into(),
        owner: wad_instruments::Owner::default(),
        instruments,
    }
}

fn diagnose_flows(before: &Flow, after: &Flow) -> Diagnosis {
    Diagnosis::new(&Course::new(vec![before, after], Span::Watched).unwrap())
}

/// Diagnoses a flow with the same changes before and after, and then those of after.
fn diagnose(both: &[(&str, f64)], after: &[(&str, f64)]) -> Diagnosis {
    diagnose_flows(&flow(&[both]), &flow(&[AFTER, both, after]))
}

fn limit(both: &[(&str, f64)], after: &[(&str, f64)]) -> Limit {
    diagnose(both, after).finding.limit
}

const ALL_RWIN: &[(&str, f64)] = &[("SndLimTimeCwnd", 10_050.0), ("SndLimTimeRwin", 950.0)];

#[test]
fn a_small_window_of_the_peer_is_told_from_one_that_is_closed() {
    let both = [("CurRwinRcvd", 65_536.0), ("CurRetxQueue", 65_536.0), (MAX_WINDOW, 70_000.0)];
    let after = [ALL_RWIN, &[("HCThruOctetsAcked", 1_655_360.0)]].concat();
    let diagnosis = diagnose(&both, &after);
    assert_eq!(diagnosis.finding.limit, Limit::PeerWindow);
    assert!((diagnosis.finding.share.unwrap() - 0.95).abs() < 1e-9);
    assert_eq!(diagnosis.advice.place, Place::OtherEnd);
    assert_eq!(diagnosis.advice.lines, ["rcvbuf = \"256KiB\""]);
    assert!(diagnosis.finding.evidence[0].contains("64.0 KiB in each 100 ms makes 5.24 Mbit/s"));

    let closed = [("CurRwinRcvd", 1000.0), (MAX_WINDOW, 70_000.0)];
    let diagnosis = diagnose(&closed, &after);
    assert_eq!(diagnosis.finding.limit, Limit::ReceivingApplication);
    assert!(diagnosis.advice.lines.is_empty());
}

#[test]
fn a_window_that_the_kernel_keeps_small_is_told_from_a_small_buffer() {
    let received = [
        ("HCThruOctetsAcked", 0.0),
        ("CurRetxQueue", 0.0),
        ("CurAppWQueue", 0.0),
        ("CurRwinSent", 4_096.0),
    ];
    // A window in each RTT.
    let after = [("HCThruOctetsAcked", 0.0), ("HCThruOctetsReceived", 40_960.0)];
    let notes = |buffer: f64, unread: f64, seconds: f64| {
        let more = [("RcvBuf", buffer), ("CurAppRQueue", unread)];
        let both = [&received[..], &more].concat();
        let times = [("ElapsedSecs", seconds)];
        let before = flow(&[&both, &times]);
        let times = [("ElapsedSecs", seconds + 1.0)];
        let diagnosis = diagnose_flows(&before, &flow(&[AFTER, &both, &after, &times]));
        assert_eq!(diagnosis.finding.limit, Limit::OwnWindow);
        (diagnosis.advice.lines.len(), diagnosis.advice.notes.concat().contains("6.17"))
    };
    assert_eq!(notes(6e6, 0.0, 10.0), (0, true));
    // A buffer that is as small, and a connection that has just begun.
    assert_eq!(notes(8_192.0, 0.0, 10.0), (1, false));
    assert_eq!(notes(6e6, 0.0, 0.5), (1, false));
}

#[test]
fn a_peer_that_never_offered_more_than_64_kib_is_suspect() {
    let both = [("CurRwinRcvd", 65_535.0), (MAX_WINDOW, 65_535.0)];
    let notes = diagnose(&both, ALL_RWIN).advice.notes.concat();
    assert!(notes.contains("window scaling"), "{notes}");
}

#[test]
fn a_full_send_buffer() {
    let both = [("CurRetxQueue", 100_000.0)];
    let after = [
        ("HCThruOctetsAcked", 2e6),
        ("SndLimTimeCwnd", 10_300.0),
        ("SndLimTimeSnd", 700.0),
        ("SndLimTimeSndbuf", 690.0),
    ];
    let diagnosis = diagnose(&both, &after);
    assert_eq!(diagnosis.finding.limit, Limit::SendBuffer);
    assert!((diagnosis.finding.share.unwrap() - 0.69).abs() < 1e-9);
    assert_eq!(diagnosis.advice.place, Place::Here);
    // Four times 100 kB, which are both what is sent and rate times RTT.
    assert_eq!(diagnosis.advice.lines, ["sndbuf = \"512KiB\""]);
}

#[test]
fn a_send_buffer_that_the_congestion_window_has_grown_to() {
    let both = [("CurAppWQueue", 0.0), (QUEUED, 3_500_000.0), ("CurSsthresh", 1e6)];
    assert_eq!(limit(&both, &[]), Limit::SendBuffer);
    let unsent = [("CurAppWQueue", 200_000.0), (QUEUED, 3_500_000.0), ("CurSsthresh", 1e6)];
    assert_eq!(limit(&unsent, &[]), Limit::WindowGrowth);
    let below_window = [&unsent[..], &[("SndBuf", 1e6)]].concat();
    assert_eq!(limit(&below_window, &[]), Limit::SendBuffer);
}

#[test]
fn a_larger_window_is_no_use_where_the_path_is_full() {
    let full = [("SmoothedRTT", 250_000.0), (MAX_WINDOW, 3_000_000.0)];
    assert_eq!(limit(&full, ALL_RWIN), Limit::PathRate);
    let buffer = [&full[..], &[("CurAppWQueue", 0.0), (QUEUED, 3_500_000.0)]].concat();
    assert_eq!(limit(&buffer, &[]), Limit::PathRate);
}

#[test]
fn an_application_that_writes_little() {
    let idle = [("SndLimTimeCwnd", 10_100.0), ("SndLimTimeSnd", 900.0)];
    assert_eq!(limit(&[], &idle), Limit::SendingApplication);
    // Data are always on their way, but no more wait.
    let both = [("IsAppLimited", 1.0), ("CurAppWQueue", 0.0), ("CurRetxQueue", 5000.0)];
    assert_eq!(limit(&both, &[]), Limit::SendingApplication);
}

#[test]
fn a_queue_on_the_path() {
    let both = [("SmoothedRTT", 150_000.0), ("CurSsthresh", 1e6)];
    assert_eq!(limit(&both, &[]), Limit::PathRate);
    // Losses are then those of the queue.
    assert_eq!(limit(&both, &[("SegsRetrans", 20.0)]), Limit::PathRate);
    // Not a queue, but the noise of a short path.
    let short = [("SmoothedRTT", 300.0), ("MinRTT", 100.0), ("CurSsthresh", 1e6)];
    assert_eq!(limit(&short, &[]), Limit::WindowGrowth);
}

#[test]
fn a_device_that_takes_no_more() {
    let both = [("CurRetxQueue", 300_000.0), ("CurSsthresh", 1e6)];
    let diagnosis = diagnose(&both, &[("CurRetxQueue", 300_000.0)]);
    assert_eq!(diagnosis.finding.limit, Limit::PathRate);
    assert!(diagnosis.finding.evidence[0].contains("wait in this host"));
}

#[test]
fn losses_without_a_queue() {
    let both = [("CurSsthresh", 1e6)];
    let diagnosis = diagnose(&both, &[("SegsRetrans", 100.0)]);
    assert_eq!(diagnosis.finding.limit, Limit::Loss);
    assert_eq!(diagnosis.advice.lines, ["loss = \"leaky\"", "allow = \"aggressive\""]);
    let evidence = &diagnosis.finding.evidence[0];
    assert!(evidence.starts_with("100 of 10000 segments sent again, 1%"), "{evidence}");
    // RFC 9438, section 4.3: as many losses leave it Reno's window, sqrt(1.5 / p) segments.
    assert!(evidence.contains("a CUBIC flow's window is 17.2 KiB"), "{evidence}");

    let mut after = flow(&[AFTER, &both, &[("SegsRetrans", 100.0)]]);
    after.congestion = "wad_leaky".into();
    assert!(diagnose_flows(&flow(&[&both]), &after).advice.lines.is_empty());
}

#[test]
fn a_path_that_swallows_everything() {
    let after = [("HCThruOctetsAcked", 1e6), ("CurTimeoutCount", 4.0), ("SegsRetrans", 2.0)];
    let diagnosis = diagnose(&[], &after);
    assert_eq!(diagnosis.finding.limit, Limit::Loss);
    assert!(diagnosis.finding.evidence[0].contains("4 timeouts in a row"));
}

#[test]
fn a_rate_that_was_set() {
    let both = [(MAX_PACING, 15e6), ("PacingRate", 15e6), ("CurRetxQueue", 700_000.0)];
    assert_eq!(limit(&both, &[]), Limit::Pacing);
    // One that follows the window is none.
    let law = [("PacingRate", 15e6), ("CurSsthresh", 1e6)];
    assert_eq!(limit(&law, &[]), Limit::WindowGrowth);
}

#[test]
fn windows_that_grow_and_one_that_does_not() {
    assert_eq!(limit(&[], &[]), Limit::SlowStart);
    assert_eq!(limit(&[("CurSsthresh", 2e6)], &[]), Limit::SlowStart);
    let diagnosis = diagnose(&[("CurSsthresh", 1e6)], &[]);
    assert_eq!(diagnosis.finding.limit, Limit::WindowGrowth);
    assert_eq!(
        diagnosis.advice.lines[..2],
        ["congestion = \"wad_cubic\"", "equivalent_streams = 2"]
    );
    let same = [("CurCwnd", 1_440_000.0), ("CurRetxQueue", 1_440_000.0)];
    assert_eq!(limit(&same, &[]), Limit::WindowCap);
}

/// A receiver of 10 MB in a second.
const RECEIVES: &[(&str, f64)] =
    &[("HCThruOctetsAcked", 1e6), ("HCThruOctetsReceived", 10e6), ("SmoothedRTT", 100_000.0)];

#[test]
fn a_receiver_says_what_it_can() {
    let roomy = diagnose(&[("CurRwinSent", 6e6)], RECEIVES);
    assert_eq!(roomy.finding.limit, Limit::OtherEnd);
    assert_eq!(roomy.bits_per_second, Some(80e6));
    let full = diagnose(&[("CurRwinSent", 1e6)], RECEIVES);
    assert_eq!(full.finding.limit, Limit::OwnWindow);
    assert_eq!(full.advice.lines, ["rcvbuf = \"4MiB\""]);
    let unread = [("CurRwinSent", 10_000.0), ("CurAppRQueue", 900_000.0)];
    assert_eq!(diagnose(&unread, RECEIVES).finding.limit, Limit::ReceivingApplication);
    // Nothing arrives any more.
    let stuck = [&unread[..], &[("CurRetxQueue", 0.0), ("CurAppWQueue", 0.0)]].concat();
    let after = [("HCThruOctetsAcked", 1e6), ("CurRetxQueue", 0.0)];
    assert_eq!(diagnose(&stuck, &after).finding.limit, Limit::ReceivingApplication);
}

#[test]
fn nobody_sends() {
    let none = [("CurRetxQueue", 0.0), ("CurAppWQueue", 0.0), ("HCThruOctetsAcked", 1e6)];
    assert_eq!(limit(&none, &none), Limit::Idle);
}

#[test]
fn a_life_is_judged_by_one_reading() {
    let flow = flow(&[&[("SndLimTimeRwin", 30_000.0)]]);
    assert!(Course::new(vec![&flow], Span::Watched).is_none());
    let diagnosis = Diagnosis::new(&Course::new(vec![&flow], Span::Life).unwrap());
    assert_eq!(diagnosis.finding.limit, Limit::PeerWindow);
    assert!((diagnosis.finding.share.unwrap() - 0.75).abs() < 1e-9);
    assert_eq!(diagnosis.bits_per_second, Some(800e3));
}

#[test]
fn one_that_was_found_running_is_judged_by_what_is_watched() {
    let running = |changes: &[&[(&str, f64)]]| {
        let mut flow = flow(changes);
        let known = flow.instruments.iter().filter(|(name, _)| *name != "SndLimTimeSnd");
        let values = known.map(|(name, value)| (name.to_owned(), value)).collect();
        flow.instruments = values;
        flow
    };
    let idle = [("SndLimTimeCwnd", 10_200.0)];
    let (before, after) = (running(&[]), running(&[AFTER, &idle]));
    let diagnosis = diagnose_flows(&before, &after);
    assert_eq!(diagnosis.finding.limit, Limit::SendingApplication);
    assert!((diagnosis.finding.shares.unwrap().application - 0.8).abs() < 1e-9);
    let life = Diagnosis::new(&Course::new(vec![&after], Span::Life).unwrap());
    assert_eq!(life.finding.limit, Limit::Unknown);
    assert!(life.finding.evidence[0].contains("found running"), "{life:?}");
}

#[test]
fn counters_that_go_backwards_are_not_known() {
    let diagnosis = diagnose(&[], &[("SndLimTimeCwnd", 5.0)]);
    assert_eq!((diagnosis.finding.limit, diagnosis.finding.share), (Limit::Unknown, None));
    let diagnosis = diagnose(&[], &[("ElapsedSecs", 3.0)]);
    assert_eq!(diagnosis.bits_per_second, None);
}

#[test]
fn packets_that_could_be_larger() {
    let interface = |mtu_bytes| Interface { name: "eth0".to_owned(), mtu_bytes };
    let said = |changes: &[(&str, f64)], mtu_bytes| {
        let flow = flow(&[changes]);
        shortfall(&Course::new(vec![&flow], Span::Life).unwrap(), &interface(mtu_bytes))
    };
    assert_eq!(said(&[], 1500), None);
    let tunnel = said(&[(PATH_MTU, 1400.0)], 1500).unwrap();
    assert!(tunnel.starts_with("the path takes packets of 1400 bytes, eth0 of 1500"), "{tunnel}");
    let clamped = said(&[("CurMSS", 1200.0)], 1500).unwrap();
    assert!(clamped.starts_with("segments have 1200 bytes, of the 1460"), "{clamped}");
}

#[test]
fn the_page_is_as_agreed() {
    let both = [("CurRetxQueue", 100_000.0)];
    let after = [
        ("HCThruOctetsAcked", 2e6),
        ("SndLimTimeCwnd", 10_300.0),
        ("SndLimTimeSnd", 700.0),
        ("SndLimTimeSndbuf", 690.0),
    ];
    let mut diagnosis = diagnose(&both, &after);
    let expected = "\
10.0.0.1:40000 sends to 10.5.128.74:5201, path bob, cubic, cookie 4711
limited by the send buffer, 69% of the time
  it waits for: the peer's window 0%, the send buffer 69%, the application 1%, the congestion window 30%
- the application waits to write more: the send buffer, 3.8 MiB as the kernel counts, is full with 97.7 KiB on their way
- 8 Mbit/s acknowledged
- RTT 100 ms, at least 99 ms
- congestion window 1.4 MiB, 1005 segments
what would help, in the policy of path bob:
    sndbuf = \"512KiB\"
- where the application sets SO_SNDBUF itself, `override_setsockopt = true` as well
";
    assert_eq!(Page(std::slice::from_ref(&diagnosis)).to_string(), expected);

    diagnosis.remote = "[2001:db8::5]:443".parse().unwrap();
    let many: Vec<Diagnosis> = vec![diagnosis; 5000];
    let table = Page(&many).to_string();
    assert_eq!(table.lines().count(), 22);
    assert!(table.lines().all(|line| line.len() <= 120), "{table}");
    assert!(table.contains("and 4980 more"), "{table}");
}

#[test]
fn what_can_be_helped_comes_first() {
    let mut diagnoses = vec![
        diagnose(&[], &[("SndLimTimeCwnd", 10_100.0), ("SndLimTimeSnd", 900.0)]),
        diagnose(&[], &[ALL_RWIN, &[("SndLimTimeCwnd", 10_500.0)]].concat()),
        diagnose(&[], ALL_RWIN),
    ];
    worst_first(&mut diagnoses);
    let order: Vec<Limit> = diagnoses.iter().map(|diagnosis| diagnosis.finding.limit).collect();
    assert_eq!(order, [Limit::PeerWindow, Limit::PeerWindow, Limit::SendingApplication]);
    assert!(diagnoses[0].finding.share > diagnoses[1].finding.share);
}

fn number() -> impl Strategy<Value = Option<f64>> {
    let plausible = prop_oneof![Just(0.0), Just(1.0), 0.0..1e3_f64, 0.0..1e12_f64];
    prop_oneof![
        1 => Just(None),
        8 => plausible.prop_map(Some),
        1 => any::<f64>().prop_map(Some),
        1 => Just(Some(f64::NAN)),
    ]
}

fn reading() -> impl Strategy<Value = Flow> {
    let names: Vec<&str> =
        STANDARD.iter().map(|instrument| instrument.name).chain(FIELDS).collect();
    let congestion = prop_oneof![Just("cubic"), Just("bbr"), Just("wad_leaky"), Just("")];
    (prop::collection::vec(number(), names.len()), congestion).prop_map(move |(values, name)| {
        let mut flow = with(names.iter().copied().zip(values).collect());
        flow.congestion = name.into();
        flow
    })
}

proptest! {
    #[test]
    fn nonsense_gets_an_answer(samples in prop::collection::vec(reading(), 1..5), life: bool) {
        let span = if life { Span::Life } else { Span::Watched };
        let Some(course) = Course::new(samples.iter().collect(), span) else { return Ok(()) };
        let diagnosis = Diagnosis::new(&course);
        if let Some(share) = diagnosis.finding.share {
            prop_assert!((0.0..=1.0 + 1e-9).contains(&share), "{share}");
        }
        for line in &diagnosis.advice.lines {
            prop_assert!(!line.contains("NaN") && !line.contains("inf"), "{line}");
        }
        let page = Page(std::slice::from_ref(&diagnosis)).to_string();
        prop_assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
        serde_json::to_string(&diagnosis).unwrap();
        let _ = shortfall(&course, &Interface { name: "eth0".to_owned(), mtu_bytes: 1500 });
    }
}
