//! `wad flows` is held against ss: what each says of the same flows, in two network
//! namespaces at once.

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::Netns,
    sending::while_sending,
    signal,
    ss::{self, Flow},
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

/// The policy is for both ends of every connection of the wire; those of one family are
/// paced.
const POLICY: &str = "[[path]]\nname = 'v4'\nremote = '10.81.0.0/16'\nsndbuf = '1MiB'\n\
                      congestion = 'wad_aimd'\npacing = 'auto'\n\n\
                      [[path]]\nname = 'v6'\nremote = 'fd81::/32'\nmode = 'observe'\n";
const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(30);

/// ss rounds off at most this, in microseconds or milliseconds.
const ROUNDED: f64 = 1.0;

type FromSs = fn(&Flow) -> Option<f64>;

/// These are the instruments that ss shows, and what it shows of them.
const SHOWN: [(&str, FromSs); 31] = [
    ("HCDataOctetsOut", |flow| count(flow, "bytes_sent")),
    ("HCThruOctetsAcked", |flow| Some(flow.bytes_acked as f64)),
    ("HCThruOctetsReceived", |flow| Some(flow.bytes_received as f64)),
    ("SegsOut", |flow| count(flow, "segs_out")),
    ("SegsIn", |flow| count(flow, "segs_in")),
    ("DataSegsOut", |flow| count(flow, "data_segs_out")),
    ("DataSegsIn", |flow| count(flow, "data_segs_in")),
    ("SegsRetrans", |flow| Some(flow.retransmits as f64)),
    ("OctetsRetrans", |flow| count(flow, "bytes_retrans")),
    ("DSACKDups", |flow| count(flow, "dsack_dups")),
    ("ReorderEvents", |flow| count(flow, "reord_seen")),
    ("SndLimTimeRwin", |flow| count(flow, "rwnd_limited")),
    ("SndLimTimeSndbuf", |flow| count(flow, "sndbuf_limited")),
    ("SndLimTimeCwnd", |flow| {
        let others = count(flow, "rwnd_limited")? + count(flow, "sndbuf_limited")?;
        Some(count(flow, "busy")? - others)
    }),
    ("CurCwnd", |flow| octets(flow, flow.cwnd_segments)),
    ("CurSsthresh", |flow| octets(flow, flow.ssthresh_segments?)),
    ("CurMSS", |flow| Some(flow.mss_bytes.into())),
    ("PipeSize", |flow| {
        let left = count(flow, "sacked")? + count(flow, "lost")?;
        let out = f64::from(flow.unacked_segments + flow.retransmits_out);
        Some((out - left) * f64::from(flow.mss_bytes))
    }),
    ("CurRetxQueue", |flow| Some(flow.send_queue_bytes as f64 - count(flow, "notsent")?)),
    ("CurAppWQueue", |flow| count(flow, "notsent")),
    ("CurAppRQueue", |flow| Some(flow.receive_queue_bytes as f64)),
    ("CurRwinRcvd", |flow| Some(flow.send_window_bytes as f64)),
    ("SmoothedRTT", |flow| Some(flow.rtt_ms * 1e3)),
    ("RTTVar", |flow| Some(flow.rtt_variation_ms * 1e3)),
    ("MinRTT", |flow| Some(flow.min_rtt_ms * 1e3)),
    ("CurRTO", |flow| Some(flow.number("rto")? * 1e3)),
    ("RetranThresh", |flow| Some(flow.reordering_segments.unwrap_or(3).into())),
    ("DeliveryRate", |flow| Some((flow.number("delivery_rate")? / 8.0).floor())),
    ("PacingRate", |flow| Some((flow.pacing_bits_per_second as f64 / 8.0).floor())),
    ("SndBuf", |flow| Some(flow.sndbuf_bytes as f64)),
    ("RcvBuf", |flow| Some(flow.rcvbuf_bytes as f64)),
];

/// The first so many of [`SHOWN`] only grow.
const COUNTERS: usize = 14;

/// The others: this ss does not show them, or the kernel tells it another thing.
const NOT_SHOWN: [&str; 10] = [
    "ElapsedSecs",
    "CurTimeoutCount",
    "Timeouts",
    "CongSignals",
    "SendStall",
    "CurRwinSent",
    "SndLimTimeSnd",
    "MaxRTT",
    "IsAppLimited",
    "Phase",
];

fn count(flow: &Flow, name: &str) -> Option<f64> {
    Some(flow.number(name).unwrap_or(0.0))
}

fn octets(flow: &Flow, segments: u32) -> Option<f64> {
    Some(f64::from(segments) * f64::from(flow.mss_bytes))
}

fn flows(home: &Home, arguments: &[&str]) -> Result<Vec<Value>> {
    let output = home.command("flows").arg("--json").args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reading: Value = serde_json::from_slice(&output.stdout)?;
    Ok(reading["flows"].as_array().context("no list of flows")?.clone())
}

type Ends = (SocketAddr, SocketAddr);

