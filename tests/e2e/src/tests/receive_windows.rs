//! A receiver lets a sender have more on its way in each round trip: seen in captures beside a
//! sender that takes all of it at once. Windows count bytes.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::{Capture, Packet},
    emulated::wan::{self, ADDRESSES_V4, Wan},
    kernel,
    policy::{path_of, path_to},
    settings,
    stand::Stand,
    sysctl,
    tcp::{self, Connection, at},
    wad::{Home, program},
};

const RTT: Duration = Duration::from_millis(120);
const PATH: &str = "rtt = '120ms'\nforward = { rate = '200Mbit', queue = { bdp = 0.5 } }\n\
                    reverse = { rate = '200Mbit', queue = { bdp = 0.5 } }\n";
/// The path holds this.
const BDP_BYTES: u64 = 3_000_000;
/// A sender with this has all that the path holds on its way at once, if the receiver lets it.
const SENDER: &str = "dedicated = '200Mbit'; rtt = '120ms'";
const BYTES: usize = 12_000_000;
const ROUND_TRIPS: usize = 8;
/// An acknowledgement may come a little before the round trip is over that it ends.
const EARLY_SECONDS: f64 = 0.01;

/// A handshake offers no more: a SYN has no scale, and what follows it does not know better.
const FIRST_BYTES: u64 = 65_536;
/// From this version on, or from one between it and 6.1, who connects offers all of a given buffer
/// with its second segment.
const AT_ONCE: (u32, u32) = (6, 12);
/// The window triples in a round trip at best; what is beyond it is for rounding.
const TRIPLED: f64 = 3.2;

/// Debian's, and that of Linux 6.16 and later.
const RMEM: [&str; 2] = ["4096 131072 6291456", "4096 131072 33554432"];
const AUTO: &str = "bandwidth = '200Mbit'; rtt = '120ms'; sndbuf = 'auto'; rcvbuf = 'auto'";
const GIVEN: &str = "bandwidth = '200Mbit'; rtt = '120ms'; sndbuf = 'auto'; rcvbuf = '8MiB'";

/// The end that receives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Receiver {
    Connects,
    Accepts,
}

/// Returns the windows that were offered: until the first data came, then the largest of each
/// round trip. A transfer that is over offers none.
fn offered(packets: &[Packet]) -> Result<Vec<u64>> {
    let data = packets.iter().find(|packet| packet.payload_bytes > 0).context("no data")?;
    let of_receiver =
        || packets.iter().filter(|packet| (packet.from, packet.to) == (data.to, data.from));
    let syn = of_receiver().find(|packet| packet.flags.contains('S')).context("no SYN")?;
    let scale = syn.window_scale.context("no window scale")?;
    let window = |packet: &Packet| {
        let scale = if packet.flags.contains('S') { 0 } else { scale };
        u64::from(packet.window) << scale
    };
    let number = |packet: &Packet| {
        let since_seconds = packet.time_seconds - data.time_seconds + EARLY_SECONDS;
        (since_seconds / RTT.as_secs_f64()).max(0.0) as usize
    };
    let most = |wanted| of_receiver().filter(|it| number(it) == wanted).map(window).max();
    Ok((0..=ROUND_TRIPS).map_while(most).collect())
}

/// Moves data over a port; the windows that the receiver offered.
fn transfer(wan: &Wan, port: u16, receiver: Receiver) -> Result<Vec<u64>> {
    let connects = receiver == Receiver::Connects;
    let sender = if connects { wan.b() } else { wan.a() };
    let capture = Capture::start(sender, wan::DEVICE, &format!("tcp port {port}"))?;
    let Connection { near, far } = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let (from, to) = if connects { (far, near) } else { (near, far) };
    thread::scope(|scope| -> Result<()> {
        let sending = scope.spawn(|| tcp::send(&from, BYTES, 1));
        tcp::receive(&to, BYTES, 1)?;
        Ok(sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    })?;
    offered(&capture.stop()?)
}

#[e2e(long, few)]
fn a_receiver_offers_three_times_as_much_in_a_round_trip_at_best() -> Result<()> {
    let stand = Stand::set_up("offers")?;
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let receivers = [Receiver::Connects, Receiver::Accepts];
    // Without an agent, with a buffer that grows, and with one that is there at once.
    let cases: Vec<_> = receivers
        .iter()
        .flat_map(|one| [None, Some(AUTO), Some(GIVEN)].map(|keys| (*one, keys)))
        .collect();
    let mut policy = String::new();
    for (port, (receiver, keys)) in (7000..).zip(&cases) {
        let [sends, receives]: [fn(u16, &str) -> String; 2] = match receiver {
            Receiver::Connects => [path_of, path_to],
            Receiver::Accepts => [path_to, path_of],
        };
        policy += &sends(port, SENDER);
        policy += &keys.map(|keys| receives(port, keys)).unwrap_or_default();
    }
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let is_at_once = kernel::running()? >= AT_ONCE;
    for rmem in RMEM {
        for netns in [wan.a(), wan.b()] {
            netns.run(|| sysctl::set("net.ipv4.tcp_rmem", rmem))??;
        }
        for (port, (receiver, keys)) in (7000..).zip(&cases) {
            let windows = transfer(&wan, port, *receiver)?;
            println!("{receiver:?}, tcp_rmem {rmem}, {}: {windows:?}", keys.unwrap_or("no agent"));
            if is_at_once && (*receiver, *keys) == (Receiver::Connects, Some(GIVEN)) {
                ensure!(windows[0] >= BDP_BYTES, "{} of a given buffer at first", windows[0]);
                continue;
            }
            ensure!(windows[0] <= FIRST_BYTES, "more than 64 KiB before the first data");
            let triples = |pair: &[u64]| pair[1] as f64 <= TRIPLED * pair[0] as f64;
            ensure!(windows.windows(2).all(triples), "more than three times as much");
            ensure!(windows[1] < BDP_BYTES / 10, "{} in the first round trip", windows[1]);
        }
    }
    Ok(())
}
