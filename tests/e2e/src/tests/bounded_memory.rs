//! Whom the bound on memory reaches: no buffer of a given size. Judged by what the kernel
//! says of the sockets, and by its own count of what TCP holds.

use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::ADDRESSES_V4,
    settings::WMEM_MAX,
    stand::{Stand, until},
    sysctl::Changed,
    tcp::{Connection, at},
    wad::{Home, program},
};

use super::buffers::{PATH, SOON, await_little_held, drain, fill, held_bytes, patient, sizes, wan};

const PORT: u16 = 7000;

/// A size in bytes is what the operator says: no bound keeps a buffer from it, or shrinks it.
#[e2e(long, alone)]
fn buffers_of_a_given_size_stay_so_beyond_the_bound() -> Result<()> {
    const RECEIVERS: usize = 16;
    const GIVEN_BYTES: u64 = 2 << 20;
    let stand = Stand::set_up("given")?;
    let paths = format!(
        "[[path]]\nname = 'to'\nremote = '{}'\nremote_port = {PORT}\nsndbuf = '1MiB'\n\
         [[path]]\nname = 'of'\nremote = '{}'\nlocal_port = {PORT}\nrcvbuf = '1MiB'\n\
         bandwidth = '100Mbit'\nrtt = '100ms'\nsndbuf = 'auto'\n",
        ADDRESSES_V4[1], ADDRESSES_V4[0]
    );
    let home = Home::create(&program()?, &paths)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan(PATH)?;
    await_little_held()?;
    let open = || patient(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?);
    let mut unread = (0..RECEIVERS).map(|_| open()).collect::<Result<Vec<_>>>()?;
    let mut sent = fill(&unread)?;
    // Its other buffer has something to shrink, so that there is a cap.
    unread[0].far.set_nonblocking(true)?;
    while (&unread[0].far).write(&[7; 65_536]).is_ok() {}
    unread[0].far.set_nonblocking(false)?;

    let held = held_bytes()?;
    let limit_bytes = held / 4 * 3;
    home.reload(&format!("[limits]\nmax_memory = {limit_bytes}\n\n{paths}"))?;
    // By then the cap on other buffers is as low as it gets.
    let over = || {
        Ok::<_, anyhow::Error>(home.metrics()?.value("wad_memory_over_limit_seconds_total", &[])?)
    };
    until("it is too much for long", SOON, over, |seconds| *seconds > 5.0)?;
    // One that comes now has its size as well.
    unread.push(open()?);
    sent.push(0);
    for connection in &unread {
        let sizes = sizes(&wan, connection)?;
        ensure!(sizes == (GIVEN_BYTES, GIVEN_BYTES), "{sizes:?}");
    }
    // One that is smaller is said to be: nobody takes the kernel's ceiling for the cap.
    let lowered = Changed::to(WMEM_MAX.0, WMEM_MAX.1)?;
    let cut = open()?;
    drop(lowered);
    let output = home.command("flows").arg("--json").output()?;
    let flows: Value = serde_json::from_slice(&output.stdout)?;
    let local = cut.near.local_addr()?.to_string();
    let mut flows = flows["flows"].as_array().context("flows")?.iter();
    let refused = flows.find(|flow| flow["local"] == local.as_str()).map(|flow| &flow["refused"]);
    ensure!(refused == Some(&json!([{ "setting": "sndbuf", "errno": null }])), "{refused:?}");
    let still = held_bytes()?;
    ensure!(still > limit_bytes, "{still} bytes are held, {held} before");
    drain(&unread, &sent)
}
