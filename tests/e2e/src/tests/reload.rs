//! A changed configuration, read again on SIGHUP, holds for flows that run; those
//! whose path is gone go back to the namespace's default.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    sending::while_sending,
    settings, signal,
    ss::{self, Flow},
    stand::{Stand, until},
    tcp::{self, Connection, at},
    wad::{Agent, Home, program},
};

const RTT: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
const FLOWS: usize = 100;
/// The buffers of all flows together are within what the agent lets them have by
/// default.
const BUFFERS: &str = "sndbuf = \"512KiB\"; rcvbuf = \"512KiB\"";

struct Bench<'a> {
    wan: &'a Wan,
    home: &'a Home,
    agent: Agent<'a>,
}

impl Bench<'_> {
    /// Changes the policy, and waits two round trips from when the agent says so.
    fn change(&mut self, keys: &str) -> Result<()> {
        let changes = || self.home.log().matches("paths are in force").count();
        let before = changes();
        self.home.write_policy(&path_to(PORT, &format!("{BUFFERS}; {keys}")))?;
        self.agent.signal(Signal::SIGHUP);
        until::<_, anyhow::Error>(
            "the change is in force",
            LIMIT,
            || Ok(changes()),
            |now| *now > before,
        )?;
        signal::sleep(2 * RTT)?;
        Ok(())
    }

    /// Returns the windows of all flows at one moment, but for the few that a machine
    /// that pauses may make lose something.
    fn windows(&self) -> Result<Windows> {
        let flows = self.wan.a().run(|| ss::flows(&format!("dport = :{PORT}")))??;
        ensure!(flows.len() == FLOWS, "{} flows", flows.len());
        let without_loss = flows.iter().filter(|flow| flow.retransmits == 0);
        let windows: Windows = without_loss.map(|flow| (flow.local, flow.cwnd_segments)).collect();
        ensure!(windows.len() >= FLOWS * 9 / 10, "losses on the way: {flows:?}");
        Ok(windows)
    }

    fn until_windows(&self, what: &'static str, fit: impl Fn(u32) -> bool) -> Result<()> {
        let fits = |windows: &Windows| windows.values().all(|window| fit(*window));
        until(what, LIMIT, || self.windows(), fits).map(|_| ())
    }
}

/// Windows are in segments, by the flows' own ends.
type Windows = BTreeMap<SocketAddr, u32>;

fn range(windows: &Windows) -> Result<(u32, u32)> {
    let least = windows.values().min().context("no windows")?;
    Ok((*least, *windows.values().max().context("no windows")?))
}

/// Opens all connections at once: one after the other they would take half a minute.
fn open_all(wan: &Wan) -> Result<Vec<Connection>> {
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wan.b(), to)?;
    thread::scope(|scope| {
        let connecting: Vec<_> =
            (0..FLOWS).map(|_| scope.spawn(|| tcp::connect(wan.a(), to))).collect();
        let near = |one: thread::ScopedJoinHandle<'_, _>| {
            one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        // Which of them is accepted with which other end does not matter.
        connecting.into_iter().map(|one| Ok(Connection::accepted(&listener, near(one)?)?)).collect()
    })
}

