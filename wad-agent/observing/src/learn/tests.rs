//! These tests hold what is learned against what is found.

use proptest::prelude::*;

use super::*;

const LEARN: Learn = Learn { max_paths: 4 };
const INTERVAL: Duration = Duration::from_secs(60);
const SNDBUF: AutoBuffers = AutoBuffers { sndbuf: true, rcvbuf: false, autotune: false };
const RCVBUF: AutoBuffers = AutoBuffers { sndbuf: false, rcvbuf: true, autotune: false };

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn found(remote: &str, bits_per_second: f64, rtt_seconds: f64) -> Found {
    let path = LearnedPath { remote: net(remote), bits_per_second, rtt_seconds, buffers: SNDBUF };
    Found { path, evidence: "limited".to_owned() }
}

fn take(learner: &mut Learner, found: &[Found], seconds: i64) -> Vec<Change> {
    learner.take(Shown { found, used: &[], now: at(seconds) }, LEARN, INTERVAL)
}

fn remotes(learner: &Learner) -> Vec<String> {
    learner.remotes().iter().map(ToString::to_string).collect()
}

#[test]
fn a_path_is_learned_once_and_told_with_its_evidence() {
    let mut learner = Learner::default();
    let it = found("203.0.113.5/32", 1e9, 0.07);
    let changes = take(&mut learner, std::slice::from_ref(&it), 0);
    let told: Vec<_> = changes.iter().map(|it| format!("{}: {it}", it.path())).collect();
    let expected = "learned-203.0.113.5/32: learned sndbuf for 1 Gbit/s at 70 ms: connections were \
                    limited";
    assert_eq!(told, [expected]);
    assert_eq!(learner.paths(), [it.path]);
    assert_eq!(take(&mut learner, &[it], 1_000), []);
}

#[test]
fn nothing_found_later_unlearns_it() {
    let mut learner = Learner::default();
    take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.07)], 0);
    let before = learner.clone();
    for day in 0..29 {
        assert_eq!(take(&mut learner, &[], day * 86_400), []);
    }
    assert_eq!(learner, before);
}

#[test]
fn it_grows_where_that_is_worth_it_and_not_too_soon() {
    let mut learner = Learner::default();
    take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.07)], 0);
    assert_eq!(take(&mut learner, &[found("203.0.113.5/32", 1.2e9, 0.07)], 100), []);
    assert_eq!(take(&mut learner, &[found("203.0.113.5/32", 2e9, 0.07)], 59), []);
    let grown = take(&mut learner, &[found("203.0.113.5/32", 2e9, 0.07)], 60);
    let told = "learned more: sndbuf for 2 Gbit/s at 70 ms instead of sndbuf for 1 Gbit/s at 70 ms, \
                as connections were limited";
    assert_eq!(grown[0].to_string(), told);
    // A longer way, at half the rate, takes more; a shorter one takes nothing away.
    let longer = found("203.0.113.5/32", 1e9, 0.2);
    assert_eq!(take(&mut learner, std::slice::from_ref(&longer), 120).len(), 1);
    assert_eq!(take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.01)], 240), []);
    assert_eq!(learner.paths(), [longer.path]);
    // The other buffer is added, and the figures hold.
    let mut other = found("203.0.113.5/32", 1e6, 0.01);
    other.path.buffers = RCVBUF;
    assert_eq!(take(&mut learner, &[other], 300).len(), 1);
    let [path] = learner.paths()[..] else { panic!("{learner:?}") };
    assert!(path.buffers.sndbuf && path.buffers.rcvbuf && path.rtt_seconds > 0.1, "{path:?}");
}

