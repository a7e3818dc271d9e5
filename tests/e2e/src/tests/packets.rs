//! Policies change packets themselves, as a capture shows: differentiated services, and
//! the window that a handshake offers.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::{Capture, Packet},
    process::run_command,
    signal,
    stand::Stand,
    sysctl,
    tcp::{self, Connection, at, counter},
    veth::{self, ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

/// The class "af41" is 34.
const NEAR_DSCP: u8 = 34;
/// The class "le" is 1.
const FAR_DSCP: u8 = 1;

const TRIES: usize = 5;

fn set(wire: &Wire, name: &str, value: &str) -> Result<()> {
    for netns in [wire.a(), wire.b()] {
        netns.run(|| sysctl::set(name, value))??;
    }
    Ok(())
}

/// Selects packets of a traffic class: six bits, and two of ECN.
fn of_class(v6: bool, dscp: u8, ecn: Option<u8>) -> String {
    let class = dscp << 2 | ecn.unwrap_or(0);
    let mask: u8 = if ecn.is_some() { 0xff } else { 0xfc };
    if v6 {
        // Four bits of version before it.
        format!("ip6 and tcp and ip6[0:2] & 0x0{mask:02x}0 = 0x0{class:02x}0")
    } else {
        format!("ip and tcp and ip[1] & 0x{mask:02x} = 0x{class:02x}")
    }
}

type Captured<const N: usize> = ([Vec<Packet>; N], SocketAddr);

/// Returns the data each way, and what each filter has seen of it, of a connection that
/// sent nothing twice: what is sent again is not ECN-capable (RFC 3168 section 6.1.5),
/// and a machine that pauses has it sent again.
fn captured<const N: usize>(
    wire: &Wire,
    to: SocketAddr,
    filters: [&str; N],
) -> Result<Captured<N>> {
    for _ in 0..TRIES {
        if let Some(captured) = try_capture(wire, to, filters)? {
            return Ok(captured);
        }
    }
    bail!("each of {TRIES} connections sent something twice")
}

fn try_capture<const N: usize>(
    wire: &Wire,
    to: SocketAddr,
    filters: [&str; N],
) -> Result<Option<Captured<N>>> {
    let captures = filters.map(|filter| Capture::start(wire.a(), veth::DEVICE, filter));
    let on = SocketAddr::new(to.ip().to_canonical(), to.port());
    let listener = tcp::listen(wire.b(), on)?;
    let near = tcp::connect(wire.a(), to)?;
    let from = near.local_addr()?;
    let connection = Connection::accepted(&listener, near)?;
    connection.exchange(200_000)?;
    // The last acknowledgements may be delayed.
    signal::sleep(Duration::from_millis(200))?;
    let ends = [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?];
    if ends.iter().any(|flow| flow.retransmits > 0) {
        return Ok(None);
    }
    let mut packets = Vec::new();
    for capture in captures {
        let mut seen = capture?.stop()?;
        // Each capture has read the clock for itself.
        seen.iter_mut().for_each(|packet| packet.time_seconds = 0.0);
        packets.push(seen);
    }
    let packets = packets.try_into().ok().context("as many as filters")?;
    Ok(Some((packets, SocketAddr::new(from.ip().to_canonical(), from.port()))))
}

#[e2e(long, beside)]
fn packets_carry_the_class_of_their_path() -> Result<()> {
    let stand = Stand::set_up("dscp")?;
    let wire = Wire::start()?;
    let policy = format!(
        "[[path]]\nname = 'near'\nremote = {:?}\nremote_port = 7000\ndscp = 'af41'\n\n\
         [[path]]\nname = 'far'\nremote = {:?}\nlocal_port = 7000\ndscp = 'le'\n",
        [ADDRESSES_V4[1], ADDRESSES_V6[1]],
        [ADDRESSES_V4[0], ADDRESSES_V6[0]],
    );
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    for ecn in [false, true] {
        set(&wire, "net.ipv4.tcp_ecn", if ecn { "1" } else { "0" })?;
        for to in [at(ADDRESSES_V4[1], 7000), at(ADDRESSES_V6[1], 7000)] {
            let near = of_class(to.is_ipv6(), NEAR_DSCP, None);
            let far = of_class(to.is_ipv6(), FAR_DSCP, None);
            // ECT(0), which only data has (RFC 3168 section 6.1).
            let [near_ect, far_ect] =
                [NEAR_DSCP, FAR_DSCP].map(|dscp| of_class(to.is_ipv6(), dscp, Some(0b10)));
            let filters = ["tcp", &near, &far, &near_ect, &far_ect];
            let ([all, near, far, near_ect, far_ect], from) = captured(&wire, to, filters)?;

            let of = |packets: &[Packet], sender| -> Vec<_> {
                packets.iter().filter(|packet| packet.from == sender).cloned().collect()
            };
            // The SYN and all that follows; from the far end all but the SYN-ACK.
            ensure!(near == of(&all, from), "{near:?}");
            ensure!(near.first().is_some_and(|syn| syn.flags.contains('S')), "{near:?}");
            let mut answers = of(&all, to);
            ensure!(answers.remove(0).flags.contains('S'), "{answers:?}");
            ensure!(far == answers, "{far:?}");

            let with_data = |packets: &[Packet]| -> Vec<_> {
                packets.iter().filter(|packet| packet.payload_bytes > 0).cloned().collect()
            };
            let expected = |packets: &[Packet]| if ecn { with_data(packets) } else { vec![] };
            ensure!(near_ect == expected(&near), "{near_ect:?}");
            ensure!(far_ect == expected(&far), "{far_ect:?}");
        }
    }
    Ok(())
}

/// BPF may not set it there: the rest of the policy holds, and it is told at the path.
#[e2e(long, beside)]
fn an_ipv4_flow_of_an_ipv6_socket_is_tuned_but_for_its_class() -> Result<()> {
    let stand = Stand::set_up("mapped")?;
    let wire = Wire::start()?;
    let policy = format!(
        "[[path]]\nname = 'p'\nremote = '{}'\nsndbuf = '3MiB'\ndscp = 34\n",
        ADDRESSES_V4[1]
    );
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let partly = || -> Result<_> {
        let labels = ["path=\"p\"", "reason=\"refused\""];
        Ok(home.metrics()?.value("wad_flows_untuned_total", &labels)?)
    };
    let to = at(ADDRESSES_V4[1], 7000);
    let listener = tcp::listen(wire.b(), to)?;
    let mapped = at(&format!("::ffff:{}", ADDRESSES_V4[1]), 7000);
    for (to, refused) in [(to, 0.0), (mapped, 1.0)] {
        let class = of_class(false, NEAR_DSCP, None);
        let capture = Capture::start(wire.a(), veth::DEVICE, &class)?;
        let near = tcp::connect(wire.a(), to)?;
        let connection = Connection::accepted(&listener, near)?;
        connection.exchange(10_000)?;
        let flow = connection.near_flow(wire.a())?;
        ensure!(flow.sndbuf_bytes == 2 * 3 * 1024 * 1024, "{flow:?}");
        ensure!(capture.stop()?.is_empty() == (refused > 0.0), "class of {to}");
        ensure!(partly()? == refused, "{to}: {}", partly()?);
    }
    let told = "dscp (EAFNOSUPPORT) to 1";
    let why = "they are IPv4 on IPv6 sockets, which BPF programs may not mark";
    for command in [&["status"][..], &["explain", ADDRESSES_V4[1]]] {
        let [subcommand, arguments @ ..] = command else { continue };
        let output = home.command(subcommand).args(arguments).output()?;
        let said = String::from_utf8(output.stdout)?;
        ensure!(said.contains(told) && said.contains(why), "{subcommand}: {said}");
    }
    Ok(())
}

/// Returns the window that SYN and SYN-ACK offer, and the scales, if a packet with
/// each.
fn offered(packets: &[Packet]) -> Result<[(u32, Option<u8>); 2]> {
    let of = |flags| -> Result<_> {
        let syn = packets.iter().find(|packet| packet.flags == flags);
        let syn = syn.with_context(|| format!("no packet with {flags}"))?;
        Ok((syn.window, syn.window_scale))
    };
    Ok([of("S")?, of("S.")?])
}

#[e2e(long, beside)]
fn handshakes_offer_the_initial_receive_window() -> Result<()> {
    const RCVBUF: u32 = 4 * 1024 * 1024;
    let stand = Stand::set_up("rwnd")?;
    let wire = Wire::start()?;
    // A small buffer by default: 16 KiB, of which half is offered.
    set(&wire, "net.ipv4.tcp_rmem", "4096 16384 6291456")?;
    let policy: String = [
        (7001, "initial_receive_window = 4\n"),
        (7002, "initial_receive_window = 40\n"),
        (7003, ""),
    ]
    .into_iter()
    .flat_map(|(port, keys)| {
        [("to", "remote_port", 1), ("of", "local_port", 0)].map(|(name, side, peer)| {
            format!(
                "[[path]]\nname = '{name}-{port}'\nremote = {:?}\n{side} = {port}\n\
                     rcvbuf = '4MiB'\n{keys}\n",
                [ADDRESSES_V4[peer], ADDRESSES_V6[peer]]
            )
        })
    })
    .collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    for cookies in ["1", "2"] {
        wire.b().run(|| sysctl::set("net.ipv4.tcp_syncookies", cookies))??;
        for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
            let mss = if address.contains(':') { 1440 } else { 1460 };
            let mut scales = Vec::new();
            for (port, segments) in [(7001, Some(4)), (7002, Some(40)), (7003, None)] {
                let received = counter(wire.b(), "SyncookiesRecv")?;
                let capture = Capture::start(wire.a(), veth::DEVICE, "tcp")?;
                let connection = Connection::open(wire.a(), wire.b(), at(address, port))?;
                let used = counter(wire.b(), "SyncookiesRecv")? - received;
                ensure!(used == u64::from(cookies == "2"), "{used} cookies");
                let ends = [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?];
                connection.exchange(5_000_000)?;
                let retransmits = connection.near_flow(wire.a())?.retransmits;
                let [syn, answer] = offered(&capture.stop()?)?;
                println!(
                    "{address} {port} cookies {cookies}: {syn:?} {answer:?}, {retransmits} retransmissions"
                );

                // A SYN-ACK takes the timestamps' room off each segment. One with a
                // cookie leaves before there is anything to ask a program about,
                // and offers what half of the listener's buffer holds.
                let answers = segments.filter(|_| cookies != "2").unwrap_or(5);
                ensure!(segments.is_none_or(|segments| syn.0 == segments * mss), "{syn:?}");
                ensure!(answer.0 == answers * (mss - 12), "{answer:?}");
                // What was said is what each end takes for said.
                let said = answer.1.zip(syn.1).context("no scale was offered")?;
                ensure!(ends[0].window_scales == Some(said), "{said:?} but {:?}", ends[0]);
                ensure!(
                    ends[1].window_scales == Some((said.1, said.0)),
                    "{said:?} but {:?}",
                    ends[1]
                );
                scales.push(said);
                for flow in &ends {
                    ensure!(flow.rcvbuf_bytes == 2 * u64::from(RCVBUF), "{flow:?}");
                }
            }
            ensure!(scales.iter().all(|scale| *scale == scales[0]), "{scales:?}");
        }
    }
    Ok(())
}

