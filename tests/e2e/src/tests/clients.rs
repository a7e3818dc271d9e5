//! Clients and servers that know nothing of wad run in two namespaces at once, over
//! IPv4 and IPv6; ss and tcpdump show their flows.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_lab::{bulk::Amount, iperf3};
use wad_testbed::{
    capture::{Capture, Packet},
    emulated::wan::{self, ADDRESSES_V4, ADDRESSES_V6, Wan},
    netns::Netns,
    nginx::{Nginx, curl},
    process::{Place, Process},
    settings,
    ss::{self, Flow},
    stand::{Stand, until},
    tcp::{self, Connection, at},
    wad::{Home, program},
};

const LIMIT: Duration = Duration::from_secs(30);
const MIB: u64 = 1024 * 1024;

/// These addresses are of another network over the same path, which no policy names.
const OTHERS: [&str; 2] = ["10.78.0.1", "10.78.0.2"];

/// One policy for the ends that connect, another for those that accept.
const POLICY: &str = r#"
[[path]]
name = "to-b"
remote = ["10.77.0.2", "fd77::2"]
sndbuf = "3MiB"
rcvbuf = "4MiB"
congestion = "wad_aimd"
initial_window = 24
allow = "aggressive"

[[path]]
name = "to-a"
remote = ["10.77.0.1", "fd77::1"]
sndbuf = "5MiB"
rcvbuf = "6MiB"
congestion = "wad_aimd"
additive_increase = 2
initial_window = 32
allow = "aggressive"
"#;

fn path(rate: &str, rtt: &str) -> Result<Wan> {
    let text = format!("rtt = '{rtt}'\nforward = {{ rate = '{rate}', queue = {{ bdp = 2.0 }} }}\n");
    let wan = Wan::start(&toml::from_str(&text)?)?;
    settings::apply(&wan)?;
    for (netns, address) in [wan.a(), wan.b()].into_iter().zip(OTHERS) {
        netns.ip(&["addr", "add", &format!("{address}/30"), "dev", wan::DEVICE])?;
    }
    Ok(wan)
}

/// Returns the flows to and from ports of the far end, as its peer and itself have
/// them, once so many have moved data.
fn busy_flows(wan: &Wan, ports: &[u16], count: usize) -> Result<[Vec<Flow>; 2]> {
    let filter = |side| {
        let ports: Vec<String> = ports.iter().map(|port| format!("{side} = :{port}")).collect();
        format!("( {} )", ports.join(" or "))
    };
    let look = || -> Result<[Vec<Flow>; 2]> {
        let near = wan.a().run(|| ss::flows(&filter("dport")))??;
        Ok([near, wan.b().run(|| ss::flows(&filter("sport")))??])
    };
    let is_busy = |flow: &&Flow| flow.bytes_acked.max(flow.bytes_received) > 100_000;
    until("flows move data", LIMIT, look, |ends| {
        ends.iter().all(|flows| flows.iter().filter(is_busy).count() >= count)
    })
}

fn ensure_tuned(flows: &[Flow], algorithm: &str, (sndbuf, rcvbuf): (u64, u64)) -> Result<()> {
    ensure!(flows.iter().any(|flow| flow.peer.is_ipv4()), "no flow over IPv4: {flows:?}");
    ensure!(flows.iter().any(|flow| flow.peer.is_ipv6()), "no flow over IPv6: {flows:?}");
    for flow in flows {
        let buffers = (flow.sndbuf_bytes, flow.rcvbuf_bytes);
        ensure!(buffers == (2 * sndbuf * MIB, 2 * rcvbuf * MIB), "{buffers:?} of {flow:?}");
        ensure!(flow.congestion == algorithm, "{flow:?}");
    }
    Ok(())
}

