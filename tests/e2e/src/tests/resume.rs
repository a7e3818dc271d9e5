//! A new connection begins where the one before it found the path to be (RFC 9959): seen in
//! captures of what is sent in its first round trips.

use std::{net::TcpStream, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::{Capture, Packet},
    emulated::wan::{self, ADDRESSES_V4, Wan},
    netns::Netns,
    policy::{path_of, path_to},
    settings, signal,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    wad::{Home, program},
};

const RTT: Duration = Duration::from_millis(60);
/// 200 Mbit/s carry this in a round trip.
const BDP_SEGMENTS: u32 = 1_000;
const PATH: &str = "rtt = '60ms'\nforward = { rate = '200Mbit', queue = { bdp = 0.5 } }\n\
                    reverse = { rate = '200Mbit', queue = { bdp = 0.5 } }\n";
const RESUMES: u16 = 7000;
const BEGINS_ANEW: u16 = 7010;
const DIVIDES: u16 = 7020;
/// The first window, three times that, and once more: rapid start, with a few to spare.
const SLOW_START_SEGMENTS: u32 = 10 + 30 + 90 + 10;
const LIMIT: Duration = Duration::from_secs(5);
/// The kernel halves the window for each timeout of 260 ms or so.
const PAUSE: Duration = Duration::from_secs(3);

fn wan() -> Result<Wan> {
    wan_of(PATH)
}

fn wan_of(path: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(path)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

/// Both ends have the path: who accepts sends, and who connects has a receive buffer from its
/// first segment on.
fn policy(port: u16, keys: &str) -> String {
    let keys = format!("congestion = 'wad_aimd'; {keys}");
    path_of(port, &keys) + &path_to(port, &keys)
}

fn open(wan: &Wan, port: u16) -> Result<Connection> {
    Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?)
}

fn transfer(from: &TcpStream, to: &TcpStream, bytes: usize) -> Result<()> {
    thread::scope(|scope| -> Result<()> {
        let sending = scope.spawn(|| tcp::send(from, bytes, 1));
        tcp::receive(to, bytes, 1)?;
        Ok(sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    })
}

/// Returns the segments that a connection sent in its first round trips. The first window takes half
/// of one, and what its return lets out is spread over the next.
fn first_segments(packets: &[Packet], round_trips: f64) -> Result<u32> {
    let first = packets.first().context("nothing was sent")?.time_seconds;
    let end = first + round_trips * RTT.as_secs_f64();
    let those = packets.iter().filter(|packet| packet.time_seconds < end);
    Ok(those.map(|packet| packet.payload_bytes).sum::<u32>() / 1_448)
}

/// Transfers this many bytes, and returns the packets that carried them.
fn captured(at: &Netns, from: &TcpStream, to: &TcpStream, bytes: usize) -> Result<Vec<Packet>> {
    let (source, destination) = (from.local_addr()?.port(), to.local_addr()?.port());
    let filter = format!("tcp src port {source} and dst port {destination} and greater 200");
    let capture = Capture::start(at, wan::DEVICE, &filter)?;
    transfer(from, to, bytes)?;
    Ok(capture.stop()?)
}

/// Transfers so much, and returns the segments that were sent in the first three round trips.
fn transferred(at: &Netns, from: &TcpStream, to: &TcpStream, bytes: usize) -> Result<u32> {
    first_segments(&captured(at, from, to, bytes)?, 2.9)
}

/// The end that accepted sends.
fn served(wan: &Wan, connection: &Connection, bytes: usize) -> Result<u32> {
    transferred(wan.b(), &connection.far, &connection.near, bytes)
}

/// The end that connected sends.
fn uploaded(wan: &Wan, connection: &Connection, bytes: usize) -> Result<u32> {
    transferred(wan.a(), &connection.near, &connection.far, bytes)
}

/// Waits until so many connections have been counted closed.
fn until_closed(home: &Home, count: f64) -> Result<()> {
    let closed =
        || Ok::<_, anyhow::Error>(home.metrics()?.of_path("wad_flows_closed_total", &of())?);
    until("connections are closed", LIMIT, closed, |closed| *closed >= count)?;
    Ok(())
}

fn of() -> String {
    format!("of-{RESUMES}")
}

#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_connection_begins_with_half_of_what_the_one_before_it_found() -> Result<()> {
    const BYTES: usize = 6_000_000;
    let stand = Stand::set_up("resume")?;
    let wan = wan()?;
    let policy = policy(RESUMES, "resume = 'saved'") + &policy(BEGINS_ANEW, "");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    let first = served(&wan, &open(&wan, RESUMES)?, BYTES)?;
    ensure!(first <= SLOW_START_SEGMENTS, "{first} segments, and nothing was known");
    until_closed(&home, 1.0)?;
    // It is one connection's; another one at the same time begins as all do.
    let (one, other) = (open(&wan, RESUMES)?, open(&wan, RESUMES)?);
    let second = captured(wan.b(), &one.far, &one.near, BYTES)?;
    let jump = first_segments(&second, 1.9)?;
    let beside = served(&wan, &other, 1_000_000)?;
    let elsewhere = served(&wan, &open(&wan, BEGINS_ANEW)?, 1_000_000)?;
    println!("{first} segments, then a jump of {jump}; beside it {beside}, elsewhere {elsewhere}");
    // Half of the window that the first one reached, which is between the BDP and the BDP with the queue.
    // The last part of the jump is sent in the third round trip.
    ensure!((BDP_SEGMENTS / 3..=BDP_SEGMENTS * 3 / 4).contains(&jump), "{jump} segments");
    ensure!(beside <= SLOW_START_SEGMENTS, "{beside} segments beside it");
    ensure!(elsewhere <= SLOW_START_SEGMENTS, "{elsewhere} segments without `resume`");
    drop((one, other));
    until_closed(&home, 3.0)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_resume_jumps_total", &of())? == 1.0);
    ensure!(metrics.of_path("wad_resume_retreats_total", &of())? == 0.0);
    Ok(())
}