/// Returns what ss shows in both namespaces, by local and remote end.
fn witnessed(wire: &Wire) -> Result<HashMap<Ends, Flow>> {
    let look =
        |netns: &Netns| netns.run(|| ss::flows(&format!("( sport = :{PORT} or dport = :{PORT} )")));
    let all = look(wire.a())??.into_iter().chain(look(wire.b())??);
    Ok(all.map(|flow| ((flow.local, flow.peer), flow)).collect())
}

fn ends(flow: &Value) -> Result<Ends> {
    let end = |name: &str| -> Result<SocketAddr> {
        Ok(flow[name].as_str().with_context(|| format!("no {name}: {flow}"))?.parse()?)
    };
    Ok((end("local")?, end("remote")?))
}

/// Opens one connection over each family, with the four flows that are its ends.
fn connections(wire: &Wire) -> Result<[Connection; 2]> {
    let open = |address| Connection::open(wire.a(), wire.b(), at(address, PORT));
    Ok([open(ADDRESSES_V4[1])?, open(ADDRESSES_V6[1])?])
}

#[e2e(every_change, beside)]
fn an_idle_flow_has_the_values_that_ss_shows() -> Result<()> {
    let stand = Stand::set_up("flows")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let connections = connections(&wire)?;
    // IPv6 carries more, in smaller segments.
    for (connection, octets) in connections.iter().zip([3_000_000, 4_000_000]) {
        connection.exchange(octets)?;
    }
    for name in ["HCThruOctetsReceived", "CurMSS"] {
        let sorted = flows(&home, &["--sort", name])?;
        let values: Vec<_> = sorted.iter().map(|flow| flow["instruments"][name].as_f64()).collect();
        ensure!(
            values.is_sorted_by(|a, b| a >= b) && values.first() > values.last(),
            "{name}: {values:?}"
        );
    }
    // Acknowledgements and timers come to rest.
    let rest = || -> Result<_> {
        let before = witnessed(&wire)?;
        signal::sleep(Duration::from_millis(300))?;
        let now = flows(&home, &[])?;
        Ok((before, now, witnessed(&wire)?))
    };
    let begun = Instant::now();
    let at_rest = |seen: &(HashMap<Ends, Flow>, Vec<Value>, HashMap<Ends, Flow>)| {
        let numbers = |flows: &HashMap<Ends, Flow>| -> HashMap<Ends, Vec<Option<f64>>> {
            flows
                .iter()
                .map(|(ends, flow)| (*ends, SHOWN.map(|(_, of)| of(flow)).to_vec()))
                .collect()
        };
        numbers(&seen.0) == numbers(&seen.2)
    };
    let (_, flows, witnessed) = until("nothing moves any more", SOON, rest, at_rest)?;
    ensure!(flows.len() == 4 && witnessed.len() == 4, "{flows:?} {witnessed:?}");
    for flow in &flows {
        let of_ss = &witnessed[&ends(flow)?];
        for (name, shown) in SHOWN {
            let expected = shown(of_ss);
            let found = flow["instruments"][name].as_f64();
            let is_paced = flow["path"] == "v4";
            let fits = match (name, expected, found) {
                // The kernel reckons it for all, and ss shows that.
                ("PacingRate", _, found) if !is_paced => found.is_none(),
                (_, Some(expected), Some(found)) => (expected - found).abs() <= ROUNDED,
                (_, expected, found) => expected.is_none() && found.is_none(),
            };
            ensure!(fits, "{name} is {found:?}, ss says {expected:?}: {of_ss:?}");
        }
        others_fit(flow, begun)?;
        ensure!(flow["congestion"].as_str() == Some(&of_ss.congestion), "{flow} {of_ss:?}");
    }
    Ok(())
}

/// Checks that what ss does not show of an idle flow is what it has to be.
fn others_fit(flow: &Value, begun: Instant) -> Result<()> {
    let instruments = flow["instruments"].as_object().context("no instruments")?;
    let known = SHOWN.iter().map(|(name, _)| *name).chain(NOT_SHOWN);
    let mut missing: Vec<&str> = known.filter(|name| !instruments.contains_key(*name)).collect();
    let is_known =
        |name: &str| NOT_SHOWN.contains(&name) || SHOWN.iter().any(|(own, _)| *own == name);
    missing.extend(instruments.keys().map(String::as_str).filter(|name| !is_known(name)));
    ensure!(missing.is_empty(), "unknown to this test, or not there: {missing:?}");
    let value = |name: &str| instruments[name].as_f64().with_context(|| format!("no {name}"));
    let elapsed = value("ElapsedSecs")?;
    // It was there before this.
    ensure!(elapsed > begun.elapsed().as_secs_f64() - 1.0 && elapsed < 60.0, "{elapsed} s");
    let limited = value("SndLimTimeSnd")? + value("SndLimTimeRwin")? + value("SndLimTimeCwnd")?;
    ensure!((limited - elapsed * 1e3).abs() < 1e-3, "{limited} ms of {elapsed} s");
    // Packets that overtook each other may have been taken for lost.
    ensure!(value("CongSignals")? <= value("SegsRetrans")?, "{flow}");
    ensure!(value("Timeouts")? == 0.0 && value("SendStall")? == 0.0, "{flow}");
    // Only a law keeps it, of a flow that has sent; the other family is only observed.
    match instruments["MaxRTT"].as_f64() {
        Some(most) => ensure!(most >= value("MinRTT")? && flow["path"] == "v4", "{flow}"),
        None => ensure!(flow["path"] == "v6" || value("HCDataOctetsOut")? == 0.0, "{flow}"),
    }
    ensure!(value("CurTimeoutCount")? == 0.0 && value("CurRwinSent")? > 10_000.0, "{flow}");
    Ok(())
}

