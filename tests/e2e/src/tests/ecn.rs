//! `ecn = "on"`: connections of a path ask for Explicit Congestion Notification (RFC 3168), and
//! accept it, whatever `net.ipv4.tcp_ecn` says.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::{Capture, Packet},
    netns::Netns,
    process::run_command,
    signal,
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, DEVICE, Wire},
    wad::{Home, program},
};

/// Port of the far end to which connections ask for ECN.
const ASKING_PORT: u16 = 7000;
/// Port at which the near end listens and accepts ECN.
const ACCEPTING_PORT: u16 = 7010;
const SOON: Duration = Duration::from_secs(5);

/// Flags of the SYN and of the SYN-ACK where ECN is negotiated (RFC 3168 section 6.1.1): ECE and
/// CWR, then ECE.
const NEGOTIATED: [&str; 2] = ["SEW", "S.E"];
const ASKED_IN_VAIN: [&str; 2] = ["SEW", "S."];
const NOT_ASKED: [&str; 2] = ["S", "S."];

/// The packets that a connection has sent.
struct Sent {
    /// Flags of the SYN and of the SYN-ACK.
    handshake: Vec<String>,
    /// Segments of the end that connected with data: all, and those that are ECN-capable.
    data: [usize; 2],
}

fn connect(wire: &Wire, from: &Netns, listening: &Netns, to: SocketAddr) -> Result<Sent> {
    let capable = if to.is_ipv6() { "ip6[0:2] & 0x0030 = 0x0020" } else { "ip[1] & 3 = 2" };
    let all = Capture::start(wire.a(), DEVICE, &format!("tcp port {}", to.port()))?;
    let filter = format!("tcp port {} and {capable}", to.port());
    let capable = Capture::start(wire.a(), DEVICE, &filter)?;
    let connection = Connection::open(from, listening, to)?;
    let near = connection.near.local_addr()?;
    connection.exchange(100_000)?;
    signal::sleep(Duration::from_millis(100))?;
    let [all, capable] = [all.stop()?, capable.stop()?];
    let handshake = all.iter().filter(|packet| packet.flags.contains('S'));
    let data = |packets: &[Packet]| {
        packets.iter().filter(|packet| packet.from == near && packet.payload_bytes > 0).count()
    };
    Ok(Sent {
        handshake: handshake.map(|packet| packet.flags.clone()).collect(),
        data: [data(&all), data(&capable)],
    })
}

#[e2e(every_change, beside)]
fn connections_of_a_path_negotiate_ecn() -> Result<()> {
    let stand = Stand::set_up("ecn")?;
    let wire = Wire::start()?;
    let [a, b] = [wire.a(), wire.b()];
    let policy = format!(
        "[limits]\nmax_memory = '1GiB'\n[host]\nroutes = true\n\
         [[path]]\nname = 'asks'\nremote = {0:?}\nremote_port = {ASKING_PORT}\necn = 'on'\n\
         [[path]]\nname = 'accepts'\nremote = {0:?}\nlocal_port = {ACCEPTING_PORT}\necn = 'on'\n",
        [ADDRESSES_V4[1], ADDRESSES_V6[1]],
    );
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start_inside(a, stand.cgroup())?;

    // The kernel's default: it accepts what is asked for, and asks for nothing.
    for netns in [a, b] {
        netns.run(|| sysctl::set("net.ipv4.tcp_ecn", "2"))??;
    }
    for [_, far] in [ADDRESSES_V4, ADDRESSES_V6] {
        let sent = connect(&wire, a, b, at(far, ASKING_PORT))?;
        ensure!(sent.handshake == NEGOTIATED, "to {far}: {:?}", sent.handshake);
        let [all, capable] = sent.data;
        // What is sent again is not ECN-capable (RFC 3168 section 6.1.5).
        ensure!(capable > all / 2, "to {far}: {capable} of {all} segments are ECN-capable");
        let sent = connect(&wire, a, b, at(far, ASKING_PORT + 1))?;
        ensure!(sent.handshake == NOT_ASKED, "another port: {:?}", sent.handshake);
        ensure!(sent.data[1] == 0, "another port: {} segments are ECN-capable", sent.data[1]);
    }
    let to = format!("{}:{ASKING_PORT}", ADDRESSES_V4[1]);
    let explained = run_command(home.command("explain").arg(to))?;
    let means = "connections ask for ECN: a feature of routes, in table 1191000";
    ensure!(explained.contains(means), "{explained}");

    a.run(|| sysctl::set("net.ipv4.tcp_ecn", "0"))??;
    b.run(|| sysctl::set("net.ipv4.tcp_ecn", "1"))??;
    for [near, _] in [ADDRESSES_V4, ADDRESSES_V6] {
        let sent = connect(&wire, b, a, at(near, ACCEPTING_PORT))?;
        ensure!(sent.handshake == NEGOTIATED, "to {near}: {:?}", sent.handshake);
        let sent = connect(&wire, b, a, at(near, ACCEPTING_PORT + 1))?;
        ensure!(sent.handshake == ASKED_IN_VAIN, "another port: {:?}", sent.handshake);
    }

    ensure!(home.command("disable").status()?.success(), "disable");
    let rules = || Ok::<_, anyhow::Error>(a.ip(&["rule"])?);
    until("the rules are gone", SOON, rules, |rules| !rules.contains("119100"))?;
    let sent = connect(&wire, a, b, at(ADDRESSES_V4[1], ASKING_PORT))?;
    ensure!(sent.handshake == NOT_ASKED, "disabled: {:?}", sent.handshake);
    agent.stop()?;
    Ok(())
}