/// Returns the segments that connections sent in their first three round trips, one connection for
/// each of these transfers, one after the other.
fn one_after_the_other(wan: &Wan, home: &Home, bytes: &[usize]) -> Result<Vec<u32>> {
    let transfers = (1..).zip(bytes);
    transfers
        .map(|(count, bytes)| {
            let segments = served(wan, &open(wan, RESUMES)?, *bytes)?;
            until_closed(home, f64::from(count))?;
            Ok(segments)
        })
        .collect()
}

#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_short_connection_takes_nothing_of_what_a_long_one_has_shown() -> Result<()> {
    let stand = Stand::set_up("short")?;
    let wan = wan()?;
    let home = Home::create(&program()?, &policy(RESUMES, "resume = 'saved'"))?;
    let _agent = home.start(stand.cgroup())?;
    let segments = one_after_the_other(&wan, &home, &[6_000_000, 300_000, 300_000, 6_000_000])?;
    println!("{segments:?} segments");
    ensure!(segments.last().is_some_and(|last| *last > BDP_SEGMENTS / 3), "{segments:?}");
    Ok(())
}

#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_short_connection_takes_nothing_of_what_its_path_is_said_to_carry() -> Result<()> {
    let stand = Stand::set_up("said")?;
    let wan = wan()?;
    let keys = "resume = 'known'; bandwidth = '200Mbit'; rtt = '60ms'";
    let home = Home::create(&program()?, &policy(RESUMES, keys))?;
    let _agent = home.start(stand.cgroup())?;
    let segments = one_after_the_other(&wan, &home, &[300_000, 300_000, 6_000_000])?;
    println!("{segments:?} segments");
    ensure!(segments.last().is_some_and(|last| *last > BDP_SEGMENTS / 3), "{segments:?}");
    Ok(())
}

