//! Pictures of both sizes, with no flow, one, and thousands.

use jiff::Timestamp;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use wad_agent::{
    guards::{GuardState, GuardTold},
    status::{Evidence, ExperimentStatus},
};
use wad_instruments::{Flow, Reading};

use super::{
    draw::{KEYS, draw, page},
    state::{Then, TopState, View},
};

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 50);

/// Returns a reading of so many flows on so many paths, each of which has sent 1 MB
/// in each second so far, the n-th n bytes more, and waited for the peer's window.
fn reading(seconds: u32, flows: u16, paths: u16) -> Reading {
    let flow = |index: u16| {
        let octets = f64::from(seconds) * (1e6 + f64::from(index));
        let values = [
            ("ElapsedSecs", f64::from(seconds)),
            ("HCThruOctetsAcked", octets),
            ("HCThruOctetsReceived", 0.0),
            ("DataSegsOut", f64::from(seconds) * 700.0),
            ("SegsRetrans", f64::from(seconds) * 7.0),
            ("CurCwnd", 100_000.0),
            ("SmoothedRTT", 70_000.0),
            ("SndLimTimeRwin", f64::from(seconds) * 900.0),
            ("SndLimTimeCwnd", f64::from(seconds) * 100.0),
            ("SndLimTimeSnd", 0.0),
            ("SndLimTimeSndbuf", 0.0),
        ];
        Flow {
            cookie: 1000 + u64::from(index),
            netns: 1,
            path: format!("path-{}", index % paths).into(),
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 5, (index / 250) as u8, (index % 250) as u8], 5201).into(),
            role: "connected".into(),
            outcome: "tuned".into(),
            refused: vec![],
            congestion: "wad_highspeed".into(),
            owner: wad_instruments::Owner::default(),
            instruments: values.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        }
    };
    Reading { time: Timestamp::UNIX_EPOCH, flows: (0..flows).map(flow).collect() }
}

/// A guard holds the policy of the second path back; the first has an experiment.
fn evidence() -> Evidence {
    let guard = |number: u8, state, share| GuardTold {
        path: format!("path-{number}"),
        state,
        share,
        left_seconds: None,
        dry_run: false,
        trips: 1,
        tripped: None,
        signals: Vec::new(),
    };
    let experiment = ExperimentStatus {
        path: "path-0".to_owned(),
        is_over: false,
        ends: Timestamp::UNIX_EPOCH,
        arm: None,
        pairs: 7,
        planned_pairs: 252,
        blocks_thrown: 0,
        verdict: None,
    };
    Evidence {
        experiments: vec![experiment],
        guards: vec![guard(0, GuardState::InForce, 1.0), guard(1, GuardState::HoldOff, 0.0)],
    }
}

fn watched(flows: u16, paths: u16) -> TopState {
    let mut state = TopState::new(reading(1, flows, paths), &evidence());
    state.take(Ok(reading(2, flows, paths)), &evidence());
    state
}