/// Each new set of policies says anew whether any of its flows offers a window of its own.
#[e2e(every_change, beside)]
fn what_handshakes_offer_follows_reloads_and_the_switch() -> Result<()> {
    const SEGMENTS: u32 = 4;
    let stand = Stand::set_up("rwndset")?;
    let wire = Wire::start()?;
    let offers = || -> Result<[bool; 2]> {
        let capture = Capture::start(wire.a(), veth::DEVICE, "tcp")?;
        let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001))?;
        connection.exchange(1_000)?;
        let [syn, answer] = offered(&capture.stop()?)?;
        Ok([syn.0 == SEGMENTS * 1_460, answer.0 == SEGMENTS * (1_460 - 12)])
    };
    let policy = |keys: &str| {
        format!(
            "[[path]]\nname = 'to'\nremote = '{}'\nremote_port = 7001\n{keys}\n\
             [[path]]\nname = 'of'\nremote = '{}'\nlocal_port = 7001\n{keys}\n",
            ADDRESSES_V4[1], ADDRESSES_V4[0]
        )
    };
    let with = policy(&format!("initial_receive_window = {SEGMENTS}"));
    let home = Home::create(&program()?, &policy(""))?;
    let _agent = home.start(stand.cgroup())?;
    ensure!(offers()? == [false; 2], "without any");
    home.reload(&with)?;
    ensure!(offers()? == [true; 2], "with a reload");
    run_command(&mut home.command("disable"))?;
    ensure!(offers()? == [false; 2], "disabled");
    run_command(&mut home.command("enable"))?;
    run_command(home.command("disable").arg("of"))?;
    ensure!(offers()? == [true, false], "one disabled");
    home.reload(&policy(""))?;
    ensure!(offers()? == [false; 2], "with another reload");
    Ok(())
}