#[e2e(long, alone)]
fn counts_of_a_flow_at_work_lie_between_those_of_ss() -> Result<()> {
    let stand = Stand::set_up("flows-work")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let connections = connections(&wire)?;
    while_sending(&connections, || {
        let mut last = HashMap::new();
        for _ in 0..10 {
            let before = witnessed(&wire)?;
            let flows = flows(&home, &[])?;
            let after = witnessed(&wire)?;
            ensure!(flows.len() == 4, "{flows:?}");
            for flow in &flows {
                let ends = ends(flow)?;
                for (name, shown) in &SHOWN[..COUNTERS] {
                    let (least, most) = (shown(&before[&ends]), shown(&after[&ends]));
                    let (Some(least), Some(most)) = (least, most) else { continue };
                    let found = flow["instruments"][*name].as_f64().context("no number")?;
                    let fits = found >= least - ROUNDED && found <= most + ROUNDED;
                    ensure!(fits, "{name}: {least}, then {found}, then {most}");
                }
                last.insert(ends, flow["instruments"]["HCThruOctetsAcked"].as_f64());
            }
        }
        ensure!(last.values().any(|acked| acked > &Some(1e6)), "nothing was sent: {last:?}");
        Ok(())
    })
}

#[e2e(long, beside)]
fn flows_are_chosen_and_fields_are_shown_by_name() -> Result<()> {
    let stand = Stand::set_up("flows-chosen")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let connections = connections(&wire)?;
    connections[0].exchange(100_000)?;

    let all = flows(&home, &[])?;
    let outcome = |path: &str| {
        let of = |flow: &&Value| flow["path"] == path;
        all.iter().filter(of).map(|flow| flow["outcome"].clone()).collect::<Vec<_>>()
    };
    ensure!(outcome("v4") == ["tuned"; 2] && outcome("v6") == ["observed"; 2], "{all:?}");
    ensure!(all.iter().filter(|flow| flow["role"] == "connected").count() == 2, "{all:?}");
    let mut namespaces: Vec<_> = all.iter().map(|flow| flow["netns"].as_u64()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    ensure!(namespaces.len() == 2 && namespaces[0].is_some(), "{namespaces:?}");

    let cookie = all[0]["cookie"].to_string();
    for (arguments, count) in [
        (vec!["--path", "v4"], 2),
        (vec!["--path", "v4", "--path", "v6"], 4),
        (vec!["--remote", "10.81.0.2"], 1),
        (vec!["--remote", "fd81::/64", "--path", "v4"], 0),
        (vec!["--cookie", &cookie], 1),
    ] {
        ensure!(flows(&home, &arguments)?.len() == count, "{arguments:?}");
    }

    let fields = [
        "--field",
        "snd_cwnd",
        "--field",
        "inet_conn.icsk_ca_state",
        "--field",
        "rx_opt.snd_wscale",
    ];
    for flow in flows(&home, &fields)? {
        let of = |name: &str| flow["instruments"][name].as_f64().context("no number");
        ensure!(of("snd_cwnd")? * of("CurMSS")? == of("CurCwnd")?, "{flow}");
        // A bit field, among others of its byte: open.
        ensure!(of("inet_conn.icsk_ca_state")? == 0.0, "{flow}");
        let netns = if ends(&flow)?.1.port() == PORT { wire.a() } else { wire.b() };
        let end = if ends(&flow)?.1.is_ipv4() { &connections[0] } else { &connections[1] };
        let end =
            if ends(&flow)?.1.port() == PORT { end.near_flow(netns) } else { end.far_flow(netns) };
        let (scale, _) = end?.window_scales.context("no window scale")?;
        ensure!(of("rx_opt.snd_wscale")? == f64::from(scale), "{flow}");
    }
    for (field, near) in [("snd_cwn", "`snd_cwnd`"), ("icsk_rto", "`inet_conn.icsk_rto`")] {
        let output = home.command("flows").args(["--field", field]).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && said.contains(near) && said.contains(field), "{said}");
    }
    let table = String::from_utf8(home.command("flows").output()?.stdout)?;
    ensure!(table.lines().count() == 5 && table.starts_with("PATH"), "{table}");
    Ok(())
}
