use wad_policy::{
    config::testing::host,
    law::Law,
    tuning_plan::{FlowCounts, Look, Refusal},
};

use super::*;
use crate::sources::{
    Answer, Reading, Sample, seconds_since_1970,
    testing::{Given, record},
};

const RTT_20: Given = Given { metric: Metric::Rtt, value: 0.02, age_seconds: 0.0 };
const RTT_120: Given = Given { value: 0.12, ..RTT_20 };

fn config() -> Config {
    let source = |name, stale| {
        format!(
            "[[source]]\nname = '{name}'\nkind = 'prometheus'\nurl = 'http://[::1]:9090'\n\
             rtt = 'rtt'\nstale_after = '{stale}'\n"
        )
    };
    let text = format!(
        "{}{}[[path]]\nname = 'static'\nremote = '192.0.2.0/24'\nsndbuf = '1MiB'\n\
         [[path]]\nname = 'measured'\nremote = '10.0.0.0/8'\nmode = 'measured'\n\
         bandwidth = '1Gbit'\nrtt = '50ms'\nsndbuf = 'auto'\n",
        source("first", "1min"),
        source("second", "1h"),
    );
    Config::parse("wad.toml", &text, &host()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the clocks of a host that was suspended up to then.
fn at(since_boot: Moment, time: SystemTime) -> Now {
    Now { since_boot, time, ..Now::read() }
}

struct Bench {
    measured: Measured,
    folder: tempfile::TempDir,
    start: Moment,
    time: SystemTime,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let measured = Self::agent(&folder);
        Self { measured, folder, start: clock::now(), time: SystemTime::now() }
    }

    fn agent(folder: &tempfile::TempDir) -> Measured {
        Measured::new(&config(), 1 << 40, KernelBuffers::default(), cache(folder.path(), "test"))
    }

    fn gives(&self, source: usize, given: Given, after_seconds: u64) {
        let time = self.time + Duration::from_secs(after_seconds);
        record(&mut self.measured.board.store(), source, given, time);
    }

    /// A source gives it a second time.
    fn confirms(&self, source: usize, given: Given, after_seconds: u64) {
        self.gives(source, Given { age_seconds: 0.5, ..given }, after_seconds);
        self.gives(source, given, after_seconds);
    }

    /// The buffer that is put in force, if one is.
    fn review(&mut self, after_seconds: u64) -> Option<u32> {
        let after = Duration::from_secs(after_seconds);
        let changed = self.measured.review(at(self.start + after, self.time + after));
        (changed != Change::Nothing).then(|| self.sndbuf())
    }

    fn sndbuf(&self) -> u32 {
        let policies = self.measured.policies().unwrap();
        assert_eq!(policies[0].sndbuf_bytes, Some(1 << 20));
        policies[1].sndbuf_bytes.unwrap()
    }
}

const fn sndbuf(rtt_ms: u32) -> u32 {
    125_000 * rtt_ms / 4 * 5
}

#[test]
fn a_path_follows_falls_back_and_recovers() {
    let mut bench = Bench::new();
    assert_eq!(bench.sndbuf(), sndbuf(50));
    assert_eq!(bench.review(0), None);
    // A jump counts with the second measurement.
    bench.gives(0, Given { age_seconds: 0.5, ..RTT_20 }, 1);
    assert_eq!(bench.review(1), None);
    bench.gives(0, RTT_20, 1);
    assert_eq!(bench.review(1), Some(sndbuf(20)));
    assert_eq!(bench.review(61), None);
    // A minute later it is too old.
    assert_eq!(bench.review(62), Some(sndbuf(50)));
    assert_eq!(bench.review(200), None);
    bench.gives(0, RTT_20, 201);
    assert_eq!(bench.review(201), Some(sndbuf(20)));
}

#[test]
fn the_time_between_changes_passes_while_the_host_is_suspended() {
    let mut bench = Bench::new();
    let now = Now { time: bench.time, ..Now::read() };
    bench.confirms(0, RTT_20, 0);
    assert_eq!(bench.measured.review(now), Change::Values);
    bench.confirms(0, RTT_120, 0);
    assert_eq!(bench.measured.review(now), Change::Nothing);
    // It wakes up after an hour.
    let since_boot = now.since_boot + Duration::from_secs(3_600);
    assert_eq!(bench.measured.review(Now { since_boot, ..now }), Change::Values);
}

#[test]
fn the_first_source_that_knows_has_the_say() {
    let mut bench = Bench::new();
    bench.confirms(1, RTT_120, 0);
    assert_eq!(bench.review(0), Some(sndbuf(120)));
    bench.confirms(0, RTT_20, 60);
    assert_eq!(bench.review(60), Some(sndbuf(20)));
    // The first is too old, the second not yet.
    assert_eq!(bench.review(130), Some(sndbuf(120)));
}

#[test]
fn a_path_that_flaps_changes_once_in_an_interval() {
    let mut bench = Bench::new();
    let mut changes = |polls| {
        let mut changes = 0;
        for second in 0..600 {
            bench.gives(0, if second / polls % 2 == 0 { RTT_20 } else { RTT_120 }, second);
            changes += u64::from(bench.review(second).is_some());
        }
        changes
    };
    // With each poll: no second measurement agrees.
    assert_eq!(changes(1), 0);
    let changes = changes(2);
    assert!((2..=10).contains(&changes), "{changes}");
}

/// Two paths, of which the first changes with each look: the other has its own time.
#[test]
fn a_path_that_flaps_postpones_nothing_of_another() {
    let path = |name, remote| {
        format!(
            "[[path]]\nname = '{name}'\nremote = '{remote}'\nmode = 'measured'\n\
             bandwidth = '1Gbit'\nsndbuf = 'auto'\n"
        )
    };
    let source = "[[source]]\nname = 's'\nkind = 'http'\nurl = 'http://[::1]:1'\n";
    let text = format!("{source}{}{}", path("flaps", "10.0.0.0/8"), path("steady", "192.0.2.0/24"));
    let config = Config::parse("wad.toml", &text, &host()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), "test");
    let mut measured = Measured::new(&config, 1 << 40, KernelBuffers::default(), cache);
    let (start, time) = (clock::now(), SystemTime::now());
    let mut look = |second: u64, rtts_seconds: [f64; 2]| {
        let after = Duration::from_secs(second);
        let measured_at_seconds = seconds_since_1970(time + after);
        let reading = |(target, value)| {
            let sample = Sample { value, measured_at_seconds, is_least: false };
            Reading { target, metric: Metric::Rtt, sample }
        };
        let readings = rtts_seconds.into_iter().enumerate().map(reading).collect();
        let answer = Answer { readings, errors: Vec::new() };
        measured.board.store().record(0, Ok(answer), time + after);
        measured.review(at(start + after, time + after));
        let policies = measured.policies().unwrap();
        [0, 1].map(|n| policies[n].sndbuf_bytes.unwrap())
    };
    let flaps = |second: u64| if second.is_multiple_of(2) { 0.1 } else { 0.15 };
    for second in 0..100 {
        let [_, other] = look(second, [flaps(second), 0.02]);
        assert_eq!(other, sndbuf(20));
    }
    let [_, other] = look(100, [flaps(100), 0.03]);
    assert_eq!(other, sndbuf(30));
}