/// Returns the time from a segment alone to its acknowledgement: the median of some.
fn acknowledgement_delay_seconds(wire: &Wire) -> Result<f64> {
    const SEGMENTS: usize = 20;
    const WARM_UP: usize = 40;
    let to = at(ADDRESSES_V4[1], 7000);
    let connection = Connection::open(wire.a(), wire.b(), to)?;
    // The first are acknowledged at once, whatever comes (`tcp_enter_quickack_mode()`).
    // Nobody reads meanwhile: that acknowledges, too.
    for _ in 0..WARM_UP {
        tcp::send(&connection.near, 100, 1)?;
        signal::sleep(Duration::from_millis(2))?;
    }
    let capture = Capture::start(wire.a(), veth::DEVICE, "tcp port 7000")?;
    for _ in 0..SEGMENTS {
        tcp::send(&connection.near, 100, 1)?;
        signal::sleep(Duration::from_millis(100))?;
    }
    let packets = capture.stop()?;
    let answer = |(n, sent): (usize, &Packet)| {
        let back = packets[n..].iter().find(|packet| packet.from == to)?;
        (sent.to == to && sent.payload_bytes > 0).then_some(back.time_seconds - sent.time_seconds)
    };
    let mut delays: Vec<f64> = packets.iter().enumerate().filter_map(answer).collect();
    ensure!(delays.len() >= SEGMENTS, "{} segments", delays.len());
    delays.sort_by(f64::total_cmp);
    Ok(delays[delays.len() / 2])
}

#[e2e(long, few)]
fn acknowledgements_wait_no_longer_than_their_path_allows() -> Result<()> {
    let stand = Stand::set_up("delack")?;
    let wire = Wire::start()?;
    let usual = acknowledgement_delay_seconds(&wire)?;
    let path = "[[path]]\nname = 'far'\nremote = '10.81.0.1'\nlocal_port = 7000\n";
    let home = Home::create(&program()?, &format!("{path}delayed_ack = false\n"))?;
    let _agent = home.start(stand.cgroup())?;
    let bounded = acknowledgement_delay_seconds(&wire)?;
    println!("acknowledged after {:.1} ms, else {:.1} ms", 1e3 * bounded, 1e3 * usual);
    ensure!(usual > 0.030, "{usual} s without a policy");
    // Two ticks, of which the last may have just begun; 20 ms at 100 a second.
    ensure!(bounded < 0.025, "{bounded} s");
    Ok(())
}
