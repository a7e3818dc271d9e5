//! Tools of probes by real sockets: path MTU and echoes through a router, and ours beside the
//! real ping and iperf3 on one path.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::{path::Path, wan, wan::Wan},
    ends::{self, Ends},
    netns::Netns,
    process::Place,
    settings,
    stand::Stand,
    sysctl, tcp,
};

use crate::alone::Alone;

/// The bytes of the router's far link, which the near end does not see.
const NARROW: u64 = 1_400;
const NEAR: [&str; 2] = ["10.82.1.1", "fd82:1::1"];
const FAR: [&str; 2] = ["10.82.2.1", "fd82:2::1"];
const ROUTER: [[&str; 2]; 2] = [["10.82.1.2", "fd82:1::2"], ["10.82.2.2", "fd82:2::2"]];

/// Two ends, and a router between them whose far link carries less.
struct Routed {
    ends: Ends,
    _router: Netns,
}

impl Routed {
    fn start() -> Result<Self> {
        let ends = Ends::create()?;
        let router = Netns::create("router")?;
        let hosts = [(&ends.a, "near0", NEAR), (&ends.b, "far0", FAR)];
        for ((host, device, own), routers) in hosts.into_iter().zip(ROUTER) {
            ends::join([host, &router], device)?;
            for ((own, next), length) in own.into_iter().zip(routers).zip([24, 64]) {
                ends::add_address(host, device, &format!("{own}/{length}"))?;
                ends::add_address(&router, device, &format!("{next}/{length}"))?;
                let family = if length == 24 { "-4" } else { "-6" };
                host.ip(&[family, "route", "add", "default", "via", next])?;
            }
        }
        for netns in [&ends.b, &router] {
            netns.ip(&["link", "set", "far0", "mtu", &NARROW.to_string()])?;
        }
        router.run(|| {
            sysctl::set("net.ipv4.ip_forward", "1")?;
            sysctl::set("net.ipv6.conf.all.forwarding", "1")
        })??;
        may_ping(&ends.a)?;
        Ok(Self { ends, _router: router })
    }
}

/// Lets all users send echoes by ICMP.
fn may_ping(netns: &Netns) -> Result<()> {
    Ok(netns.run(|| sysctl::set("net.ipv4.ping_group_range", "0 2147483647"))??)
}

fn task(name: &str, host: &str, rest: &str) -> String {
    format!("[[probe.task]]\nname = '{name}'\nhost = '{host}'\nevery = '1h'\n{rest}\n")
}

#[e2e(long, beside)]
fn path_mtu_and_echoes_are_measured_through_a_router() -> Result<()> {
    let _stand = Stand::set_up("probe-mtu")?;
    let routed = Routed::start()?;
    let answers = "answer = '[::]:4824'\nanswer_to = ['10.82.0.0/16', 'fd82::/16']\n";
    let _peer = Alone::start(Some(&routed.ends.b), answers)?;
    let (mtu, rtt) = ("tool = 'path-mtu'", "tool = 'rtt'\ncount = 5\ninterval = '10ms'");
    let udp = "\necho = 'udp'";
    let mut tasks = String::new();
    for (version, host) in ["4", "6"].into_iter().zip(FAR) {
        tasks += &task(&format!("mtu{version}"), host, mtu);
        tasks += &task(&format!("mtu{version}-udp"), host, &(mtu.to_owned() + udp));
        tasks += &task(&format!("rtt{version}"), host, rtt);
    }
    let prober = Alone::start(Some(&routed.ends.a), &tasks)?;
    for found in prober.measure(&["mtu4", "mtu4-udp", "mtu6", "mtu6-udp"])? {
        ensure!(found["path_mtu_bytes"] == NARROW, "{found}");
    }
    for found in prober.measure(&["rtt4", "rtt6"])? {
        ensure!(found["rtt"]["samples"] == 5 && found["loss"]["part"] == 0, "{found}");
    }
    Ok(())
}

const RTT_SECONDS: f64 = 0.02;
const MOST_RTT_ERROR_SECONDS: f64 = 1e-3;
const MOST_RATE_ERROR: f64 = 0.1;
const IPERF3: u16 = 5201;

/// On one path of 50 Mbit/s and 20 ms.
#[e2e(long, alone)]
fn ping_and_iperf3_find_out_the_same() -> Result<()> {
    let _stand = Stand::set_up("probe-others")?;
    let path: Path = toml::from_str("rtt = '20ms'\nforward = { rate = '50Mbit', queue.bdp = 1 }")?;
    let wan = Wan::start(&path)?;
    settings::apply(&wan)?;
    may_ping(wan.a())?;
    let there = wan::ADDRESSES_V4[1];
    let _peer = Alone::start(Some(wan.b()), "answer = '[::]:4824'\nanswer_to = '10.77.0.0/16'\n")?;
    let mut server = Command::new("iperf3");
    server.args(["--server", "--bind", there]).stdin(Stdio::null()).stdout(Stdio::null());
    let _server = Place { netns: Some(wan.b()), cgroup: None }.spawn(server)?;
    tcp::await_listener(wan.b(), IPERF3)?;
    let echoes = "count = 20\ninterval = '50ms'\ntool = ";
    let tasks = task("rtt", there, &format!("{echoes}'rtt'"))
        + &task("ping", there, &format!("{echoes}'ping'"))
        + &task("bandwidth", there, "tool = 'bandwidth'")
        + &task("iperf3", there, "tool = 'iperf3'\ntime = '5s'");
    let prober = Alone::start(Some(wan.a()), &tasks)?;

    let echoes = prober.measure(&["rtt", "ping"])?;
    for found in &echoes {
        let error = number(found, "/rtt/min_seconds")? - RTT_SECONDS;
        ensure!(error.abs() <= MOST_RTT_ERROR_SECONDS, "{found}");
        ensure!(found["loss"]["part"] == 0 && found["reordering"]["part"] == 0, "{found}");
    }
    let transfers = prober.measure(&["bandwidth", "iperf3"])?;
    let [ours, theirs] = &transfers[..] else { unreachable!("two were asked for") };
    println!("ours {ours}\niperf3 {theirs}");
    let rates = [ours, theirs].map(|found| number(found, "/bandwidth/bits_per_second"));
    let [ours_rate, their_rate] = rates;
    ensure!(ours["bandwidth"]["confidence"] == "converged", "{ours}");
    let apart = ours_rate? / their_rate? - 1.0;
    ensure!(apart.abs() <= MOST_RATE_ERROR, "{apart:+.3} apart: {ours} {theirs}");
    let error = number(ours, "/bandwidth/bits_per_second")? / path.carries_bits_per_second() - 1.0;
    ensure!(error.abs() <= MOST_RATE_ERROR, "{error:+.3}: {ours}");
    Ok(())
}

fn number(found: &Value, pointer: &str) -> Result<f64> {
    let number = found.pointer(pointer).and_then(Value::as_f64);
    number.with_context(|| format!("no {pointer}: {found}"))
}