#[test]
fn what_could_not_be_put_in_force_is_tried_again() {
    let mut bench = Bench::new();
    bench.confirms(0, RTT_20, 0);
    assert_eq!(bench.review(0), Some(sndbuf(20)));
    bench.measured.stays_as_it_was();
    assert_eq!(bench.sndbuf(), sndbuf(50));
    assert_eq!(bench.review(1), None);
    bench.gives(0, RTT_20, 60);
    assert_eq!(bench.review(60), Some(sndbuf(20)));
    // Once it is in force, there is nothing to put back but what comes later.
    assert_eq!(bench.review(61), None);
    bench.measured.stays_as_it_was();
    assert_eq!(bench.sndbuf(), sndbuf(20));
}

#[test]
fn a_value_far_from_the_files_changes_nothing_and_is_said_once() {
    let mut bench = Bench::new();
    bench.confirms(0, RTT_20, 0);
    assert_eq!(bench.review(0), Some(sndbuf(20)));
    for (minute, exponent) in (1..).zip([-6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6]) {
        let value = 0.05 * 10_f64.powi(exponent);
        for second in (0..60).step_by(10) {
            let after = minute * 60 + second;
            bench.gives(0, Given { value, ..RTT_20 }, after);
            // The last good one is too old after a minute: the file's holds.
            if let Some(changed) = bench.review(after) {
                assert_eq!((changed, minute), (sndbuf(50), 1));
            }
        }
    }
    let mut store = bench.measured.board.store();
    let counts = Refusal::ALL.map(|refusal| store.doubts().next().unwrap().count(refusal));
    // The first one was far from the file's, too, until it was confirmed.
    assert_eq!(counts, [72, 1, 0]);
    assert_eq!(store.take_news(), [], "the reviews have said it");
}

