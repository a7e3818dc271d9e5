//! A status for people: binary units, milliseconds, the busiest facts first.

mod probes;

use std::{
    fmt,
    io::{self, Write},
};

use wad_agent::{
    guards::GuardTold,
    status::{
        ExperimentStatus, PageStatus, PathStatus, PeerStatus, PeersStatus, Status, TraceStatus,
    },
};
use wad_evidence::plan::Arm;
use wad_toolbox::{amounts::Bytes, refusals::RefusedFlows, text_table::TextTable};
use wad_tuning::readings::PathState;

use crate::{guard::words, output};

/// Rows of paths before the rest is only counted.
const MOST_PATHS: usize = 50;
/// Lines of what the kernel refused before the rest is only counted.
const MOST_REFUSALS: usize = 10;

pub fn write(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "wad {}, instance {}, process {}, up {}",
        status.version,
        status.instance,
        status.pid,
        Uptime(status.uptime_seconds)
    )?;
    let config = status.config.display();
    writeln!(out, "config   {config}, policy set {}", status.generation)?;
    if status.reloads.behind {
        writeln!(out, "         what the file says by now was not taken; the log says why")?;
    }
    writeln!(out, "cgroup   {}", status.cgroup.display())?;
    for fault in &status.detached {
        writeln!(out, "detached {fault}")?;
    }
    for lacking in &status.lacking {
        writeln!(out, "lacking  {lacking}")?;
    }
    let (held, limit) = (status.memory_held_bytes, status.memory_limit_bytes);
    writeln!(out, "memory   {} of {} held by TCP", Bytes(held), Bytes(limit))?;
    let disabled = status.paths.iter().filter(|path| path.state == PathState::Disabled).count();
    if status.all_disabled {
        writeln!(out, "disabled all paths; `wad enable` ends that")?;
    } else if disabled > 0 {
        writeln!(out, "disabled {disabled} of {} paths", status.paths.len())?;
    }
    for (count, what) in [
        (status.events_lost, "events lost"),
        (status.mptcp_subflows, "MPTCP subflows left alone"),
        (status.flows_without_storage, "flows left alone for want of socket storage"),
    ] {
        if count > 0 {
            writeln!(out, "counted  {count} {what}")?;
        }
    }
    for set in &status.sets {
        let (name, es) = (set.name.escape_debug(), if set.prefixes == 1 { "" } else { "es" });
        write!(out, "set      {name}: {} prefix{es}", set.prefixes)?;
        if let Some(age) = set.age_seconds {
            write!(out, ", read {} ago", Uptime(age))?;
        }
        match &set.failing {
            Some(why) => writeln!(out, "; {why}")?,
            None => writeln!(out)?,
        }
    }
    if let Some(pods) = &status.pods {
        let s = if pods.known == 1 { "" } else { "s" };
        write!(out, "pods     {} pod{s} known", pods.known)?;
        match pods.origin.as_deref() {
            Some("api_server") => write!(out, ", by the API server")?,
            Some(origin) => write!(out, ", by the {origin}")?,
            None => {}
        }
        match pods.flows_adopted {
            0 => writeln!(out)?,
            flows => writeln!(out, "; {flows} connections ran before theirs was, or its labels")?,
        }
        if let Some(why) = &pods.lacking {
            writeln!(out, "lacking  {why}")?;
        }
    }
    if let Some(probes) = &status.probes {
        probes::write(probes, out)?;
    }
    for experiment in &status.experiments {
        write_experiment(experiment, out)?;
    }
    write_guards(&status.guards, out)?;
    for sink in &status.sinks {
        let (name, behind) = (&sink.name, Bytes(sink.spooled_bytes));
        if let Some(why) = &sink.failing {
            writeln!(out, "behind   sink {name}: {behind} of events wait for it; {why}")?;
        }
        if sink.refused > 0 {
            let file = format_args!("{name}.refused.jsonl");
            writeln!(out, "counted  {} events that sink {name} refuses: {file}", sink.refused)?;
        }
        if sink.lost > 0 {
            writeln!(out, "counted  {} events that sink {name} never gets", sink.lost)?;
        }
    }
    for trace in &status.traces {
        let TraceStatus { name, file, lines, bytes, .. } = trace;
        let (file, bytes) = (file.display(), Bytes(*bytes));
        writeln!(out, "trace    {name}: {lines} lines, {bytes}, to {file}")?;
        if let Some(why) = &trace.failing {
            writeln!(out, "behind   trace {name}: {why}")?;
        }
        if trace.lost_lines > 0 {
            writeln!(out, "counted  {} lost lines of trace {name}", trace.lost_lines)?;
        }
    }
    if let Some(otlp) = &status.otlp {
        write!(out, "otlp     {} exports of metrics to {}", otlp.sent, otlp.url)?;
        match otlp.age_seconds {
            Some(age) => writeln!(out, ", the last {} ago", Uptime(age))?,
            None => writeln!(out)?,
        }
        if let Some(why) = &otlp.failing {
            writeln!(out, "behind   otlp: {why}")?;
        }
        for (count, what) in [
            (otlp.failed, "exports of metrics that were given up"),
            (otlp.rejected_points, "points that were left out of exports of metrics"),
        ] {
            if count > 0 {
                writeln!(out, "counted  {count} {what}")?;
            }
        }
    }
    if let Some(PageStatus { address, refused }) = &status.page {
        writeln!(out, "page     {address}")?;
        if *refused > 0 {
            writeln!(
                out,
                "counted  {refused} requests to the page that were refused, or too slow"
            )?;
        }
    }
    if let Some(peers) = &status.peers {
        write_peers(peers, out)?;
    }
    write_refused(&status.paths, out)?;
    for change in &status.changes {
        match change.values() {
            Some((before, after)) => {
                writeln!(out, "changed  {change}: {before} before, {after} now")?;
            }
            None => writeln!(out, "changed  {change}")?,
        }
    }
    writeln!(out)?;
    write_paths(&status.paths, out)
}

