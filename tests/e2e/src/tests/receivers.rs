//! Only the receiver of these transfers is tuned, on a path that nobody measures but its own
//! flows: what arrives raises what is known, until the path limits it, and the RTT is as the
//! receiver sees it.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    sending::while_sending,
    signal,
    stand::{Stand, until},
    sysctl::{self, Changed},
    tcp::{Connection, at},
    wad::{Home, program},
};

use super::passive::{self, LIMIT, PORT, buffers, known_mbit, paths, transfer};

/// The path carries so much.
const MBIT: f64 = 80.0;
/// A transfer of some seconds gets so much of it, with its start.
const FULL: f64 = 0.75 * 0.95 * MBIT;
/// The kernel's own receive buffer is enough for a third.
const KERNEL_RCVBUF_BYTES: u64 = 524_288;
const TCP_RMEM: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 131072 524288");

/// The sender's buffer is no limit.
fn wan() -> Result<Wan> {
    let wan = passive::wan(MBIT as u32)?;
    wan.a().run(|| sysctl::set("net.ipv4.tcp_wmem", "4096 16384 16777216"))??;
    wan.b().run(|| sysctl::set(TCP_RMEM.0, TCP_RMEM.1))??;
    Ok(wan)
}

/// Makes a configuration that matches the receivers alone.
fn home() -> Result<Home> {
    let policy = format!(
        "[limits]\nchange_interval = '1s'\nmax_memory = '1GiB'\n\n\
         [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '1s'\n\n\
         [[path]]\nname = 'from'\nremote = '{}'\nmode = 'measured'\nrcvbuf = 'auto'\n",
        ADDRESSES_V4[0]
    );
    Ok(Home::create(&program()?, &policy)?)
}

/// Returns what is known of the path's RTT, in seconds.
fn known_rtt(home: &Home) -> Result<f64> {
    let paths = paths(home)?;
    let rtt = paths["paths"][0]["measured"]["rtt_seconds"]["value"].as_f64();
    rtt.with_context(|| format!("no RTT: {paths}"))
}

#[e2e(long, few, slow)]
fn each_transfer_that_is_received_gets_more_until_the_path_limits_it() -> Result<()> {
    const SECONDS: u64 = 6;
    let stand = Stand::apart("receivers")?;
    let _kernel = Changed::to(TCP_RMEM.0, TCP_RMEM.1)?;
    let wan = wan()?;
    let home = home()?;
    let agent = home.start(stand.cgroup())?;
    ensure!(buffers(&home, 0)? == (0, 0));

    let mut mbit: Vec<f64> = Vec::new();
    // The third fills it, unless the host is busy with something else.
    while mbit.len() < 6 && mbit.last().is_none_or(|got| *got < FULL) {
        let got = thread::scope(|scope| -> Result<f64> {
            let sending = scope.spawn(|| transfer(&wan, SECONDS));
            let look = || known_mbit(&home);
            until("what arrives is seen", LIMIT, look, |seen| *seen > 0.0)?;
            ensure!(!sending.is_finished(), "it was seen at its end alone");
            sending.join().ok().context("the transfer panicked")?
        })?;
        mbit.push(got);
        let look = || known_mbit(&home);
        let seen = until("all of it is seen", LIMIT, look, |seen| *seen > 0.8 * got)?;
        // For the policy to be in force.
        signal::sleep(Duration::from_secs(2))?;
        println!("{got:.0} Mbit/s, then known: {seen:.0}");
        ensure!(seen < 1.2 * MBIT, "{seen} Mbit/s on a path of {MBIT}");
    }
    ensure!(mbit.len() >= 2 && mbit[0] < FULL, "the first had enough: {mbit:?}");
    ensure!(mbit.last().is_some_and(|got| *got >= FULL), "{mbit:?}; {}", home.log());
    let rtt = known_rtt(&home)?;
    ensure!((0.1..0.11).contains(&rtt), "{rtt} s");
    // Twice what is known, which the kernel doubles.
    let (_, rcvbuf) = buffers(&home, 0)?;
    let bdp = known_mbit(&home)? * 1e6 / 8.0 * rtt;
    ensure!((3.5..4.5).contains(&(rcvbuf as f64 / bdp)), "{rcvbuf} for {bdp}");
    ensure!(home.metrics()?.value("wad_paths_measured", &[])? == 1.0);

    let flows = [Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?];
    while_sending(&flows, || -> Result<()> {
        let has = || -> Result<u64> { Ok(flows[0].far_flow(wan.b())?.rcvbuf_bytes) };
        let grown = until("its buffer grows", LIMIT, has, |bytes| *bytes > KERNEL_RCVBUF_BYTES)?;
        ensure!(grown <= rcvbuf, "{grown} bytes of {rcvbuf}");
        // The route becomes a longer one. Nothing is acknowledged to the receiver: the
        // handshake is all that it knows by that.
        wan.set_rtt(Duration::from_millis(200));
        let look = || known_rtt(&home);
        let rtt = until("the RTT is known", 3 * LIMIT, look, |rtt| *rtt > 0.19)?;
        println!("known after it became 200 ms: {:.0} ms", rtt * 1e3);
        ensure!(rtt < 0.45, "{rtt} s");
        Ok(())
    })?;
    agent.stop()?;
    Ok(())
}