#[test]
fn what_a_clock_ahead_of_ours_dated_does_not_stay_fresh() {
    let mut bench = Bench::new();
    let ahead = Given { age_seconds: -1e6, ..RTT_20 };
    for second in 0..100 {
        bench.gives(0, ahead, second);
        assert_eq!(bench.review(second), None);
    }
    // On the disk, from when the clock was ahead.
    let file = bench.folder.path().join("measured-test.json");
    let content = r#"{"sources":{"first":{"measured":{"rtt":[0.02,9e9]}}}}"#;
    std::fs::write(&file, content).unwrap();
    let measured = Bench::agent(&bench.folder);
    assert_eq!(measured.policies().unwrap()[1].sndbuf_bytes, Some(sndbuf(50)));
}

#[test]
fn what_was_kept_counts_only_within_the_band_of_today() {
    let bench = Bench::new();
    let file = bench.folder.path().join("measured-test.json");
    let now = bench.time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for (rtt, counts) in [(0.02, 20), (0.004, 50), (0.6, 50)] {
        let content =
            format!(r#"{{"sources":{{"first":{{"measured":{{"rtt":[{rtt},{now}]}}}}}}}}"#);
        std::fs::write(&file, content).unwrap();
        let measured = Bench::agent(&bench.folder);
        assert_eq!(measured.policies().unwrap()[1].sndbuf_bytes, Some(sndbuf(counts)));
    }
}

#[test]
fn what_is_known_outlives_the_agent() {
    let mut bench = Bench::new();
    bench.confirms(0, RTT_20, 0);
    bench.review(0);
    bench.measured.save();
    assert_eq!(Bench { measured: Bench::agent(&bench.folder), ..bench }.sndbuf(), sndbuf(20));
}

#[test]
fn a_damaged_cache_is_no_cache() {
    let bench = Bench::new();
    let file = bench.folder.path().join("measured-test.json");
    for content in ["", "{", "[]", r#"{"sources":{"first":{"measured":{"rtt":["x",1]}}}}"#] {
        std::fs::write(&file, content).unwrap();
        let measured = Bench::agent(&bench.folder);
        assert!(measured.policies().is_some(), "{content}");
    }
    // What no path can have, and paths and sources that are gone.
    let content = r#"{"sources":{"first":{"measured":{"rtt":[-1,9e9]},"gone":{"rtt":[1,9e9]}},
                      "gone":{"measured":{"rtt":[1,9e9]}}}}"#;
    std::fs::write(&file, content).unwrap();
    let measured = Bench::agent(&bench.folder);
    assert_eq!(measured.policies().unwrap()[1].sndbuf_bytes, Some(sndbuf(50)));
}

#[test]
fn a_reload_keeps_what_is_known_and_in_force() {
    let mut bench = Bench::new();
    bench.confirms(0, RTT_20, 0);
    assert_eq!(bench.review(0), Some(sndbuf(20)));
    let mut after = Bench::agent(&bench.folder);
    assert_eq!(after.policies().unwrap()[1].sndbuf_bytes, Some(sndbuf(50)));
    after.take_over(&bench.measured);
    assert_eq!(after.policies().unwrap()[1].sndbuf_bytes, Some(sndbuf(20)));
}

