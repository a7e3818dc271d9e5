//! Scans of all flows, while the flows do what is hard on whoever reads them: their locks are held,
//! they come and go by the thousand, there is no room for their state.

use std::{
    collections::HashSet,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    missing_page::MissingPage,
    pinned_map::{self, PinnedMap},
    signal,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::amount;

const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(10);
/// An answer that waits for a lock which is held for ever does not come at all.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Nothing in it has the agent visit sockets.
const POLICY: &str = "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nremote_port = 7000\n\
                      congestion = 'wad_aimd'\nsndbuf = '1MiB'\n";

/// Returns the flows as the agent shows them, and the time that the answer took.
fn flows(home: &Home) -> Result<(Vec<Value>, Duration)> {
    let begun = Instant::now();
    let output = home.command("flows").arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reading: Value = serde_json::from_slice(&output.stdout)?;
    let flows = reading["flows"].as_array().context("no list of flows")?.clone();
    Ok((flows, begun.elapsed()))
}

/// Returns the agent's map of flows.
fn map_of_flows(home: &Home) -> Result<PinnedMap> {
    Ok(PinnedMap::open(&pinned_map::pin(&home.pins(), "FLOWS")?)?)
}

#[e2e(every_change, beside)]
fn a_flow_whose_lock_is_held_for_ever_is_shown() -> Result<()> {
    const OCTETS: usize = 500_000;
    let stand = Stand::set_up("locked")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    connection.exchange(OCTETS)?;
    let acked = || -> Result<_> {
        let (flows, took) = flows(&home)?;
        ensure!(flows.len() == 1, "{flows:?}");
        Ok((flows[0]["instruments"]["HCThruOctetsAcked"].as_u64(), took))
    };
    // The SYN counts as one.
    let all = Some(OCTETS as u64 + 1);
    until("all is acknowledged", SOON, acked, |(acked, _)| *acked == all)?;
    let mut page = MissingPage::new()?;
    page.send_by(&connection.near);
    signal::sleep(Duration::from_millis(300))?;
    for _ in 0..3 {
        let (acked, took) = acked()?;
        ensure!(acked == all && took < AT_ONCE, "{acked:?} after {took:?}");
    }
    home.metrics()?;
    ensure!(home.command("status").output()?.status.success());
    ensure!(page.is_waited_for(), "nobody held the lock: nothing is tested");
    // It ends while the lock is held still.
    agent.stop()?;
    ensure!(page.is_waited_for(), "nobody held the lock: nothing is tested");
    Ok(())
}

#[e2e(long, few, slow)]
fn short_connections_beside_scans_are_counted_once_and_leave_nothing() -> Result<()> {
    const OCTETS: usize = 1000;
    let count = amount::of(20_000, 100_000);
    let stand = Stand::set_up("short")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wire.b(), to)?;
    let come_and_go = || -> Result<()> {
        for n in 0..count {
            signal::check()?;
            let connection = Connection::accepted(&listener, TcpStream::connect(to)?)?;
            tcp::send(&connection.near, OCTETS, n)?;
            tcp::receive(&connection.far, OCTETS, n)?;
            let Connection { near, far } = connection;
            // One end as often as the other.
            let (first, second) = if n % 2 == 0 { (near, far) } else { (far, near) };
            tcp::reset(first)?;
            drop(second);
        }
        Ok(())
    };
    let scans = thread::scope(|scope| -> Result<usize> {
        let comes = scope.spawn(|| wire.a().run(come_and_go));
        let mut scans = 0;
        while !comes.is_finished() {
            let (flows, _) = flows(&home)?;
            ensure_possible(&flows, OCTETS as u64)?;
            scans += 1;
        }
        comes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))??;
        Ok(scans)
    })?;
    println!("{scans} scans beside {count} connections");
    let counted = || -> Result<_> {
        let metrics = home.metrics()?;
        let of = |name| metrics.of_path(name, "p");
        Ok(["wad_flows_opened_total", "wad_flows_closed_total", "wad_flows_tuned"]
            .map(of)
            .into_iter()
            .collect::<Result<Vec<f64>, _>>()?)
    };
    let right = vec![count as f64, count as f64, 0.0];
    until("each is counted once", SOON, counted, |counted| *counted == right)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_flows_tuned_drift_total", "p")? == 0.0);
    ensure!(metrics.of_path("wad_flows_closed_unseen_total", "p")? == 0.0);
    ensure!(map_of_flows(&home)?.count()? == 0, "the state of flows that are over is there still");
    Ok(())
}

/// Fails if a flow is shown twice, or has values that no connection of this test can have.
fn ensure_possible(flows: &[Value], octets: u64) -> Result<()> {
    let mut cookies = HashSet::new();
    for flow in flows {
        ensure!(cookies.insert(flow["cookie"].as_u64()), "one is there twice: {flows:?}");
        let remote = format!("{}:{PORT}", ADDRESSES_V4[1]);
        ensure!(flow["remote"] == remote.as_str() && flow["path"] == "p", "{flow}");
        let count = |name| flow["instruments"][name].as_u64();
        // The SYN counts as one.
        let acked = count("HCThruOctetsAcked").context("no count")?;
        ensure!(acked <= octets + 1, "{flow}");
        ensure!(count("HCDataOctetsOut").is_some_and(|out| out <= 2 * octets), "{flow}");
    }
    Ok(())
}

#[e2e(every_change, beside)]
fn connections_go_on_untuned_while_the_map_of_flows_is_full() -> Result<()> {
    /// No socket gets a cookie that is so large.
    const FIRST: u64 = 1 << 62;
    let stand = Stand::set_up("full")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let map = map_of_flows(&home)?;
    let open = || Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT));
    let before = open()?;
    let mut filled = FIRST;
    while map.insert(filled).is_ok() {
        filled += 1;
    }
    ensure!(filled - FIRST >= u64::from(map.max_entries()) - 1, "{} elements", filled - FIRST);
    let congestion = |connection: &Connection| -> Result<String> {
        Ok(connection.near_flow(wire.a())?.congestion)
    };
    let untuned = open()?;
    untuned.exchange(100_000)?;
    ensure!(!congestion(&untuned)?.starts_with("wad_"), "it has the policy's law");
    let without_room = || -> Result<_> {
        let output = home.command("status").arg("--json").output()?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        Ok(status["flows_without_storage"].as_u64())
    };
    ensure!(without_room()? == Some(1), "{:?}", without_room()?);
    // What is in the map already is not disturbed, nor is what comes when there is room.
    ensure!(congestion(&before)?.starts_with("wad_"));
    let (shown, _) = flows(&home)?;
    ensure!(shown.len() == 1, "{shown:?}");
    (FIRST..filled).try_for_each(|cookie| map.remove(cookie))?;
    let after = open()?;
    ensure!(congestion(&after)?.starts_with("wad_"), "it has another law than the policy's");
    drop((before, untuned, after));
    let none = || Ok::<_, anyhow::Error>(map.count()?);
    until("their state goes with them", SOON, none, |count| *count == 0)?;
    Ok(())
}
