//! These tests show what a congestion event does to the window, and what is no such
//! event: marks, drops, full queues of the sender's own, packets that are only late.
//! The kernel's trace shows every state and every window. Windows count segments.

use std::{process::Command, slice, thread, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::Capture,
    emulated::{
        direction::Counters,
        wan::{ADDRESSES_V4, Wan},
    },
    episodes::{CWR, OPEN, RECOVERY, episodes},
    kernel,
    policy::path_to,
    process::Place,
    reference::Law,
    sending::while_sending,
    settings::{self, Ecn},
    signal,
    ss::Flow,
    stand::Stand,
    tcp::{self, Connection, at},
    trace::{Event, INFINITE_SSTHRESH, Trace, What},
    wad::{Home, program},
};

use super::signals::{self, Signals};

const LAWS: [(&str, Law); 4] = [
    ("additive_increase = 6; decrease = 0.3", Law::Aimd { b: 0.3, a: 6.0 }),
    ("congestion = \"wad_highspeed\"", Law::HighSpeed),
    ("congestion = \"wad_scalable\"", Law::Scalable),
    ("congestion = \"wad_cubic\"", Law::Cubic { rtt_seconds: 0.1, plateau: 0.85 }),
];
const IGNORE: &str = "ignore_local_stalls = true";

/// A case is one flow, on a path of its own.
struct Case {
    port: u16,
    keys: String,
    law: Law,
    path: &'static str,
    /// The queueing discipline of the sender's device, if the sender is one wire away
    /// from the path.
    queue: Option<&'static str>,
    ecn: Ecn,
}

/// Holds what was seen of the flow.
struct Seen {
    events: Vec<Event>,
    forward: Counters,
    /// Mean number of segments in flight during the second before the path's drop or mark.
    used_segments: f64,
    flow: Flow,
    /// The instruments that count such events.
    signals: Signals,
    /// Packets by which the sender said that it had reduced its window.
    cwr_packets: usize,
}

impl Case {
    /// Returns the near end's port, the only one that an event tells of.
    const fn near_port(&self) -> u16 {
        self.port + 10_000
    }

    /// Sends for the span, and returns all of the flow's results but the traced events.
    fn run(&self, mut flows: Command, span: Duration) -> Result<Seen> {
        let path = toml::from_str(self.path)?;
        let wan = match self.queue {
            None => Wan::start(&path)?,
            Some(queue) => Wan::start_behind_wire(&path, queue)?,
        };
        settings::apply(&wan)?;
        settings::ask_for_ecn(&wan, self.ecn)?;
        let capture = Capture::start(wan.a(), wan.near_device(), "tcp[tcpflags] & 0x82 = 0x80")?;
        let to = at(ADDRESSES_V4[1], self.port);
        let listener = tcp::listen(wan.b(), to)?;
        let near = tcp::connect_from(wan.a(), at("0.0.0.0", self.near_port()), to)?;
        let connection = Connection::accepted(&listener, near)?;
        let look = || connection.near_flow(wan.a());
        let (used_segments, flow, signals) = while_sending(slice::from_ref(&connection), || {
            const BEFORE: Duration = Duration::from_millis(500);
            const SECOND: Duration = Duration::from_secs(1);
            signal::sleep(BEFORE)?;
            let first = look()?;
            signal::sleep(SECOND)?;
            let second = look()?;
            let delivered = second.delivered_segments - first.delivered_segments;
            let used_segments = delivered as f64 * second.rtt_ms / 1e3;
            signal::sleep(span - BEFORE - SECOND)?;
            let flow = look()?;
            Ok::<_, anyhow::Error>((
                used_segments,
                flow,
                Signals::of(&mut flows, self.near_port())?,
            ))
        })?;
        ensure!(flow.congestion.starts_with("wad_"), "{flow:?}");
        let [forward, _] = wan.counters()?;
        ensure!(forward.own_drops() + forward.queue_drops == 0, "{forward:?}");
        let cwr_packets = capture.stop()?.len();
        Ok(Seen { events: Vec::new(), forward, used_segments, flow, signals, cwr_packets })
    }
}