#[e2e(long, beside)]
fn iperf3_is_tuned_at_both_ends() -> Result<()> {
    let stand = Stand::set_up("iperf3")?;
    let wan = path("200Mbit", "60ms")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;

    let ends = [at(ADDRESSES_V4[1], 5201), at(ADDRESSES_V6[1], 5202)];
    let spawn = |netns, mut command: std::process::Command| -> Result<Process> {
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        Ok(Place { netns: Some(netns), cgroup: None }.spawn(command)?)
    };
    let mut running = Vec::new();
    for end in ends {
        running.push(spawn(wan.b(), iperf3::server(end))?);
        tcp::await_listener(wan.b(), end.port())?;
        running.push(spawn(wan.a(), iperf3::client(end, 2, Amount::Time(Duration::from_secs(3))))?);
    }
    // Two streams and one connection for control, over each.
    let [near, far] = busy_flows(&wan, &[5201, 5202], 4)?;
    ensure!((near.len(), far.len()) == (6, 6), "{near:?} {far:?}");
    ensure_tuned(&near, &home.algorithm()?, (3, 4))?;
    ensure_tuned(&far, &home.algorithm()?, (5, 6))?;
    for process in &mut running {
        ensure!(process.wait(LIMIT, || ())?.success(), "iperf3 failed");
    }
    Ok(())
}

#[e2e(long, beside)]
fn nginx_and_curl_are_tuned_and_others_are_not() -> Result<()> {
    let stand = Stand::set_up("nginx")?;
    let wan = path("100Mbit", "60ms")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let bytes: Vec<u8> =
        (0..20_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let nginx = Nginx::start(Place { netns: Some(wan.b()), cgroup: None }, 8080, &bytes)?;
    tcp::await_listener(wan.b(), 8080)?;

    let hosts =
        [ADDRESSES_V4[1].to_owned(), format!("[{}]", ADDRESSES_V6[1]), OTHERS[1].to_owned()];
    let folder = tempfile::tempdir()?;
    let mut running = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let file = folder.path().join(index.to_string());
        running.push((curl(wan.a(), &format!("http://{host}:8080/data"), &file)?, file));
    }
    let [near, far] = busy_flows(&wan, &[8080], 3)?;
    let is_other = |flow: &Flow| OTHERS.contains(&flow.peer.ip().to_string().as_str());
    let (others, near): (Vec<Flow>, Vec<Flow>) = near.into_iter().partition(is_other);
    let (other_servers, far): (Vec<Flow>, Vec<Flow>) = far.into_iter().partition(is_other);
    ensure_tuned(&near, &home.algorithm()?, (3, 4))?;
    ensure_tuned(&far, &home.algorithm()?, (5, 6))?;
    ensure!((others.len(), other_servers.len()) == (1, 1), "{others:?} {other_servers:?}");
    for flow in others.iter().chain(&other_servers) {
        ensure!(flow.congestion == "cubic", "{flow:?}");
        // tcp_wmem's and tcp_rmem's maxima bound what autotuning makes.
        ensure!(flow.sndbuf_bytes <= 4 * MIB && flow.rcvbuf_bytes <= 6 * MIB, "{flow:?}");
    }
    for (process, file) in &mut running {
        ensure!(process.wait(LIMIT, || ())?.success(), "curl failed");
        ensure!(fs::read(file)? == fs::read(nginx.data())?, "curl got other bytes");
    }
    Ok(())
}

/// Segments that were sent within the first round trip after the first.
fn first_flight(packets: &[Packet], from: SocketAddr, rtt: Duration) -> u32 {
    let data: Vec<_> =
        packets.iter().filter(|packet| packet.from == from && packet.payload_bytes > 0).collect();
    let Some(first) = data.first() else { return 0 };
    let end = first.time_seconds + 0.9 * rtt.as_secs_f64();
    let flight = data.iter().filter(|packet| packet.time_seconds < end);
    // A header of 40 bytes and options of 12, or of 60 and 12.
    let mss = if from.is_ipv4() { 1448 } else { 1428 };
    flight.map(|packet| packet.payload_bytes.div_ceil(mss)).sum()
}

#[e2e(long, few)]
fn the_first_flight_is_the_initial_window() -> Result<()> {
    let stand = Stand::set_up("first")?;
    let rtt = Duration::from_millis(80);
    let wan = path("200Mbit", "80ms")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    // Connecting end, accepting end, and the windows of both.
    let cases = [
        (at(ADDRESSES_V4[1], 7000), 24, 32),
        (at(ADDRESSES_V6[1], 7001), 24, 32),
        (at(OTHERS[1], 7002), 10, 10),
    ];
    for (to, near_segments, far_segments) in cases {
        let captures = [wan.a(), wan.b()].map(|netns| Capture::start(netns, wan::DEVICE, "tcp"));
        let connection = Connection::open(wan.a(), wan.b(), to)?;
        let ends = [connection.near.local_addr()?, connection.far.local_addr()?];
        connection.exchange(300_000)?;
        for ((capture, from), segments) in
            captures.into_iter().zip(ends).zip([near_segments, far_segments])
        {
            let packets = capture?.stop()?;
            let flight = first_flight(&packets, from, rtt);
            ensure!(flight == segments, "{from}: {flight} segments, not {segments}");
        }
    }
    Ok(())
}