#[test]
fn neighbours_that_are_alike_share_a_path() {
    let mut learner = Learner::default();
    take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.07)], 0);
    let changes = take(&mut learner, &[found("203.0.113.6/32", 2e9, 0.075)], 1);
    assert!(changes[0].to_string().ends_with("; it is for learned-203.0.113.5/32 too"));
    assert_eq!(remotes(&learner), ["203.0.113.4/30"]);
    assert_eq!(learner.paths()[0].bits_per_second, 2e9);
    // Farther away, in another network, and of the other family.
    let others = [
        found("203.0.113.130/32", 2e9, 0.3),
        found("203.0.112.5/32", 2e9, 0.075),
        found("2001:db8::5/128", 2e9, 0.075),
    ];
    take(&mut learner, &others, 2);
    let all = ["203.0.112.5/32", "203.0.113.4/30", "203.0.113.130/32", "2001:db8::5/128"];
    assert_eq!(remotes(&learner), all);
    // The prefix that would have both has one that is not alike, too.
    let full = take(&mut learner, &[found("203.0.113.200/32", 2e9, 0.075)], 3);
    assert_eq!(full, [Change::Full { remote: net("203.0.113.200/32"), max_paths: 4 }]);
    assert!(!full[0].is_one());
    assert_eq!(remotes(&learner), all);
}

#[test]
fn one_that_is_idle_gives_its_place_and_is_forgotten_at_last() {
    let mut learner = Learner::default();
    let far = |n: i64| found(&format!("10.0.{n}.1/32"), 1e9, 0.07);
    take(&mut learner, &(0..4).map(far).collect::<Vec<_>>(), 0);
    let used = learner.remotes()[1..].to_vec();
    learner.take(Shown { found: &[], used: &used, now: at(3_000) }, LEARN, INTERVAL);
    assert!(!take(&mut learner, &[far(4)], 3_599)[0].is_one());
    let changes = take(&mut learner, &[far(4)], 3_600);
    assert_eq!(changes[0], Change::Dropped { remote: net("10.0.0.1/32"), why: Why::Replaced });
    assert_eq!(remotes(&learner)[0], "10.0.1.1/32");
    let fewer = Learn { max_paths: 3 };
    let shown = Shown { found: &[], used: &[], now: at(3_601) };
    assert_eq!(learner.take(shown, fewer, INTERVAL).len(), 1);
    assert_eq!(take(&mut learner, &[], 31 * 86_400).len(), 3);
    assert_eq!(learner, Learner::default());
}

#[test]
fn a_path_of_the_file_takes_its_place() {
    let mut learner = Learner::default();
    take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.07)], 0);
    let covered = |remote: &str| {
        let remote = net(remote);
        Covered { remote, by: remote, path: "bob".to_owned() }
    };
    assert_eq!(learner.drop_covered(&[covered("203.0.113.6/32")]), []);
    let dropped = learner.drop_covered(&[covered("203.0.113.5/32")]);
    let told = "no longer learned: path bob of the configuration is for it";
    assert_eq!(dropped[0].to_string(), told);
    assert_eq!(learner, Learner::default());
}

#[test]
fn a_clock_that_is_set_back_forgets_nothing() {
    let mut learner = Learner::default();
    take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.07)], 0);
    assert_eq!(take(&mut learner, &[], -100 * 86_400), []);
    assert_eq!(learner.remotes().len(), 1);
}

#[test]
fn what_is_kept_is_read_as_it_was() {
    let mut learner = Learner::default();
    take(&mut learner, &[found("203.0.113.5/32", 1e9, 0.07), found("2001:db8::/64", 5e6, 1.0)], 0);
    assert_eq!(parse_kept(&kept_bytes(&learner)).unwrap(), learner);
    assert_eq!(parse_kept(&kept_bytes(&Learner::default())).unwrap(), Learner::default());
}