/// Runs all at once, traced, under one agent.
fn run(label: &str, cases: &[Case], span: Duration) -> Result<Vec<Seen>> {
    let stand = Stand::set_up(label)?;
    let policy: String = cases.iter().map(|case| path_to(case.port, &case.keys)).collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let ports = cases.iter().map(|case| case.port);
    let trace = Trace::start(ports.clone().min().unwrap_or(0)..=ports.max().unwrap_or(0))?;
    let mut all = thread::scope(|scope| {
        let start = |case| {
            let flows = signals::flows(&home);
            scope.spawn(move || Case::run(case, flows, span))
        };
        let running: Vec<_> = cases.iter().map(start).collect();
        let join = |run: thread::ScopedJoinHandle<'_, _>| {
            run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let events = trace.finish()?;
    for (case, seen) in cases.iter().zip(&mut all) {
        let is_its = |event: &&Event| event.local_port == case.near_port();
        seen.events = events.iter().filter(is_its).copied().collect();
    }
    Ok(all)
}

#[e2e(long, alone)]
fn a_mark_or_a_drop_is_one_decrease() -> Result<()> {
    const MARK: &str = "rtt = '50ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 }, \
                        mark_at = ['1500ms'] }\n";
    const DROP: &str = "rtt = '50ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 }, \
                        drop_at = ['1500ms'] }\n";
    let has_accurate_ecn = kernel::running()? >= (7, 0);
    println!("Accurate ECN: {has_accurate_ecn}");
    let mut cases = Vec::new();
    for (law_keys, law) in LAWS {
        let accurate = has_accurate_ecn.then_some((MARK, "", Ecn::Accurate));
        let classic = [(MARK, ""), (MARK, IGNORE), (DROP, IGNORE)];
        let classic = classic.map(|(path, more)| (path, more, Ecn::Classic));
        for (path, more, ecn) in classic.into_iter().chain(accurate) {
            let port = 7000 + cases.len() as u16;
            let keys = format!("initial_ssthresh = 200; {law_keys}; {more}");
            cases.push(Case { port, keys, law, path, queue: None, ecn });
        }
    }
    let all = run("events", &cases, Duration::from_secs(3))?;
    for (case, seen) in cases.iter().zip(&all) {
        let is_mark = case.path == MARK;
        let episodes = episodes(&seen.events);
        println!("{}: {episodes:?}, {} CWR", case.keys, seen.cwr_packets);
        let forward = seen.forward;
        ensure!(forward.marks == u64::from(is_mark), "{forward:?}");
        ensure!(forward.planned_drops == u64::from(!is_mark), "{forward:?}");
        ensure!(seen.flow.retransmits == u64::from(!is_mark), "{:?}", seen.flow);
        // SACKs that come before they are three put a flow into Disorder.
        let decreases = episodes.iter().filter(|episode| episode.state >= CWR);
        let [decrease] = decreases.collect::<Vec<_>>()[..] else {
            bail!("{}: not one decrease but {episodes:?}", case.keys)
        };
        ensure!(decrease.state == if is_mark { CWR } else { RECOVERY }, "{decrease:?}");
        let (cwnd, ssthresh) = decrease.after.context("the flow ended too early")?;
        case.law.check_decrease(decrease.cwnd_before, ssthresh)?;
        // The ACK that ends the episode may acknowledge most of a window on a busy machine, and the
        // window grows for it before it is read: by no more than a round trip's growth.
        ensure!((ssthresh..=ssthresh + ssthresh / 32).contains(&cwnd), "{decrease:?}");
        ensure!(seen.flow.ssthresh_segments == Some(ssthresh), "{:?}", seen.flow);
        // Accurate ECN counts marks in that flag and two others.
        if case.ecn == Ecn::Classic {
            ensure!(seen.cwr_packets == 1, "{} packets with CWR", seen.cwr_packets);
        }
        let expected = Signals { congestion: 1, timeouts: 0, stalls: 0 };
        ensure!(seen.signals == expected, "{}: {:?}", case.keys, seen.signals);
    }
    Ok(())
}

/// This queue is shorter than what TCP small queues let a flow have in it: it overflows
/// again and again. (The burst is as long as a packet of many segments may be.)
const SHORT_QUEUE: &str = "tbf rate 300mbit burst 128kb limit 24kb";

/// A sender that waits for its processor, on a busy machine, sends what it missed at
/// once: its queue then drops so much that it has to time out, which is another
/// matter. So it is looked at again, twice at most.
#[e2e(long, few, slow)]
fn local_stalls_are_ignored_where_asked_and_nothing_else() -> Result<()> {
    for _ in 0..2 {
        match local_stalls() {
            Err(error) => println!("again: {error:#}"),
            seen => return seen,
        }
    }
    local_stalls()
}

fn local_stalls() -> Result<()> {
    const WINDOW: u32 = 800;
    const CLEAN: &str = "rtt = '40ms'\nforward = { rate = '622Mbit', queue = { bdp = 1.0 } }\n";
    const DROP: &str = "rtt = '40ms'\nforward = { rate = '622Mbit', queue = { bdp = 1.0 }, \
                        drop_at = ['1500ms'] }\n";
    const MARK: &str = "rtt = '40ms'\nforward = { rate = '622Mbit', queue = { bdp = 1.0 }, \
                        mark_at = ['1500ms'] }\n";
    let (law_keys, law) = LAWS[0];
    let cases: Vec<_> = [(CLEAN, ""), (CLEAN, IGNORE), (DROP, IGNORE), (MARK, IGNORE)]
        .into_iter()
        .zip(7000..)
        .map(|((path, ignore), port)| {
            let keys = format!("max_cwnd = {WINDOW}; {law_keys}; {ignore}");
            Case { port, keys, law, path, queue: Some(SHORT_QUEUE), ecn: Ecn::Classic }
        })
        .collect();
    const SPAN: Duration = Duration::from_secs(6);
    let all = cases
        .iter()
        .map(|case| Ok(run("stalls", slice::from_ref(case), SPAN)?.remove(0)))
        .collect::<Result<Vec<_>>>()?;
    let mut decreases = Vec::new();
    for (case, seen) in cases.iter().zip(&all) {
        let stalls = episodes(&seen.events).iter().filter(|episode| episode.state == CWR).count();
        decreases.push(open_decreases(&seen.events));
        println!("{}: {stalls} times CWR, {:?}", case.keys, decreases.last());
        ensure!(stalls >= 2, "{}: the queue overflowed {stalls} times only", case.keys);
        // They were read a little before the end; one of them may be the mark.
        let (signals, stalls) = (seen.signals, stalls as u64);
        println!("{}: {signals:?}", case.keys);
        let expected = (stalls - stalls / 4).saturating_sub(2)..=stalls;
        ensure!(expected.contains(&signals.stalls), "{stalls} stalls, {signals:?}");
        if case.keys.contains(IGNORE) {
            ensure!(signals.congestion <= 1, "{}: {signals:?}", case.keys);
        } else {
            ensure!(signals.congestion >= signals.stalls, "{}: {signals:?}", case.keys);
        }
    }
    let [counted, ignored, dropped, marked] = &decreases[..] else { unreachable!() };
    ensure!(counted.len() >= 2 && ignored.is_empty(), "{decreases:?}");
    for (name, decreases, seen) in [("drop", dropped, &all[2]), ("mark", marked, &all[3])] {
        let [(window, threshold)] = decreases[..] else {
            bail!("{name}: not one decrease but {decreases:?}")
        };
        // Its queue lets it use but a part of the window: it is that part which is lowered.
        let used = seen.used_segments;
        let kept = f64::from(threshold) / used;
        println!("{name}: {threshold} of {window}, of which {used:.0} are used");
        ensure!((0.35..1.0).contains(&kept), "{name}: {threshold} of {used:.0}");
    }
    Ok(())
}

/// Returns the thresholds that are lower than before, as far as they remain when what
/// is due to an event is over, each after the largest window that was held until then.
fn open_decreases(events: &[Event]) -> Vec<(u32, u32)> {
    let mut decreases = Vec::new();
    let (mut state, mut held, mut threshold) = (OPEN, 0, INFINITE_SSTHRESH);
    for event in events {
        match event.what {
            What::State(next) => state = next,
            What::Packet { ssthresh_segments: now, .. } => match state {
                OPEN => {
                    if now < threshold {
                        decreases.push((held, now));
                    }
                    threshold = now;
                }
                CWR => held = now.max(held),
                _ => {}
            },
        }
    }
    decreases
}

/// A hardened kernel runs no program for packets that come while init has the
/// processor: what it then takes for a threshold must not stay. On others this is a
/// flow beside a busy init.
#[e2e(long, few)]
fn a_threshold_that_no_program_gave_does_not_stay() -> Result<()> {
    const PATH: &str = "rtt = '10ms'\nforward = { rate = '622Mbit', queue = { bdp = 1.0 } }\n";
    const LARGEST: u32 = 100_000;
    let (law_keys, law) = LAWS[0];
    // A queue with room for what the flow keeps sending.
    const QUEUE: &str = "tbf rate 300mbit burst 128kb limit 100kb";
    let keys = format!("sndbuf = '16MiB'; rcvbuf = '16MiB'; {law_keys}; {IGNORE}");
    let case = Case { port: 7000, keys, law, path: PATH, queue: Some(QUEUE), ecn: Ecn::Classic };
    // Orphans are init's to wait for.
    let mut orphans = Command::new("sh");
    orphans.args(["-c", "while :; do (: &); done"]);
    let busy = Place::default().spawn(orphans)?;
    let seen = run("init", slice::from_ref(&case), Duration::from_secs(5))?.remove(0);
    drop(busy);
    let (mut state, mut stalls) = (OPEN, 0);
    let (mut acks, mut unanswered, mut large) = (0, 0, 0);
    for event in seen.events {
        match event.what {
            What::State(next) => {
                stalls += u32::from(next == CWR && state != CWR);
                state = next;
            }
            What::Packet { cwnd_segments, ssthresh_segments } => {
                acks += 1;
                unanswered += u32::from(ssthresh_segments > INFINITE_SSTHRESH);
                large += u32::from(state == OPEN && cwnd_segments > LARGEST);
            }
        }
    }
    println!("{stalls} stalls; {acks} ACKs, {unanswered} without an answer, {large} too large");
    ensure!(stalls > 20, "the queue overflowed {stalls} times only");
    // Until a program runs again, which may be none while init does.
    ensure!(large * 20 <= acks, "the window was too large at {large} of {acks} ACKs");
    Ok(())
}

/// The last packet of what the application had to send is lost. The probe that
/// repairs it leaves no trace but an ACK; the kernel then asks for a decrease.
#[e2e(long, few)]
fn a_drop_that_a_probe_repairs_is_no_local_stall() -> Result<()> {
    // They fit into the receiver's first window: its end would cut a segment short.
    const SEGMENTS: usize = 40;
    let stand = Stand::set_up("probe")?;
    let (law_keys, law) = LAWS[0];
    let cases = [(7000, ""), (7001, IGNORE)];
    let policy: String =
        cases.iter().map(|(port, keys)| path_to(*port, &format!("{law_keys}; {keys}"))).collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    for (port, keys) in cases {
        let text = format!(
            "rtt = '50ms'\nforward = {{ rate = '200Mbit', queue = {{ bdp = 1.0 }}, \
             drop_data_packets = [{SEGMENTS}] }}\n"
        );
        let wan = Wan::start(&toml::from_str(&text)?)?;
        settings::apply(&wan)?;
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
        let send = |segments: usize| -> Result<Flow> {
            let bytes = segments * 1448;
            tcp::send(&connection.near, bytes, 1)?;
            tcp::receive(&connection.far, bytes, 1)?;
            // Until the last acknowledgement has come.
            signal::sleep(Duration::from_millis(200))?;
            Ok(connection.near_flow(wan.a())?)
        };
        let before = tcp::counter(wan.a(), "TCPLossProbeRecovery")?;
        let flow = send(SEGMENTS)?;
        ensure!(flow.ssthresh_segments.is_none() && flow.retransmits == 1, "{keys}: {flow:?}");
        let window = flow.cwnd_segments;
        let flow = send(SEGMENTS)?;
        let repaired = tcp::counter(wan.a(), "TCPLossProbeRecovery")? - before;
        ensure!(repaired == 1, "{keys}: {repaired} losses were repaired by probes");
        let threshold = flow.ssthresh_segments.with_context(|| format!("{keys}: no decrease"))?;
        let near_port = connection.near.local_addr()?.port();
        let signals = Signals::of(&mut signals::flows(&home), near_port)?;
        ensure!(signals.stalls == 0 && signals.timeouts == 0, "{keys}: {signals:?}");
        println!("{keys}: {threshold} of {window}");
        // What the ACKs until then have added is not known.
        ensure!(f64::from(threshold) < (1.0 - law.b(0.0)) * 2.2 * f64::from(window));
    }
    Ok(())
}

#[e2e(long, alone)]
fn a_decrease_for_a_packet_that_was_only_late_is_undone() -> Result<()> {
    const PATH: &str = "rtt = '100ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 }, \
                        reorder = { probability = 0.002, by = '60ms' } }\n";
    let cases: Vec<_> = LAWS
        .iter()
        .zip(7000..)
        .map(|((keys, law), port)| {
            let keys = format!("initial_ssthresh = 300; {keys}");
            Case { port, keys, law: *law, path: PATH, queue: None, ecn: Ecn::Classic }
        })
        .collect();
    let all = run("undo", &cases, Duration::from_secs(4))?;
    for (case, seen) in cases.iter().zip(&all) {
        ensure!(seen.forward.held_back > 0, "{:?}", seen.forward);
        let episodes = episodes(&seen.events);
        let spurious: Vec<_> =
            episodes.iter().filter(|episode| episode.state == RECOVERY).collect();
        println!("{}: {spurious:?}", case.keys);
        ensure!(spurious.iter().any(|episode| episode.after.is_some()), "{}", case.keys);
        for episode in spurious {
            case.law.check_decrease(episode.cwnd_before, episode.ssthresh_least)?;
            let Some((cwnd, ssthresh)) = episode.after else { continue };
            ensure!(cwnd >= episode.cwnd_before, "{}: {episode:?}", case.keys);
            ensure!(ssthresh >= episode.ssthresh_before, "{}: {episode:?}", case.keys);
        }
    }
    Ok(())
}
