//! The agent stops and the tuning stays: with nobody there, under the next agent,
//! and until `wad cleanup`.

use std::{fs, sync::atomic::Ordering, thread, time::Duration};

use anyhow::{Result, ensure};
use wad_tests::{
    newcomers::Newcomers,
    stand::{Stand, until},
    sysctl,
    tcp::{self, at},
    transfers::Transfers,
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SNDBUF_BYTES: usize = 2 * 1024 * 1024;
const SOON: Duration = Duration::from_secs(10);
const TRANSFERS: usize = 50;

// Only the ends that connect: the others' peer is 10.81.0.1.
const POLICY: &str = "[limits]\nmax_memory = '1GiB'\n\
                      [[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = '2MiB'\n\
                      rcvbuf = '2MiB'\ncongestion = 'wad_aimd'\n";

fn ceiling() -> Result<String> {
    Ok(sysctl::get("net.core.wmem_max")?)
}

#[test]
fn tuning_that_is_kept_goes_on_until_the_next_agent_takes_over() -> Result<()> {
    let stand = Stand::set_up("keep")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    home.keep_on_exit(true);
    home.write_policy(POLICY)?;
    let agent = home.start(stand.cgroup())?;
    let algorithm = home.algorithm()?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let transfers = Transfers::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001), TRANSFERS)?;
    let newcomers = Newcomers::of(&[SNDBUF_BYTES]);

    thread::scope(|scope| -> Result<()> {
        let stopping = newcomers.stopping();
        let connecting = scope.spawn(|| newcomers.run(wire.a(), &listener));
        let transferring = scope.spawn(|| transfers.run(&newcomers.stop));
        newcomers.await_more(100)?;
        agent.stop()?;
        ensure!(home.log().contains("tuning stays in the kernel"), "{}", home.log());
        ensure!(home.pins().exists() && home.journal().exists(), "it was taken out");
        ensure!(ceiling()? == SNDBUF_BYTES.to_string(), "{}", ceiling()?);
        newcomers.await_more(100)?;

        let next = home.start(stand.cgroup())?;
        ensure!(home.log().contains("took over the tuning"), "{}", home.log());
        newcomers.await_more(100)?;
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        let rounds = transferring.join().expect("transferring does not panic")?;
        let tuned = newcomers.tuned.load(Ordering::Relaxed);
        let untuned = newcomers.untuned.load(Ordering::Relaxed);
        println!("{tuned} connections tuned, {untuned} not; {rounds} rounds of transfers");
        ensure!(untuned == 0, "{untuned} of {tuned} connections were left alone");

        for flow in transfers.near_flows(wire.a())? {
            ensure!(flow.congestion == algorithm, "{flow:?}");
            ensure!(flow.sndbuf_bytes == 2 * SNDBUF_BYTES as u64, "{flow:?}");
        }
        // By whichever agent, or while there was none.
        let all = (tuned as usize + TRANSFERS) as f64;
        let metrics = home.metrics()?;
        for name in ["wad_connections_matched_total", "wad_flows_opened_total"] {
            let count = metrics.of_path(name, "p")?;
            ensure!(count == all, "{name}: {count} of {all}");
        }
        ensure!(metrics.of_path("wad_flows_tuned", "p")? == TRANSFERS as f64);
        next.stop()?;
        Ok(())
    })
}

#[test]
fn what_was_kept_is_removed_by_a_cleanup_or_by_a_changed_mind() -> Result<()> {
    let stand = Stand::set_up("kept")?;
    let before = ceiling()?;
    let home = Home::create(&program()?, POLICY)?;
    home.keep_on_exit(true);
    home.write_policy(POLICY)?;
    home.start(stand.cgroup())?.stop()?;
    ensure!(home.pins().exists() && ceiling()? == SNDBUF_BYTES.to_string());
    let output = home.command("cleanup").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!home.pins().exists() && !home.journal().exists() && ceiling()? == before);

    let agent = home.start(stand.cgroup())?;
    home.keep_on_exit(false);
    home.write_policy(POLICY)?;
    let look = || Ok::<_, anyhow::Error>(home.log());
    until("the change is taken", SOON, look, |log| log.contains("set agent.on_exit"))?;
    agent.stop()?;
    ensure!(!home.pins().exists() && !fs::exists(home.journal())?, "{}", home.log());
    ensure!(ceiling()? == before, "{}", ceiling()?);
    Ok(())
}