/// At first all windows are at their maximum, then at a lower one; then they grow,
/// and then, beyond any maximum, stop.
#[e2e(long, alone)]
fn a_change_holds_for_a_hundred_running_flows_within_two_round_trips() -> Result<()> {
    let stand = Stand::set_up("reload")?;
    let text = "rtt = '300ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n";
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    let start = "initial_ssthresh = 2; additive_increase = 10";
    let keys = format!("{BUFFERS}; {start}; max_cwnd = 20");
    let home = Home::create(&program()?, &path_to(PORT, &keys))?;
    let agent = home.start(stand.cgroup())?;
    let mut bench = Bench { wan: &wan, home: &home, agent };

    let connections = open_all(&wan)?;
    while_sending(&connections, || {
        bench.until_windows("all windows are at their maximum", |window| window == 20)?;

        bench.change(&format!("{start}; max_cwnd = 12"))?;
        let lowered = range(&bench.windows()?)?;
        println!("with max_cwnd 12 instead of 20: {lowered:?}");
        ensure!(lowered == (12, 12), "{lowered:?}");

        // It is in force for at least one round trip when the two are over.
        bench.change("additive_increase = 12; max_cwnd = 1000")?;
        let raised = range(&bench.windows()?)?;
        println!("with additive_increase 12 and no such bound: {raised:?}");
        ensure!(raised.0 >= 12 + 10, "{raised:?}");

        bench.change("additive_increase = 0.0625; max_cwnd = 1000")?;
        let before = bench.windows()?;
        let begun = Instant::now();
        signal::sleep(4 * RTT)?;
        let after = bench.windows()?;
        let rtts = begun.elapsed().as_secs_f64() / RTT.as_secs_f64();
        println!(
            "with 0.0625: {:?}, and {:?} {rtts:.1} RTTs later",
            range(&before)?,
            range(&after)?
        );
        let most = (rtts * 0.0625).ceil() as u32 + 1;
        let mut grown = after.iter().filter_map(|(flow, now)| Some(now - before.get(flow)?));
        ensure!(grown.all(|segments| segments <= most));
        Ok(())
    })
}

#[e2e(long, beside)]
fn what_cannot_be_used_changes_nothing() -> Result<()> {
    let stand = Stand::set_up("kept")?;
    let text = "rtt = '20ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n";
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    let home = Home::create(&program()?, &path_to(PORT, "initial_ssthresh = 300"))?;
    let mut agent = home.start(stand.cgroup())?;
    let starts = || -> Result<_> {
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?;
        Ok(connection.near_flow(wan.a())?.ssthresh_segments)
    };
    ensure!(starts()? == Some(300));
    for wrong in ["initial_ssthresh = 1", "no_such_key = 1", "initial_ssthresh = "] {
        let errors = || Ok::<_, anyhow::Error>(home.log().matches("stays as it was").count());
        let before = errors()?;
        home.write_policy(&path_to(PORT, wrong))?;
        agent.signal(Signal::SIGHUP);
        until("the agent says that it is wrong", LIMIT, errors, |now| *now > before)?;
        ensure!(starts()? == Some(300), "{wrong}");
    }
    home.write_policy(&path_to(PORT, "initial_ssthresh = 200"))?;
    agent.signal(Signal::SIGHUP);
    until("the next right one is in force", LIMIT, starts, |seen| *seen == Some(200))?;
    agent.stop()?;
    Ok(())
}

/// The first path of two goes, so that the place of its policy stays, empty.
#[e2e(long, beside)]
fn a_flow_whose_path_is_gone_goes_back_to_the_default() -> Result<()> {
    const KEPT_PORT: u16 = PORT + 1;
    let stand = Stand::set_up("gone")?;
    let text = "rtt = '20ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n";
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    let kept = path_to(KEPT_PORT, "max_cwnd = 20");
    let home = Home::create(&program()?, &[path_to(PORT, "max_cwnd = 20"), kept.clone()].concat())?;
    let mut agent = home.start(stand.cgroup())?;
    let connections =
        [PORT, KEPT_PORT].map(|port| Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port)));
    let [gone, kept_flow] = connections;
    let connections = [gone?, kept_flow?];
    let flows = || -> Result<_> {
        Ok([connections[0].near_flow(wan.a())?, connections[1].near_flow(wan.a())?])
    };
    while_sending(&connections, || {
        let both_held = |flows: &[Flow; 2]| flows.iter().all(|flow| flow.cwnd_segments == 20);
        until("both windows are at their maximum", LIMIT, flows, both_held)?;
        home.write_policy(&kept)?;
        agent.signal(Signal::SIGHUP);
        let [gone, kept] = until("one is free", LIMIT, flows, |[gone, _]| gone.cwnd_segments > 20)?;
        ensure!(gone.congestion == "cubic", "{gone:?}");
        ensure!(kept.congestion.starts_with("wad_cubic") && kept.cwnd_segments == 20, "{kept:?}");
        Ok(())
    })?;
    agent.stop()?;
    Ok(())
}