fn write_experiment(experiment: &ExperimentStatus, out: &mut dyn Write) -> io::Result<()> {
    let ExperimentStatus { path, is_over, ends, arm, pairs, planned_pairs, .. } = experiment;
    write!(out, "compares {}: {pairs} of {planned_pairs} pairs of blocks", path.escape_debug())?;
    match experiment.blocks_thrown {
        0 => {}
        thrown => write!(out, ", {thrown} blocks do not count")?,
    }
    match experiment.verdict {
        Some(verdict) => write!(out, "; goodput: {verdict}")?,
        None => write!(out, "; no verdict yet")?,
    }
    match arm {
        _ if *is_over => writeln!(out, "; it is over"),
        Some(Arm::Default) => writeln!(out, "; new connections get the defaults, until {ends}"),
        Some(Arm::Tuned) => writeln!(out, "; new connections get the policy, until {ends}"),
        None => writeln!(out, "; it begins soon"),
    }
}

/// Tells of guards that do something, and how many there are.
fn write_guards(guards: &[GuardTold], out: &mut dyn Write) -> io::Result<()> {
    if guards.is_empty() {
        return Ok(());
    }
    let s = if guards.len() == 1 { "" } else { "s" };
    let dry = if guards.iter().any(|guard| guard.dry_run) { ", in a dry run" } else { "" };
    writeln!(out, "guards   {} path{s}{dry}", guards.len())?;
    for guard in guards.iter().filter(|guard| guard.is_away()) {
        write!(out, "guards   {}: {}", guard.path.escape_debug(), words::state(guard))?;
        match guard.tripped {
            Some(trip) => writeln!(out, "; at {:.0}, {}", trip.at, words::signal(&trip.harm))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// A certificate that ends within so many days is told of.
const SOON_DAYS: i64 = 14;

fn write_heard(peer: &PeerStatus, age: u64, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "peer     {}: heard {} ago", peer.name, Uptime(age))?;
    if let Some(seconds) = peer.ends_in_seconds {
        write!(out, ", which counts for another {}", Uptime(seconds))?;
    }
    if let Some(seconds) = peer.consent_ends_in_seconds {
        write!(out, ", its consent for {}", Uptime(seconds))?;
    }
    match peer.paths.as_slice() {
        [] => writeln!(out),
        paths => writeln!(out, "; by its word: {}", paths.join(", ").escape_debug()),
    }
}

fn write_peers(peers: &PeersStatus, out: &mut dyn Write) -> io::Result<()> {
    if let Some(why) = &peers.failing {
        writeln!(out, "behind   peers: {why}")?;
    }
    let ends =
        |days: i64| if days < 0 { "has ended".to_owned() } else { format!("ends in {days} days") };
    if let Some(days) = peers.certificate_ends_in_days.filter(|days| *days < SOON_DAYS) {
        writeln!(out, "behind   peers: the certificate of this end {}", ends(days))?;
    }
    for peer in &peers.peers {
        let name = &peer.name;
        match (peer.age_seconds, peer.silent_seconds) {
            (Some(age), _) => write_heard(peer, age, out)?,
            (None, Some(silent)) => {
                writeln!(out, "peer     {name}: silent for {}", Uptime(silent))?
            }
            (None, None) => {}
        }
        if let Some(why) = &peer.failing {
            writeln!(out, "behind   peer {name}: {why}")?;
        }
        if let Some(days) = peer.certificate_ends_in_days.filter(|days| *days < SOON_DAYS) {
            writeln!(out, "behind   peer {name}: its certificate {}", ends(days))?;
        }
    }
    match peers.strangers_refused {
        0 => Ok(()),
        count => writeln!(out, "counted  {count} connections of those that are no peer"),
    }
}

/// Says which settings the kernel refused to flows of which paths, and why.
fn write_refused(paths: &[PathStatus], out: &mut dyn Write) -> io::Result<()> {
    let all = || paths.iter().flat_map(|path| path.refused.iter().map(move |of| (path, of)));
    for (path, RefusedFlows { refused, flows }) in all().take(MOST_REFUSALS) {
        let path = path.name.escape_debug();
        write!(out, "refused  {refused} to {flows} flows of path {path}")?;
        match refused.why() {
            Some(why) => writeln!(out, ": {why}")?,
            None => writeln!(out)?,
        }
    }
    match all().count().saturating_sub(MOST_REFUSALS) {
        0 => Ok(()),
        more => writeln!(out, "refused  {more} more settings of paths; --json has them all"),
    }
}

fn write_paths(paths: &[PathStatus], out: &mut dyn Write) -> io::Result<()> {
    const TITLES: [&str; 8] =
        ["PATH", "TUNED", "MATCHED", "UNTUNED", "SENT", "RECEIVED", "RETRANSMITTED", "RTT"];
    let rows = paths.iter().take(MOST_PATHS).map(row);
    output::write(out, TextTable::new(TITLES).with_figures_behind(1).with_rows(rows))?;
    match paths.len().saturating_sub(MOST_PATHS) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more paths; --json has them all"),
    }
}

fn row(path: &PathStatus) -> [String; 8] {
    let untuned = &path.flows_untuned;
    [
        format!("{}{}", path.name.escape_debug(), left_alone(path.state)),
        path.flows_tuned.to_string(),
        path.connections_matched.to_string(),
        untuned.max_flows.saturating_add(untuned.refused).to_string(),
        Bytes(path.sent_bytes).to_string(),
        Bytes(path.received_bytes).to_string(),
        match path.segments_sent {
            0 => "-".to_owned(),
            sent => format!("{:.3}%", path.segments_retransmitted as f64 / sent as f64 * 100.0),
        },
        path.rtt_us.map_or("-".to_owned(), |us| format!("{:.1} ms", us as f64 / 1e3)),
    ]
}

const fn left_alone(state: PathState) -> &'static str {
    match state {
        PathState::Tuned => "",
        PathState::Observed => " (observed)",
        PathState::Disabled => " (disabled)",
        PathState::HeldBack => " (held back)",
    }
}

