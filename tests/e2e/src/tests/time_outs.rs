//! After a time-out `wad_cubic` grows as Linux's own CUBIC does: by a twentieth in each RTT, as
//! `bictcp_reset()` has made it forget at which window it lost packets.

use std::{slice, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    sending::while_sending,
    settings, signal,
    ss::Flow,
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    wad::{Home, program},
};

/// A path with a BDP of 345 segments and a queue of four times that. The window of an untuned receiver is
/// larger than both together.
const PATH: &str = "rtt = '40ms'\nforward = { rate = '100Mbit', queue = { bdp = 4.0 } }\n";
const BUFFERS: &str = "sndbuf = '16MiB'";
const SOON: Duration = Duration::from_secs(10);
/// Time after the time-out in which the growth of the window is measured; nothing is lost in it.
const WATCHED: Duration = Duration::from_millis(800);

/// Segments by which the window grows after a time-out, for each that is delivered.
fn growth_after_time_out(port: u16) -> Result<f64> {
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    // At the start of the outage a last segment may arrive whose ACK is lost. By each of these the sender
    // would take the time-out for spurious then, and undo it.
    for detection in ["frto", "dsack", "timestamps"] {
        for side in [wan.a(), wan.b()] {
            side.run(|| sysctl::set(&format!("net.ipv4.tcp_{detection}"), "0"))??;
        }
    }
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let look = || Ok::<_, anyhow::Error>(connection.near_flow(wan.a())?);
    while_sending(slice::from_ref(&connection), || {
        signal::sleep(Duration::from_millis(1500))?;
        // Nothing arrives: a packet whose sender has no route is dropped.
        wan.b().run(|| sysctl::set("net.ipv4.conf.all.rp_filter", "1"))??;
        wan.b().ip(&["route", "add", "blackhole", ADDRESSES_V4[0]])?;
        let is_timed_out = |flow: &Flow| flow.number("backoff").is_some_and(|times| times >= 1.0);
        until("it times out", SOON, look, is_timed_out)?;
        wan.b().ip(&["route", "del", "blackhole", ADDRESSES_V4[0]])?;
        let is_in_congestion_avoidance = |flow: &Flow| {
            ["backoff", "lost"].iter().all(|word| flow.number(word).is_none())
                && flow.ssthresh_segments.is_some_and(|segments| flow.cwnd_segments >= segments)
        };
        let before = until("slow start is over", SOON, look, is_in_congestion_avoidance)?;
        signal::sleep(WATCHED)?;
        let after = look()?;
        println!("{port}: {before:?}\n{after:?}");
        let grown = f64::from(after.cwnd_segments) - f64::from(before.cwnd_segments);
        Ok(grown / (after.delivered_segments - before.delivered_segments) as f64)
    })
}

#[e2e(long, few)]
fn the_window_grows_as_under_linuxs_cubic() -> Result<()> {
    let stand = Stand::set_up("timeouts")?;
    let policy = path_to(7000, &format!("congestion = 'wad_cubic'; {BUFFERS}"))
        + &path_to(7001, &format!("congestion = 'cubic'; {BUFFERS}"));
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let [ours, linuxs] = [7000, 7001].map(growth_after_time_out);
    let (ours, linuxs) = (ours?, linuxs?);
    agent.stop()?;
    // One segment for 20 delivered; by the curve alone one for a thousand.
    ensure!((0.045..=0.055).contains(&linuxs), "Linux's grows by {linuxs:.3} for each segment");
    ensure!((0.045..=0.055).contains(&ours), "ours grows by {ours:.3} for each segment");
    Ok(())
}
