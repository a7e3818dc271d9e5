use jiff::Timestamp;
use wad_agent::{
    guards::{GuardState, Trip},
    status::About,
};
use wad_common::refused::{Refusal, SocketSetting};
use wad_evidence::guard::{SIGNALS, Shown};
use wad_linux::privileges::Privileges;
use wad_observing::metrics::{
    PodsReading, Readings,
    testing::{example, path},
};
use wad_toolbox::refusals::RefusedFlows;
use wad_tuning::{
    attachment::{Lost, Part},
    ceilings::TooLow,
};

use super::{
    paths::{MOST_PATHS, MOST_REFUSALS},
    *,
};

fn table(paths: usize) -> String {
    let mut readings = example();
    readings.paths.extend((2..paths).map(|index| path(&index.to_string(), Default::default())));
    table_of(readings)
}

fn table_of(readings: Readings) -> String {
    let about = About::example(Privileges::of(u64::MAX ^ 1 << 19));
    let mut status = Status::new(&about, readings);
    (status.version, status.pid, status.uptime_seconds) = ("0.0.0".to_owned(), 4711, 11_520);
    status.sets.iter_mut().for_each(|set| set.age_seconds = Some(59));
    status.otlp.iter_mut().for_each(|otlp| otlp.age_seconds = Some(58));
    let mut out = Vec::new();
    write(&status, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn is_as_agreed() {
    let expected = r#"wad 0.0.0, instance default, process 4711, up 3 h 12 min
config   /etc/wad/wad.toml, policy set 3
cgroup   /sys/fs/cgroup
lacking  without CAP_SYS_PTRACE, network namespaces of containers are found by their mounts alone (ip netns, containerd, CRI-O), not by the processes in them
memory   16.0 MiB of 2.0 GiB held by TCP
counted  5 events lost
counted  6 MPTCP subflows left alone
counted  7 flows left alone for want of socket storage
set      aws: 36 prefixes, read 59 s ago
pods     47 pods known, by the kubelet; 48 connections ran before theirs was, or its labels
compares bob: 106 of 2520 pairs of blocks, 107 blocks do not count; goodput: better; new connections get the policy, until 1970-01-01T00:00:00Z
counted  29 events that sink archive refuses: archive.refused.jsonl
counted  53 events that sink archive never gets
trace    tokyo: 40 lines, 41 B, to /var/log/wad/tokyo.jsonl
counted  42 lost lines of trace tokyo
otlp     44 exports of metrics to http://collector:4318/v1/metrics, the last 58 s ago
counted  45 exports of metrics that were given up
counted  46 points that were left out of exports of metrics
page     http://127.0.0.1:9467/
counted  238 requests to the page that were refused, or too slow
peer     tokyo: heard 4 s ago
counted  105 connections of those that are no peer
changed  net.core.rmem_max: 212992 before, 6571899 now

PATH                TUNED  MATCHED  UNTUNED      SENT  RECEIVED  RETRANSMITTED      RTT
bob                     1       14        7  10.0 GiB   1.0 MiB         0.005%  75.1 ms
a \"quoted\\\nname      0        0        0       0 B       0 B              -        -
"#;
    assert_eq!(table(2), expected);
}

#[test]
fn what_is_left_alone_is_said_to_be_so() {
    let mut readings = example();
    readings.paths[0].state = PathState::Disabled;
    let text = table_of(readings.clone());
    assert!(text.contains("held by TCP\ndisabled 1 of 2 paths\n"), "{text}");
    assert!(text.contains("bob (disabled) "), "{text}");
    readings.all_disabled = true;
    assert!(table_of(readings).contains("disabled all paths; `wad enable`"));
}

#[test]
fn guards_that_hold_a_policy_back_are_named_with_the_reason() {
    let guard = |path: &str, state, share| GuardTold {
        path: path.to_owned(),
        state,
        share,
        left_seconds: (share == 0.0).then_some(239.5),
        dry_run: false,
        trips: 1,
        tripped: (share == 0.0).then_some(Trip {
            at: Timestamp::UNIX_EPOCH,
            harm: Shown {
                signal: SIGNALS[0].signal,
                ratio: 9.81,
                margin: 3.0,
                ticks: 31,
                part_of_bound: 1.0,
            },
        }),
        signals: Vec::new(),
    };
    let guards = [guard("bob", GuardState::InForce, 1.0), guard("eve", GuardState::HoldOff, 0.0)];
    let mut text = Vec::new();
    write_guards(&guards, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "guards   2 paths\n\
         guards   eve: held back for 240s; at 1970-01-01T00:00:00Z, goodput is worse than before: \
         9.8 times, in 31 looks\n"
    );
}

#[test]
fn a_file_that_was_not_taken_is_said_to_be_so() {
    let mut readings = example();
    readings.reloads.is_behind = true;
    assert!(table_of(readings).contains("policy set 3\n         what the file says"));
}

#[test]
fn what_others_have_taken_off_is_said_to_be_so() {
    let mut readings = example();
    let why = "new flows are not tuned: the cgroup /a was removed".to_owned();
    readings.attachment.set_lost(&[Lost { part: Part::Tuner, why }]);
    let text = table_of(readings);
    let line = "cgroup   /sys/fs/cgroup\ndetached new flows are not tuned: the cgroup /a was";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_list_that_does_not_count_is_named() {
    let mut readings = example();
    readings.sets[0].failing = Some("cannot read /a".to_owned());
    readings.sets[0].prefixes = 1;
    let text = table_of(readings);
    let line = "set      aws: 1 prefix, read 59 s ago; cannot read /a\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn ceilings_that_may_not_be_raised_are_said_to_be_lacking() {
    let why = "cannot set net.core.wmem_max to 8388608: Read-only file system".to_owned();
    let too_low = vec![TooLow { key: "net.core.wmem_max", why }];
    let text = table_of(Readings { too_low, ..example() });
    let line = "lacking  net.core.wmem_max stays lower than paths need: cannot set net.core.wmem";
    assert!(text.contains(line), "{text}");
}

#[test]
fn pods_that_nobody_tells_of_are_said_to_be_lacking() {
    let mut readings = example();
    let why = "paths with `pods` match nothing: the kubelet has no socket at /a".to_owned();
    let lacking = Some(why);
    readings.pods = Some(PodsReading { lacking, ..PodsReading::default() });
    let text = table_of(readings.clone());
    let lines = "pods     0 pods known\n\
                 lacking  paths with `pods` match nothing: the kubelet has no socket";
    assert!(text.contains(lines), "{text}");
    readings.pods = None;
    assert!(!table_of(readings).contains("pods"));
}

#[test]
fn a_sink_that_is_away_is_named() {
    let mut readings = example();
    readings.sinks[0].failing = Some("cannot connect to a:80".to_owned());
    let text = table_of(readings);
    let line = "behind   sink archive: 28 B of events wait for it; cannot connect to a:80\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_trace_that_cannot_be_written_is_named() {
    let mut readings = example();
    readings.traces[0].failing = Some("No space left on device".to_owned());
    let text = table_of(readings);
    let lines = "trace    tokyo: 40 lines, 41 B, to /var/log/wad/tokyo.jsonl\n\
                 behind   trace tokyo: No space left on device\n\
                 counted  42 lost lines of trace tokyo\n";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn an_export_that_is_not_taken_is_named() {
    let mut readings = example();
    let otlp = readings.otlp.as_mut().unwrap();
    otlp.failing = Some("cannot connect to collector:4318".to_owned());
    let text = table_of(readings);
    let lines = "the last 58 s ago\nbehind   otlp: cannot connect to collector:4318\ncounted";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn what_the_kernel_refused_is_named_with_its_errno() {
    let refusal = |reason| Refusal { policy: 0, setting: SocketSetting::Congestion as u16, reason };
    let refused = |reason| RefusedFlows::new(refusal(reason), 4);
    let mut readings = example();
    readings.paths[0].refused = vec![refused(libc::ENOENT as u16)];
    let text = table_of(readings.clone());
    assert!(text.contains("\nrefused  congestion (ENOENT) to 4 flows of path bob\n"), "{text}");
    readings.paths[0].refused = (1..=MOST_REFUSALS as u16 + 2).map(refused).collect();
    let text = table_of(readings);
    assert_eq!(text.matches("\nrefused ").count(), MOST_REFUSALS + 1);
    assert!(text.contains("\nrefused  2 more settings of paths; --json has them all\n"), "{text}");
}

#[test]
fn many_paths_are_counted_not_listed() {
    let text = table(100_000);
    assert_eq!(text.lines().count(), 24 + 1 + MOST_PATHS + 1);
    assert!(text.ends_with("and 99950 more paths; --json has them all\n"));
}

#[test]
fn times_at_their_edges() {
    assert_eq!(Uptime(59).to_string(), "59 s");
    assert_eq!(Uptime(3599).to_string(), "59 min 59 s");
    assert_eq!(Uptime(90_000).to_string(), "1 d 1 h");
}
