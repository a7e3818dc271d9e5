//! A peer's word is followed, with an agent at each end of a path: a receiver that knows no path
//! has the buffers that the sender's needs, before connections begin; a consent that is heard,
//! ended or taken back decides on the law, seen by ss.

use std::{net::TcpStream, slice, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    both_ends::{Credentials, EVERY, End, await_heard},
    cgroup::{Cgroup, Joined},
    emulated::wan::{ADDRESSES_V4, Wan},
    process::run_command,
    sending::while_sending,
    settings,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    wad::{Home, program},
};

/// A buffer is seen to grow, and a word to be heard, within this.
const LIMIT: Duration = Duration::from_secs(60);
/// The path holds 10 MB, of which Debian's receivers offer 3.1.
const PATH: &str = "rtt = '400ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 } }\n";
/// 1.25 times what it holds.
const WANTED: u64 = 12_500_000;
/// The last of Debian's `tcp_rmem`.
const KERNEL_RCVBUF: u64 = 6_291_456;
const PREFIXES: [&str; 2] = ["10.77.0.1/32", "10.77.0.2/32"];
const PORT: u16 = 7000;

const LIMITS: &str = "[limits]\nchange_interval = '1s'\nmax_memory = '1GiB'\n\n";

/// The two ends: where they are, and the agents' homes.
struct Ends<'s> {
    stand: &'s Stand,
    far: Cgroup,
    wan: Wan,
    credentials: Credentials,
}

impl<'s> Ends<'s> {
    fn set_up(stand: &'s Stand) -> Result<Self> {
        let wan = Wan::start(&toml::from_str(PATH)?)?;
        settings::apply(&wan)?;
        let credentials = Credentials::make(&program()?, PREFIXES)?;
        Ok(Self { stand, far: Cgroup::create("far")?, wan, credentials })
    }

    /// The configuration of the sender, whose file has a path with some more keys.
    fn near(&self, keys: &str) -> String {
        let tables = self.credentials.tables(End::Near, "");
        let to = ADDRESSES_V4[1];
        format!(
            "{LIMITS}{tables}[[path]]\nname = 'to'\nremote = '{to}'\nbandwidth = '200Mbit'\nrtt = \
             '400ms'\nsndbuf = 'auto'\n{keys}\n"
        )
    }

    /// The configuration of the receiver, which knows no path.
    fn far(&self, of_peer: &str) -> String {
        LIMITS.to_owned() + &self.credentials.tables(End::Far, of_peer)
    }

    /// Connects; each end is under the agent of its cgroup.
    fn connect(&self) -> Result<Connection> {
        let to = at(ADDRESSES_V4[1], PORT);
        let listener = {
            let _far = Joined::to(&self.far)?;
            tcp::listen(self.wan.b(), to)?
        };
        let near: TcpStream = tcp::connect(self.wan.a(), to)?;
        let connection = Connection::accepted(&listener, near)?;
        connection.near.set_write_timeout(None)?;
        connection.far.set_read_timeout(None)?;
        Ok(connection)
    }
}

fn paths(home: &Home) -> Result<Value> {
    Ok(serde_json::from_str(&run_command(home.command("paths").arg("--json"))?)?)
}

/// The receive buffer of the path that a peer's word has made, if there is one.
fn granted(home: &Home) -> Result<Option<u64>> {
    let paths = paths(home)?;
    let all = paths["paths"].as_array().context("no paths")?;
    let path = all.iter().find(|path| path["name"] == "peer-near");
    Ok(path.and_then(|path| path["policy"]["rcvbuf_bytes"].as_u64()))
}