#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_request_after_a_pause_is_served_as_the_first_one() -> Result<()> {
    const BYTES: usize = 3_000_000;
    let stand = Stand::set_up("request")?;
    let wan = wan()?;
    let known = "bandwidth = '200Mbit'; rtt = '60ms'";
    let policy = policy(RESUMES, &format!("resume = 'known'; {known}")) + &policy(BEGINS_ANEW, "");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let (resumes, begins_anew) = (open(&wan, RESUMES)?, open(&wan, BEGINS_ANEW)?);
    served(&wan, &begins_anew, BYTES)?;
    let first = served(&wan, &resumes, BYTES)?;
    signal::sleep(PAUSE)?;
    let second = served(&wan, &resumes, BYTES)?;
    let without = served(&wan, &begins_anew, BYTES)?;
    signal::sleep(PAUSE)?;
    let third = served(&wan, &resumes, BYTES)?;
    println!("{first} segments, after pauses {second} and {third}; {without} without");
    for jumped in [first, second, third] {
        ensure!(jumped > BDP_SEGMENTS / 3, "{jumped} segments");
    }
    ensure!(without <= SLOW_START_SEGMENTS, "{without} segments without `resume`");
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_resume_jumps_total", &of())? == 3.0);
    ensure!(metrics.of_path("wad_resume_retreats_total", &of())? == 0.0);
    Ok(())
}

/// On so fast a path the first flight is one packet to its receiver (GRO), which one ACK is for.
#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_first_flight_with_one_ack_is_followed_by_the_jump() -> Result<()> {
    const BYTES: usize = 3_000_000;
    let stand = Stand::set_up("oneack")?;
    let wan = wan_of(&PATH.replace("200Mbit", "600Mbit").replace("60ms", "120ms"))?;
    let keys = "resume = 'known'; bandwidth = '600Mbit'; rtt = '120ms'";
    let home = Home::create(&program()?, &policy(RESUMES, keys))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = open(&wan, RESUMES)?;
    served(&wan, &connection, BYTES)?;
    for _ in 0..3 {
        signal::sleep(PAUSE)?;
        let jumped = served(&wan, &connection, BYTES)?;
        println!("{jumped} segments");
        ensure!(jumped > BDP_SEGMENTS / 3, "{jumped} segments");
    }
    Ok(())
}

/// The path carries a tenth of what is known by now, and then all of it again, of which the
/// connection cannot know.
#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_request_after_congestion_begins_with_what_the_connection_has_found_out() -> Result<()> {
    const BYTES: usize = 3_000_000;
    let stand = Stand::set_up("disproved")?;
    let wan = wan()?;
    let keys = "resume = 'known'; bandwidth = '200Mbit'; rtt = '60ms'";
    let home = Home::create(&program()?, &policy(RESUMES, keys))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = open(&wan, RESUMES)?;
    // Who accepts offers little at first.
    uploaded(&wan, &connection, BYTES)?;
    signal::sleep(PAUSE)?;
    let before = uploaded(&wan, &connection, BYTES)?;
    let whole = toml::from_str(PATH)?;
    wan.turn(&toml::from_str(&PATH.replace("200Mbit", "20Mbit"))?);
    uploaded(&wan, &connection, BYTES)?;
    wan.turn(&whole);
    signal::sleep(PAUSE)?;
    let after = uploaded(&wan, &connection, BYTES)?;
    println!("{before} segments after a pause, {after} after congestion and another one");
    ensure!(before > BDP_SEGMENTS / 3, "{before} segments");
    ensure!(after < BDP_SEGMENTS / 3, "{after} segments");
    Ok(())
}

#[e2e(long, beside)]
fn after_a_lost_syn_nothing_jumps() -> Result<()> {
    let stand = Stand::set_up("lostsyn")?;
    let wan = wan()?;
    let keys = "resume = 'known'; bandwidth = '200Mbit'; rtt = '60ms'";
    let home = Home::create(&program()?, &policy(RESUMES, keys))?;
    let _agent = home.start(stand.cgroup())?;
    let (to, whole) = (at(ADDRESSES_V4[1], RESUMES), toml::from_str(PATH)?);
    let listener = tcp::listen(wan.b(), to)?;
    wan.turn(&toml::from_str(&PATH.replace("queue", "loss = 1.0, queue"))?);
    let connection = thread::scope(|scope| -> Result<_> {
        let connecting = scope.spawn(|| tcp::connect(wan.a(), to));
        signal::sleep(Duration::from_millis(300))?;
        wan.turn(&whole);
        let near = connecting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Connection::accepted(&listener, near)?)
    })?;
    transfer(&connection.near, &connection.far, 3_000_000)?;
    let flow = connection.near_flow(wan.a())?;
    ensure!(flow.retransmits == 1, "no SYN was lost: {flow:?}");
    drop(connection);
    until_closed(&home, 1.0)?;
    let jumps = home.metrics()?.of_path("wad_resume_jumps_total", &format!("to-{RESUMES}"))?;
    ensure!(jumps == 0.0, "{jumps} jumps");
    Ok(())
}