/// Returns the lines of the screen.
fn picture(state: &mut TopState, (width, height): (u16, u16)) -> Vec<String> {
    state.page = page(height);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    let cells = terminal.backend().buffer().content();
    let symbols = cells.chunks(width.into());
    symbols.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

fn press(state: &mut TopState, keys: &str) -> Then {
    let key = |letter| match letter {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        letter => KeyCode::Char(letter),
    };
    keys.chars()
        .fold(Then::GoOn, |_, letter| state.key(KeyEvent::new(key(letter), KeyModifiers::NONE)))
}

#[test]
fn one_flow_on_the_smallest_terminal() {
    let lines = picture(&mut watched(1, 1), SMALL);
    assert_eq!(
        lines[0].trim_end(),
        "wad top: 1 flow, 1 path, send 8 Mbit/s, receive 0 bit/s, 1 held back"
    );
    assert_eq!(
        lines[1],
        "SENDS   GETS    REMOTE                PATH    CWND     RTT     AGAIN LIMITED BY "
    );
    assert_eq!(
        lines[2],
        "8 Mb    0 b     10.5.0.0:5201         path-0  97.7 K   70 ms   1.0%  peer window"
    );
    assert!(lines[23].contains("? keys") && lines[23].contains("q quit"), "{}", lines[23]);
}

#[test]
fn a_wide_terminal_has_all_columns() {
    let lines = picture(&mut watched(1, 1), LARGE);
    for title in ["LOCAL", "LAW", "COOKIE"] {
        assert!(lines[1].contains(title), "{}", lines[1]);
    }
    assert!(lines[2].contains("10.0.0.1:40000") && lines[2].contains("wad_highspeed"));
    assert!(lines[2].trim_end().ends_with("1000"), "{}", lines[2]);
}

#[test]
fn none_is_said() {
    for size in [SMALL, LARGE, (1, 1), (3, 2)] {
        let lines = picture(&mut watched(0, 1), size);
        assert!(size.0 < SMALL.0 || lines[3].starts_with("no flow of any path"), "{lines:?}");
    }
}

#[test]
fn thousands_fill_the_page_fastest_first_and_scroll() {
    let mut state = watched(5000, 3);
    for size in [SMALL, LARGE] {
        let rows = page(size.1);
        let lines = picture(&mut state, size);
        assert!(lines[0].starts_with("wad top: 5000 flows, 3 paths, send 40.1 Gbit/s"));
        // The 5000th, number 249 of the 19th network.
        assert!(lines[2].contains("10.5.19.249:5201"), "{}", lines[2]);
        assert!(lines[rows + 1].contains("10.5.19."), "{}", lines[rows + 1]);
        state.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
        let lines = picture(&mut state, size);
        assert!(lines[rows + 1].contains("10.5.0.0:5201"), "{}", lines[rows + 1]);
        state.key(KeyEvent::new(KeyCode::Home, KeyModifiers::NONE));
    }
    state.key(KeyEvent::new(KeyCode::PageDown, KeyModifiers::NONE));
    assert_eq!(state.above, page(LARGE.1));
}

#[test]
fn paths_are_sums_of_their_flows() {
    let mut state = watched(4, 2);
    press(&mut state, "\t");
    assert_eq!(state.view, View::Paths);
    let lines = picture(&mut state, SMALL);
    assert!(lines[2].starts_with("16 Mb "), "{}", lines[2]);
    assert!(lines[2].contains(" path-1 ") && lines[2].contains(" 2 "), "{}", lines[2]);
    assert!(lines[2].trim_end().ends_with("peer window     held back"), "{}", lines[2]);
    assert!(lines[3].trim_end().ends_with("7/252 pairs"), "{}", lines[3]);
    press(&mut state, "f");
    assert_eq!(state.view, View::Flows);
}

#[test]
fn rows_are_filtered_and_sorted() {
    let mut state = watched(600, 3);
    press(&mut state, "/10.5.1.7:\n");
    let lines = picture(&mut state, SMALL);
    assert!(lines[2].contains("10.5.1.7:5201") && lines[3].trim().is_empty(), "{lines:?}");
    assert!(lines[23].contains("only rows with \"10.5.1.7:\""), "{}", lines[23]);
    press(&mut state, "\u{1b}");
    assert_eq!(state.shown_flows().len(), 600);
    // By the remote address, as text, and the other way round.
    press(&mut state, "ss");
    assert_eq!(state.shown_flows()[0].remote, "10.5.0.0:5201");
    press(&mut state, "r");
    assert_eq!(state.shown_flows()[599].remote, "10.5.0.0:5201");
    press(&mut state, "/nobody\n");
    assert!(picture(&mut state, SMALL)[3].starts_with("nothing with this text"));
}

#[test]
fn a_pause_holds_the_picture() {
    let mut state = watched(1, 1);
    press(&mut state, " ");
    state.take(Ok(reading(3, 5, 1)), &evidence());
    assert_eq!(state.flows.len(), 1);
    assert!(picture(&mut state, SMALL)[0].contains("paused"));
    press(&mut state, " ");
    state.take(Ok(reading(4, 5, 1)), &evidence());
    assert_eq!(state.flows.len(), 5);
}

#[test]
fn trouble_is_shown_until_it_is_over() {
    let mut state = watched(1, 1);
    state.take(Err(anyhow::anyhow!("no agent runs")), &evidence());
    assert!(picture(&mut state, SMALL)[23].starts_with("no agent runs"));
    assert_eq!(state.flows.len(), 1);
    state.take(Ok(reading(3, 1, 1)), &evidence());
    assert!(!picture(&mut state, SMALL)[23].contains("no agent"));
}

#[test]
fn keys_are_shown_and_heeded() {
    let mut state = watched(1, 1);
    press(&mut state, "?");
    let lines = picture(&mut state, SMALL).concat();
    assert!(KEYS.lines().all(|key| lines.contains(key)), "{lines}");
    press(&mut state, "x");
    assert!(!state.shows_help);
    assert_eq!(press(&mut state, "/q"), Then::GoOn);
    assert_eq!(press(&mut state, "\u{1b}q"), Then::Quit);
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(state.key(control('c')), Then::Quit);
    assert_eq!(state.key(control('z')), Then::Suspend);
}

#[test]
fn a_flow_that_is_new_has_no_rate_yet() {
    let mut state = TopState::new(reading(1, 1, 1), &evidence());
    let lines = picture(&mut state, SMALL);
    assert!(lines[2].starts_with("-       -"), "{}", lines[2]);
}

#[test]
fn names_cannot_speak_to_the_terminal() {
    let mut reading = reading(1, 1, 1);
    reading.flows[0].path = "\u{1b}[2J".into();
    assert_eq!(TopState::new(reading, &evidence()).flows[0].path, "\\u{1b}[2J");
}