#[test]
fn what_can_not_have_been_learned_is_refused() {
    let path = |change: (&str, &str)| {
        let path = r#"{"remote":"10.0.0.0/24","bits_per_second":1e9,"rtt_seconds":0.1,"sndbuf":true,
            "rcvbuf":false,"evidence":"limited","used_at":5,"changed_at":5}"#;
        assert!(path.contains(change.0));
        path.replace(change.0, change.1)
    };
    let file = |paths: &str| format!("{{\"version\":1,\"paths\":[{paths}]}}");
    let good = path(("", ""));
    assert_eq!(parse_kept(file(&good).as_bytes()).unwrap().remotes(), [net("10.0.0.0/24")]);
    let changes = [
        ("10.0.0.0/24", "10.0.0.0/8"),
        ("10.0.0.0/24", "10.0.0.1/24"),
        ("10.0.0.0/24", "::/0"),
        ("10.0.0.0/24", "::ffff:10.0.0.0/120"),
        ("1e9", "0"),
        ("1e9", "1e30"),
        ("0.1", "-1"),
        ("0.1", "1e6"),
        ("true", "false"),
        ("limited", "a\\nb"),
        ("limited", &"x".repeat(501)),
        ("\"used_at\":5", "\"used_at\":9223372036854775807"),
        ("\"used_at\":5", "\"used_at\":\"x\""),
    ];
    for change in changes {
        assert!(parse_kept(file(&path(change)).as_bytes()).is_err(), "{change:?}");
    }
    let inner = path(("10.0.0.0/24", "10.0.0.7/32"));
    let twice = parse_kept(file(&format!("{good},{inner}")).as_bytes()).unwrap_err();
    assert_eq!(twice.to_string(), "path 1 of it can not have been learned");
    let later = file(&good).replace("\"version\":1", "\"version\":2,\"more\":0");
    let later = parse_kept(later.as_bytes()).unwrap_err();
    assert_eq!(later.to_string(), "it is of version 2, and this is 1");
    for damaged in ["", "{", "[]", "{}", &file("7")] {
        assert!(parse_kept(damaged.as_bytes()).is_err(), "{damaged}");
    }
}

/// Something that is found at some time.
fn any_found() -> impl Strategy<Value = (Found, i64)> {
    let remote = (any::<bool>(), 0..3_u32, 0..8_u32, 0..4_u8);
    let rate = prop::sample::select(vec![1e6, 3e6, 1e9]);
    let rtt = prop::sample::select(vec![1e-3, 0.07, 0.08, 1.0]);
    (remote, rate, rtt, 0..4_000_i64).prop_map(|((is_v6, network, host, up), rate, rtt, passes)| {
        let address = match is_v6 {
            true => format!("2001:db8:{network}::{host:x}/{}", 128 - up),
            false => format!("10.0.{network}.{host}/{}", 32 - up),
        };
        let mut found = found(&address, rate, rtt);
        found.path.remote = found.path.remote.trunc();
        (found, passes)
    })
}

proptest! {
    #[test]
    fn whatever_is_found_it_is_bounded_and_covered_and_never_shrinks(
        all in prop::collection::vec(any_found(), 0..40),
    ) {
        let mut learner = Learner::default();
        let mut seconds = 0;
        for (found, passes) in all {
            seconds += passes;
            let before = learner.clone();
            let changes = take(&mut learner, std::slice::from_ref(&found), seconds);
            let remotes = learner.remotes();
            prop_assert!(remotes.len() <= LEARN.max_paths);
            for (n, a) in remotes.iter().enumerate() {
                prop_assert!(a.prefix_len() >= shortest(a.network()));
                prop_assert!(remotes[n + 1..].iter().all(|b| !a.contains(b) && !b.contains(a)));
            }
            let around = |inner: &IpNet| {
                learner.known().find(|known| known.path.remote.contains(inner))
            };
            prop_assert!(
                around(&found.path.remote).is_some() || changes.iter().any(|it| !it.is_one())
            );
            let was_dropped = |remote: &IpNet| {
                changes.iter().any(|it| matches!(it, Change::Dropped { .. }) && it.remote() == *remote)
            };
            for old in before.known().filter(|old| !was_dropped(&old.path.remote)) {
                let new = around(&old.path.remote).expect("it is still there");
                prop_assert!(new.path.bdp_bytes() >= old.path.bdp_bytes());
                prop_assert!(new.path.buffers.sndbuf);
            }
            if changes.is_empty() {
                prop_assert_eq!(&before.paths(), &learner.paths());
            }
            prop_assert_eq!(parse_kept(&kept_bytes(&learner)).unwrap(), learner.clone());
        }
    }
}