#[e2e(never = "an older kernel offers less to receive than the jump", few)]
fn a_jump_that_was_too_far_is_taken_back_and_the_path_rests() -> Result<()> {
    let stand = Stand::set_up("retreat")?;
    let wan = wan()?;
    // Ten times what it carries.
    let keys = "resume = 'known'; bandwidth = '2Gbit'; rtt = '60ms'";
    let home = Home::create(&program()?, &policy(RESUMES, keys))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = open(&wan, RESUMES)?;
    let first = served(&wan, &connection, 20_000_000)?;
    let flow = connection.far_flow(wan.b())?;
    println!("{first} segments, {} sent again", flow.retransmits);
    ensure!(first > 2 * BDP_SEGMENTS, "{first} segments: it did not jump");
    // No more was lost than the jump to half of what was known.
    let again = flow.retransmits;
    ensure!((1..=u64::from(5 * BDP_SEGMENTS)).contains(&again), "{again} sent again");
    drop(connection);
    until_closed(&home, 1.0)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_resume_jumps_total", &of())? == 1.0);
    ensure!(metrics.of_path("wad_resume_retreats_total", &of())? == 1.0);
    let next = served(&wan, &open(&wan, RESUMES)?, 1_000_000)?;
    ensure!(next <= SLOW_START_SEGMENTS, "{next} segments on a path that rests");
    Ok(())
}

#[e2e(long, beside)]
fn a_known_path_has_room_to_receive_from_the_first_segment_on() -> Result<()> {
    // 1.25 times what the path holds, doubled.
    const WHOLE_BYTES: u64 = 2 * 1_875_000;
    let stand = Stand::set_up("room")?;
    let wan = wan()?;
    let known = "sndbuf = 'auto'; rcvbuf = 'auto'; bandwidth = '200Mbit'; rtt = '60ms'";
    let policies = [
        policy(RESUMES, &format!("resume = 'known'; {known}")),
        policy(DIVIDES, &format!("resume = 'known'; divide = true; {known}")),
        policy(BEGINS_ANEW, known),
    ];
    let home = Home::create(&program()?, &policies.concat())?;
    let _agent = home.start(stand.cgroup())?;
    let rcvbufs = |connection: &Connection| -> Result<[u64; 2]> {
        let (near, far) = (connection.near_flow(wan.a())?, connection.far_flow(wan.b())?);
        Ok([near.rcvbuf_bytes, far.rcvbuf_bytes])
    };
    // Each application that reads nothing may let as much lie there: it is one path's, and divided
    // once, whether the policy says so or not.
    let mut open_ones = Vec::new();
    let mut scales = Vec::new();
    for port in [RESUMES, DIVIDES] {
        for flows in [1, 2] {
            let connection = open(&wan, port)?;
            let bytes = rcvbufs(&connection)?;
            ensure!(bytes == [WHOLE_BYTES / flows; 2], "{bytes:?} of {flows} on port {port}");
            scales.push(connection.near_flow(wan.a())?.window_scales);
            open_ones.push(connection);
        }
    }
    // It is for when the others have gone.
    ensure!(scales.iter().all(|scale| *scale == scales[0]), "{scales:?}");
    let kernels = rcvbufs(&open(&wan, BEGINS_ANEW)?)?;
    ensure!(kernels.iter().all(|bytes| *bytes < WHOLE_BYTES / 4), "{kernels:?}");
    drop(open_ones);
    until_closed(&home, 2.0)?;
    let again = rcvbufs(&open(&wan, RESUMES)?)?;
    ensure!(again == [WHOLE_BYTES; 2], "{again:?} after those had closed");
    Ok(())
}
