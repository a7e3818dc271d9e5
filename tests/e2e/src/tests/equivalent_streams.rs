//! A flow that is as four: it has their share of a path that loses, their buffers, and
//! their first window. How far its window falls and how fast it grows see `control_law`.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::{path_of, path_to},
    settings,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    wad::{Home, program},
};

use super::{buffers, divide::Sender};

const FOUR: u16 = 7000;
const STANDARD: u16 = 7001;
const SOON: Duration = Duration::from_secs(20);

fn open(wan: &Wan, port: u16) -> Result<Connection> {
    Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?)
}

/// Where losses come to all alike, four in one have four times the rate of one; the smaller
/// decrease alone, or the faster growth alone, makes it about twice.
#[e2e(long, few, slow)]
fn a_flow_has_the_share_of_its_streams_beside_standard_ones() -> Result<()> {
    const STANDARD_FLOWS: usize = 4;
    const SHARE: f64 = 4.0;
    let stand = Stand::set_up("share")?;
    let policy = path_to(FOUR, "equivalent_streams = 4; initial_ssthresh = 100")
        + &path_to(STANDARD, "congestion = 'wad_cubic'; initial_ssthresh = 25");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    // There is never a queue: all have the same round trip, and lose by chance.
    let wan = Wan::start(&toml::from_str(
        "rtt = '40ms'\nforward = { rate = '400Mbit', queue = { bdp = 1.0 }, loss = 1e-3 }\n",
    )?)?;
    settings::apply(&wan)?;
    let four = Sender::start(open(&wan, FOUR)?)?;
    let standard = (0..STANDARD_FLOWS)
        .map(|_| Ok(Sender::start(open(&wan, STANDARD)?)?))
        .collect::<Result<Vec<_>>>()?;
    let acked = |sender: &Sender| -> Result<f64> {
        Ok(tcp::flow(wan.a(), &sender.near)?.bytes_acked as f64)
    };
    let look = || -> Result<[f64; 2]> {
        let all = standard.iter().map(acked).sum::<Result<f64>>()?;
        Ok([acked(&four)?, all / STANDARD_FLOWS as f64])
    };
    thread::sleep(Duration::from_secs(2));
    let before = look()?;
    thread::sleep(Duration::from_secs(40));
    let after = look()?;
    let share = (after[0] - before[0]) / (after[1] - before[1]);
    println!("{share:.2} times a standard flow's rate");
    ensure!((share / SHARE - 1.0).abs() <= 0.25, "a share of {share}");
    four.abort()?;
    standard.into_iter().try_for_each(|sender| sender.abort().map(|_| ()))
}

#[e2e(long, few)]
fn a_flow_has_the_buffers_and_the_first_window_of_its_streams() -> Result<()> {
    // The path carries four times what its policies say.
    const KEYS: &str = "bandwidth = '25Mbit'; rtt = '100ms'; sndbuf = 'auto'; rcvbuf = 'auto'";
    let stand = Stand::set_up("fourfold")?;
    let four = format!("{KEYS}; equivalent_streams = 4; initial_ssthresh = 4000");
    let one = format!("{KEYS}; congestion = 'wad_aimd'");
    let policy = path_to(FOUR, &four) + &path_of(FOUR, &four) + &path_to(STANDARD, &one);
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = buffers::wan(buffers::PATH)?;
    let standard = open(&wan, STANDARD)?.near_flow(wan.a())?;
    ensure!(standard.cwnd_segments == 10, "{standard:?}");
    let connection = open(&wan, FOUR)?;
    for flow in [connection.near_flow(wan.a())?, connection.far_flow(wan.b())?] {
        ensure!(flow.cwnd_segments == 40, "{flow:?}");
    }
    let sender = Sender::start(connection)?;
    let sizes = || -> Result<_> {
        let (near, far) = (tcp::flow(wan.a(), &sender.near)?, tcp::flow(wan.b(), &sender.far)?);
        Ok((near.sndbuf_bytes, far.rcvbuf_bytes))
    };
    // Those of one stream end at a quarter.
    let most = (buffers::MOST_BYTES, buffers::MOST_BYTES);
    until("both have grown fourfold", SOON, sizes, |sizes| *sizes == most)?;
    sender.abort().map(|_| ())
}