struct Uptime(u64);

impl fmt::Display for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, seconds) = (self.0 / 60, self.0 % 60);
        let (hours, days) = (minutes / 60, minutes / 60 / 24);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds} s"),
            (0, 0, minutes) => write!(f, "{minutes} min {seconds} s"),
            (0, hours, minutes) => write!(f, "{hours} h {} min", minutes % 60),
            (days, hours, _) => write!(f, "{days} d {} h", hours % 24),
        }
    }
}

#[cfg(test)]
mod tests {
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
    use wad_tuning::attachment::{Lost, Part};

    use super::*;

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
        let guards =
            [guard("bob", GuardState::InForce, 1.0), guard("eve", GuardState::HoldOff, 0.0)];
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
        let refusal =
            |reason| Refusal { policy: 0, setting: SocketSetting::Congestion as u16, reason };
        let refused = |reason| RefusedFlows::new(refusal(reason), 4);
        let mut readings = example();
        readings.paths[0].refused = vec![refused(libc::ENOENT as u16)];
        let text = table_of(readings.clone());
        assert!(text.contains("\nrefused  congestion (ENOENT) to 4 flows of path bob\n"), "{text}");
        readings.paths[0].refused = (1..=MOST_REFUSALS as u16 + 2).map(refused).collect();
        let text = table_of(readings);
        assert_eq!(text.matches("\nrefused ").count(), MOST_REFUSALS + 1);
        assert!(
            text.contains("\nrefused  2 more settings of paths; --json has them all\n"),
            "{text}"
        );
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
}