#[test]
fn without_a_measured_path_nothing_is_kept() {
    let text = "[[path]]\nname = 'a'\nremote = '::1'\nsndbuf = '1MiB'\n";
    let config = Config::parse("wad.toml", text, &host()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut measured =
        Measured::new(&config, 1 << 40, KernelBuffers::default(), cache(folder.path(), "test"));
    assert!(measured.policies().is_none());
    assert_eq!(measured.review(at(clock::now(), SystemTime::now())), Change::Nothing);
    measured.save();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A path that no service measures: its own flows do.
fn of_flows(folder: &tempfile::TempDir, line: &str) -> Measured {
    let text = format!(
        "[[path]]\nname = 'p'\nremote = '10.0.0.0/8'\nmode = 'measured'\nsndbuf = 'auto'\n{line}"
    );
    let config = Config::parse("wad.toml", &text, &host()).unwrap();
    assert_eq!(config.sources, [Source::passive()]);
    let kernel = KernelBuffers { sndbuf_bytes: 4 << 20, rcvbuf_bytes: 6 << 20 };
    Measured::new(&config, 1 << 40, kernel, cache(folder.path(), "test"))
}

#[test]
fn what_flows_got_is_doubled_and_outlives_the_agent() {
    let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
    let mut measured = of_flows(&folder, "");
    assert_eq!(measured.policies().unwrap()[0].sndbuf_bytes, None);
    let rate = Given { metric: Metric::Bandwidth, value: 250e6, age_seconds: 86_400.0 };
    let rtt = Given { metric: Metric::Rtt, value: 0.1, age_seconds: 86_400.0 };
    for given in [rate, rtt] {
        record(&mut measured.board.store(), 0, given, now);
    }
    assert_eq!(measured.review(at(clock::now(), now)), Change::Values);
    let doubled = Some(2 * 250_000_000 / 8 / 10);
    assert_eq!(measured.policies().unwrap()[0].sndbuf_bytes, doubled);
    measured.save();
    let after = of_flows(&folder, "");
    assert_eq!(after.policies().unwrap()[0].sndbuf_bytes, doubled);
    // The file knows of more.
    let after = of_flows(&folder, "bandwidth = '1Gbit'\nrtt = '50ms'\n");
    assert_eq!(after.policies().unwrap()[0].sndbuf_bytes, Some(sndbuf(100)));
}

/// A path whose flows show what it does to packets.
fn with_traits(folder: &tempfile::TempDir, keys: &str) -> Measured {
    let text = format!(
        "[[source]]\nname = 'f'\nkind = 'passive'\nstale_after = '10min'\n[[path]]\n\
         name = 'p'\nremote = '10.0.0.0/8'\nmode = 'measured'\nallow = 'aggressive'\n\
         sndbuf = 'auto'\n{keys}"
    );
    let config = Config::parse("wad.toml", &text, &host()).unwrap();
    Measured::new(&config, 1 << 40, KernelBuffers::default(), cache(folder.path(), "test"))
}

/// A path's flows show it in looks of half a minute.
fn show(measured: &Measured, now: Moment) {
    let before = FlowCounts { rtt_us: 40_000, min_rtt_us: 40_000, ..FlowCounts::default() };
    let now_counts = FlowCounts {
        sent_segments: 100_000,
        resent_segments: 100,
        reorderings: 100,
        reordering_segments: 19,
        ..before
    };
    let look = Look::new(&[(before, now_counts)], None);
    for n in 0..4 {
        measured.board.states()[0].behaviour.add(&look, now + Duration::from_secs(30 * n));
    }
}

#[test]
fn what_flows_show_of_packets_is_followed_where_it_is_auto_and_goes_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let now = clock::now();
    let time = SystemTime::now();
    let in_force = |measured: &Measured| {
        let policy = measured.policies().unwrap().remove(0);
        (policy.law(), policy.reorder_segments)
    };
    for (keys, expected) in [
        ("reorder = 'auto'\nloss = 'auto'\n", (Some(Law::Leaky), Some(19))),
        ("reorder = 'auto'\n", (None, Some(19))),
        ("loss = 'auto'\n", (Some(Law::Leaky), None)),
        ("reorder = 30\n", (None, Some(30))),
    ] {
        let mut measured = with_traits(&folder, keys);
        let before = in_force(&measured);
        show(&measured, now);
        let after = now + Duration::from_secs(100);
        let is_auto = keys.contains("auto");
        let change = if is_auto { Change::Traits } else { Change::Nothing };
        assert_eq!(measured.review(at(after, time)), change, "{keys}");
        assert_eq!(in_force(&measured), expected, "{keys}");
        assert_eq!(measured.review(at(after, time)), Change::Nothing, "{keys}");
        // A reload keeps it, where it is auto still.
        let mut next = with_traits(&folder, "reorder = 'auto'\n");
        next.take_over(&measured);
        let late = after + Duration::from_secs(120);
        next.review(at(late, time));
        assert_eq!(in_force(&next), (None, Some(19)), "{keys}");
        let stale = now + Duration::from_secs(800);
        assert_eq!(measured.review(at(stale, time)), change, "{keys}");
        assert_eq!(in_force(&measured), before, "{keys}");
    }
}