#[e2e(long, beside)]
fn a_connection_from_before_comes_under_the_policy_undisturbed() -> Result<()> {
    let stand = Stand::set_up("before")?;
    let wan = path("200Mbit", "20ms")?;
    let home = Home::create(&program()?, POLICY)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    connection.exchange(100_000)?;
    // All acknowledged: nothing changes by itself any more.
    thread::sleep(Duration::from_millis(100));
    let flows =
        || -> Result<_> { Ok([connection.near_flow(wan.a())?, connection.far_flow(wan.b())?]) };
    let before = flows()?;
    let agent = home.start(stand.cgroup())?;
    for (flow, before) in flows()?.iter().zip(&before) {
        ensure!(before.congestion == "cubic" && flow.congestion.starts_with("wad_aimd"));
        ensure!(flow.cwnd_segments == before.cwnd_segments, "{before:?}, then {flow:?}");
        ensure!(flow.window_scales == before.window_scales, "{before:?}, then {flow:?}");
    }
    connection.exchange(5_000_000)?;
    let matched = home.metrics()?.of_path("wad_connections_matched_total", "to-b")?;
    ensure!(matched == 1.0, "{matched} connections matched");
    agent.stop()?;
    connection.exchange(1_000_000)?;
    Ok(())
}

/// A receiver's policy sets this for its window.
const WINDOW_BYTES: u64 = 8 * MIB;

/// Returns the largest window that a sender is offered; no longer looked at than it
/// takes to be nearly all of it.
fn widest_window(
    sender: (&std::net::TcpStream, &Netns),
    mut receiver: &std::net::TcpStream,
) -> Result<u64> {
    let enough = WINDOW_BYTES - MIB;
    let end = Instant::now() + Duration::from_secs(4);
    let done = AtomicBool::new(false);
    let is_over = || done.load(Ordering::Relaxed) || Instant::now() > end;
    let (stream, netns) = sender;
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let block = vec![0; 256 * 1024];
            let mut to = stream;
            while !is_over() && to.write_all(&block).is_ok() {}
            stream.shutdown(std::net::Shutdown::Write)
        });
        let receiving = scope.spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()));
        let mut widest = 0;
        while widest < enough && !is_over() {
            widest = widest.max(tcp::flow(netns, stream)?.send_window_bytes);
            thread::sleep(Duration::from_millis(50));
        }
        done.store(true, Ordering::Relaxed);
        sending.join().expect("the sender does not panic")?;
        receiving.join().expect("the receiver does not panic")?;
        Ok(widest)
    })
}

#[e2e(long, few)]
fn peers_are_offered_the_receive_buffer() -> Result<()> {
    let stand = Stand::set_up("offer")?;
    let wan = path("400Mbit", "60ms")?;
    let policy = "[[path]]\nname = 'p'\nremote = '10.77.0.0/30'\nsndbuf = '8MiB'\nrcvbuf = '8MiB'\n\
                  congestion = 'wad_aimd'\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    let accepted = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    let connected = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    let untuned = Connection::open(wan.a(), wan.b(), at(OTHERS[1], 7000))?;
    let by_accepted = widest_window((&accepted.near, wan.a()), &accepted.far)?;
    let by_connected = widest_window((&connected.far, wan.b()), &connected.near)?;
    let by_untuned = widest_window((&untuned.near, wan.a()), &untuned.far)?;
    // The kernel keeps up to half of the doubled buffer for its own structures.
    for (end, window) in [("accepted", by_accepted), ("connected", by_connected)] {
        ensure!(window >= WINDOW_BYTES - MIB, "the {end} end offered {window} bytes at most");
    }
    ensure!(by_untuned <= 6 * MIB, "{by_untuned}");
    Ok(())
}
