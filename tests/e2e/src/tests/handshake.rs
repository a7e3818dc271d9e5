//! These handshakes are out of the ordinary: data in the SYN, a lost SYN or SYN-ACK,
//! SYN cookies. Transfers are right, and flows tuned as far as they may be.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::Capture,
    ss::Flow,
    stand::Stand,
    sysctl,
    tcp::{self, Connection, TcpError, at, counter},
    veth::{self, ADDRESSES_V4, ADDRESSES_V6, Side, Wire},
    wad::{Home, program},
};

const INITIAL_WINDOW: u32 = 24;
/// RFC 6928 has this initial window, and so has the kernel.
const DEFAULT_INITIAL_WINDOW: u32 = 10;
const BUFFER_BYTES: u64 = 8 * 1024 * 1024;

const POLICY: &str = r#"
[[path]]
name = "all"
remote = ["10.81.0.0/16", "fd81::/32"]
sndbuf = "8MiB"
rcvbuf = "8MiB"
congestion = "wad_aimd"
initial_window = 24
allow = "aggressive"
"#;

fn set(wire: &Wire, name: &str, value: &str) -> Result<()> {
    for netns in [wire.a(), wire.b()] {
        netns.run(|| sysctl::set(name, value))??;
    }
    Ok(())
}

fn ensure_tuned(flow: &Flow, initial_window: u32) -> Result<()> {
    ensure!(flow.congestion.starts_with("wad_aimd"), "{flow:?}");
    let buffers = (flow.sndbuf_bytes, flow.rcvbuf_bytes);
    ensure!(buffers == (2 * BUFFER_BYTES, 2 * BUFFER_BYTES), "{flow:?}");
    ensure!(flow.cwnd_segments == initial_window, "{flow:?}");
    Ok(())
}

#[e2e(long, beside)]
fn data_in_the_syn() -> Result<()> {
    let stand = Stand::set_up("tfo")?;
    let wire = Wire::start()?;
    set(&wire, "net.ipv4.tcp_fastopen", "3")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;

    let counts = || -> Result<[u64; 2], TcpError> {
        let active = counter(wire.a(), "TCPFastOpenActive")?;
        Ok([active, counter(wire.b(), "TCPFastOpenPassive")?])
    };
    for to in [at(ADDRESSES_V4[1], 7000), at(ADDRESSES_V6[1], 7000)] {
        let listener = tcp::listen(wire.b(), to)?;
        tcp::accept_fast(&listener)?;
        let [active, passive] = counts()?;
        // The first only gets the cookie.
        for uses in [0, 1] {
            let near = tcp::connect_fast(wire.a(), to, b"in the SYN")?;
            let connection = Connection::accepted(&listener, near)?;
            let mut first = [0; 10];
            std::io::Read::read_exact(&mut &connection.far, &mut first)?;
            ensure!(first == *b"in the SYN", "{first:?}");
            ensure!(counts()? == [active + uses, passive + uses], "{:?}", counts()?);
            ensure_tuned(&connection.far_flow(wire.b())?, INITIAL_WINDOW)?;
            let near = connection.near_flow(wire.a())?;
            // Ten bytes are acknowledged: nothing that a window grows by.
            ensure_tuned(&near, INITIAL_WINDOW)?;
            connection.exchange(3_000_000)?;
        }
    }
    Ok(())
}

/// Opens a connection whose first packet from one side is lost on the wire.
fn open_with_loss(wire: &Wire, side: Side) -> Result<Connection> {
    let to = at(ADDRESSES_V4[1], 7000);
    let listener = tcp::listen(wire.b(), to)?;
    // Both know each other: what is lost is the handshake, not a question of ARP.
    wire.set_neighbour(Side::A, side != Side::A)?;
    wire.set_neighbour(Side::B, side != Side::B)?;
    thread::scope(|scope| {
        let connecting = scope.spawn(|| tcp::connect(wire.a(), to));
        thread::sleep(Duration::from_millis(300));
        wire.set_neighbour(side, true)?;
        let near = connecting.join().expect("connecting does not panic")?;
        Ok(Connection::accepted(&listener, near)?)
    })
}

#[e2e(long, beside)]
fn after_a_lost_syn_the_initial_window_is_the_kernels() -> Result<()> {
    let stand = Stand::set_up("syn")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;

    // The accepting end knows nothing of the loss.
    let connection = open_with_loss(&wire, Side::A)?;
    let near = connection.near_flow(wire.a())?;
    ensure!(near.retransmits == 1, "no SYN was lost: {near:?}");
    ensure_tuned(&near, DEFAULT_INITIAL_WINDOW)?;
    ensure_tuned(&connection.far_flow(wire.b())?, INITIAL_WINDOW)?;
    connection.exchange(3_000_000)?;

    let connection = open_with_loss(&wire, Side::B)?;
    let (near, far) = (connection.near_flow(wire.a())?, connection.far_flow(wire.b())?);
    ensure!(near.retransmits == 1 && far.retransmits >= 1, "no SYN-ACK was lost: {far:?}");
    ensure_tuned(&near, DEFAULT_INITIAL_WINDOW)?;
    // Both its own timer and the client's second SYN may have made it send once
    // more; after more than one the kernel starts at 1 (tcp_init_transfer()).
    ensure_tuned(&far, if far.retransmits > 1 { 1 } else { DEFAULT_INITIAL_WINDOW })?;
    connection.exchange(3_000_000)?;
    Ok(())
}

#[e2e(every_change, alone)]
fn syn_cookies_and_window_scales() -> Result<()> {
    let stand = Stand::set_up("cookies")?;
    let wire = Wire::start()?;
    wire.b().run(|| sysctl::set("net.ipv4.tcp_syncookies", "2"))??;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;

    // Without timestamps a cookie has no room for a scale.
    for timestamps in ["1", "0"] {
        set(&wire, "net.ipv4.tcp_timestamps", timestamps)?;
        for to in [at(ADDRESSES_V4[1], 7000), at(ADDRESSES_V6[1], 7000)] {
            let cookies = counter(wire.b(), "SyncookiesRecv")?;
            let capture = Capture::start(wire.a(), veth::DEVICE, "tcp")?;
            let connection = Connection::open(wire.a(), wire.b(), to)?;
            ensure!(counter(wire.b(), "SyncookiesRecv")? == cookies + 1, "no cookie was used");
            let (near, far) = (connection.near_flow(wire.a())?, connection.far_flow(wire.b())?);
            connection.exchange(40_000_000)?;

            let packets = capture.stop()?;
            let offered = |flags| {
                let syn = packets.iter().find(|packet| packet.flags == flags);
                syn.and_then(|syn| syn.window_scale)
            };
            // What was said on the wire, and what each end takes for said.
            let said = offered("S.").zip(offered("S"));
            ensure!(said.is_some() == (timestamps == "1"), "{to}: {said:?}");
            let swapped = |(one, other)| (other, one);
            ensure!(near.window_scales == said, "{to}: {said:?} but {near:?}");
            ensure!(far.window_scales.map(swapped) == said, "{to}: {said:?} but {far:?}");
            ensure_tuned(&near, INITIAL_WINDOW)?;
            ensure_tuned(&far, INITIAL_WINDOW)?;
        }
    }
    Ok(())
}