#[e2e(long, alone)]
fn a_receiver_without_a_path_gives_the_room_that_the_senders_needs() -> Result<()> {
    let stand = Stand::set_up("peers-follow")?;
    let ends = Ends::set_up(&stand)?;
    let far = Home::create(&program()?, &ends.far(""))?;
    let receiver = far.start(&ends.far)?;
    let before = ends.connect()?;
    let flow = before.far_flow(ends.wan.b())?;
    let (_, scale_before) = flow.window_scales.context("no window scale")?;
    drop(before);

    let near = Home::create(&program()?, &ends.near(""))?;
    let sender = near.start(stand.cgroup())?;
    let look = || granted(&far);
    until("the path is there", LIMIT, look, |bytes| *bytes == Some(WANTED))
        .with_context(|| far.log())?;
    let connection = ends.connect()?;
    let flow = connection.far_flow(ends.wan.b())?;
    let (_, scale) = flow.window_scales.context("no window scale")?;
    ensure!(scale > scale_before, "{scale_before} before: {flow:?}");
    ensure!(65_535_u64 << scale >= WANTED, "{flow:?}");
    // The law is the kernel's.
    ensure!(flow.congestion == "cubic", "{flow:?}");
    while_sending(slice::from_ref(&connection), || -> Result<()> {
        let rcvbuf = || -> Result<u64> { Ok(connection.far_flow(ends.wan.b())?.rcvbuf_bytes) };
        until("its buffer grows", LIMIT, rcvbuf, |bytes| *bytes > KERNEL_RCVBUF)?;
        let offered =
            || -> Result<u64> { Ok(connection.near_flow(ends.wan.a())?.send_window_bytes) };
        until("the window grows", LIMIT, offered, |bytes| *bytes > KERNEL_RCVBUF / 2)?;
        let rcvbuf = connection.far_flow(ends.wan.b())?.rcvbuf_bytes;
        ensure!(rcvbuf <= 2 * WANTED, "{rcvbuf}");

        // Both ends in one answer.
        let target = format!("{}:{PORT}", ADDRESSES_V4[1]);
        let diagnosed = run_command(near.command("diagnose").args([&target, "--json"]))?;
        let diagnosed: Value = serde_json::from_str(&diagnosed)?;
        let there = &diagnosed["flows"][0]["other_end"];
        ensure!(there["peer"] == "far", "{diagnosed}");
        Ok(())
    })?;

    let explained = run_command(far.command("explain").args([ADDRESSES_V4[0]]))?;
    ensure!(explained.contains("peer-near") && explained.contains("was heard"), "{explained}");
    let status = run_command(&mut far.command("status"))?;
    ensure!(status.contains("by its word: peer-near"), "{status}");

    // The file bounds it, and decides.
    far.reload(&ends.far("grant_buffer = '7MB'"))?;
    until("less is granted", LIMIT, look, |bytes| *bytes == Some(7_000_000))?;
    far.reload(&ends.far("grant_buffer = '0B'"))?;
    until("nothing is granted", LIMIT, look, Option::is_none)?;
    far.reload(&ends.far(""))?;
    until("it is granted again", LIMIT, look, |bytes| *bytes == Some(WANTED))?;

    // A peer that has gone takes its word with it.
    sender.stop()?;
    until("its word has ended", 3 * EVERY + LIMIT, look, Option::is_none)?;
    receiver.stop()?;
    Ok(())
}

#[e2e(long, few, slow)]
fn a_consent_decides_on_the_law_while_it_is_heard() -> Result<()> {
    let stand = Stand::set_up("peers-consent")?;
    let ends = Ends::set_up(&stand)?;
    let far = Home::create(&program()?, &ends.far(""))?;
    let receiver = far.start(&ends.far)?;
    let keys = "congestion = 'wad_scalable'\nallow = 'peer:far'";
    let near = Home::create(&program()?, &ends.near(keys))?;
    let sender = near.start(ends.stand.cgroup())?;
    await_heard(&near)?;
    let running = ends.connect()?;
    let law = |connection: &Connection| -> Result<String> {
        Ok(connection.near_flow(ends.wan.a())?.congestion)
    };
    ensure!(law(&running)? == "cubic", "{}", near.log());

    let consent = |more: &str| ends.far(&format!("consent = {{ to = 'aggressive'{more} }}\n"));
    let is = |connection: &Connection, name: &str| -> Result<()> {
        let seen =
            until("the law follows", LIMIT, || law(connection), |seen| seen.starts_with(name));
        seen.with_context(|| near.log()).map(|_| ())
    };
    let both_are = |name: &str| -> Result<()> {
        is(&running, name)?;
        let new = law(&ends.connect()?)?;
        ensure!(new.starts_with(name), "{new}, not {name}: {}", near.log());
        Ok(())
    };
    // Heard, for the running connection and for new ones, and bounded.
    far.reload(&consent(", max_rate = '100Mbit'"))?;
    both_are("wad_scalable")?;
    while_sending(slice::from_ref(&running), || -> Result<()> {
        let rate =
            || -> Result<u64> { Ok(running.near_flow(ends.wan.a())?.pacing_bits_per_second) };
        until("it is paced", LIMIT, rate, |rate| *rate > 0 && *rate <= 101_000_000)?;
        Ok(())
    })?;
    let explained = run_command(near.command("explain").arg(ADDRESSES_V4[1]))?;
    ensure!(explained.contains("consents to more than a fair share"), "{explained}");
    let running = ends.connect()?;
    let is_now = |name: &str| is(&running, name);
    is_now("wad_scalable")?;

    // Taken back.
    far.reload(&ends.far(""))?;
    is_now("cubic")?;
    ensure!(law(&ends.connect()?)? == "cubic");
    // Ended, by its own time.
    let until_then = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(20);
    far.reload(&consent(&format!(", until = '{until_then}'")))?;
    is_now("wad_scalable")?;
    is_now("cubic")?;
    let late = jiff::Timestamp::now().duration_since(until_then);
    ensure!(late >= jiff::SignedDuration::from_secs(-1), "{late:?} too soon");
    // For another network, or for next to nothing: none.
    far.reload(&consent(", max_rate = '1Mbit'"))?;
    await_heard(&near)?;
    wad_testbed::signal::sleep(2 * EVERY)?;
    ensure!(law(&ends.connect()?)? == "cubic");
    // And with the peer itself.
    far.reload(&consent(""))?;
    is_now("wad_scalable")?;
    receiver.kill()?;
    is_now("cubic")?;
    sender.stop()?;
    Ok(())
}
