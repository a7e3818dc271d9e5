//! Flows that run already are found when the agent starts or its policy changes, in all
//! network namespaces, and only in its cgroup.

use std::{
    fs::File,
    io,
    net::TcpStream,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    signal::Signal,
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup::{Cgroup, Joined},
    netns::Netns,
    old_kernel,
    process::{Place, in_mounts},
    settings, ss,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const PORT: u16 = 7000;
const NAMESPACES: usize = 20;
const FLOWS_EACH: usize = 50;
const ALL: f64 = (NAMESPACES * FLOWS_EACH) as f64;

/// The policy is for the ends that connected, on the loopback device of any namespace.
const ON_LOOPBACK: &str = "[[path]]\nname = 'p'\n\
     remote = ['127.0.0.0/8', '::1']\nremote_port = 7000\nsndbuf = '300000'\n\
     rcvbuf = '400000'\ncongestion = 'wad_aimd'\n";

struct Crowd {
    netns: Netns,
    connections: Vec<Connection>,
}

impl Crowd {
    fn gather(n: usize) -> Result<Self> {
        let netns = Netns::create("crowd")?;
        netns.ip(&["link", "set", "lo", "up"])?;
        settings::apply_to(&netns)?;
        let to = at(if n.is_multiple_of(2) { "127.0.0.2" } else { "::1" }, PORT);
        let listener = tcp::listen(&netns, to)?;
        let near = netns.run(|| -> io::Result<Vec<TcpStream>> {
            (0..FLOWS_EACH).map(|_| TcpStream::connect(to)).collect()
        })??;
        let accepted = near.into_iter().map(|near| Connection::accepted(&listener, near));
        Ok(Self { connections: accepted.collect::<Result<_, _>>()?, netns })
    }

    fn ensure_tuned(&self) -> Result<()> {
        let (near, far) = self.netns.run(|| -> Result<_> {
            Ok((ss::flows("dport = :7000")?, ss::flows("sport = :7000")?))
        })??;
        ensure!(near.len() == FLOWS_EACH && far.len() == FLOWS_EACH, "{}", near.len());
        for flow in near {
            let buffers = (flow.sndbuf_bytes, flow.rcvbuf_bytes);
            ensure!(flow.congestion.starts_with("wad_aimd"), "{flow:?}");
            ensure!(buffers == (600_000, 800_000), "{flow:?}");
        }
        ensure!(far.iter().all(|flow| flow.congestion == "cubic"), "{far:?}");
        Ok(())
    }
}

/// Allows two descriptors for each flow.
fn allow_many_files() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard)?)
}

#[e2e(long, alone)]
fn a_thousand_flows_in_twenty_namespaces_are_adopted_at_start() -> Result<()> {
    let stand = Stand::set_up("thousand")?;
    allow_many_files()?;
    let crowds = (0..NAMESPACES).map(Crowd::gather).collect::<Result<Vec<_>>>()?;
    let home = Home::create(&program()?, ON_LOOPBACK)?;
    let begun = Instant::now();
    let _agent = home.start(stand.cgroup())?;
    println!("{ALL} flows in {NAMESPACES} namespaces: ready after {:?}", begun.elapsed());
    println!("{}", home.log());
    // Whoever can ask the agent finds them tuned: that it is ready says so.
    crowds.iter().try_for_each(Crowd::ensure_tuned)?;
    let of_path = |name: &str| -> Result<f64> { Ok(home.metrics()?.of_path(name, "p")?) };
    for name in ["wad_connections_matched_total", "wad_flows_opened_total", "wad_flows_tuned"] {
        ensure!(of_path(name)? == ALL, "{name}: {}", of_path(name)?);
    }
    for crowd in &crowds {
        crowd.connections[0].exchange(100_000)?;
    }
    drop(crowds);
    let look = || -> Result<_> {
        let metrics = home.metrics()?;
        let closed = metrics.of_path("wad_flows_closed_total", "p")?;
        let tuned = metrics.of_path("wad_flows_tuned", "p")?;
        Ok((closed, tuned))
    };
    until("all have closed", SOON, look, |seen| *seen == (ALL, 0.0))?;
    // What came before the agent is none of its path's. The kernel counts a FIN.
    let sent = of_path("wad_sent_bytes_total")? - (NAMESPACES * 100_000) as f64;
    ensure!((0.0..=ALL).contains(&sent), "{sent} bytes too many");
    Ok(())
}

#[e2e(long, beside)]
fn flows_of_another_cgroup_are_left_alone() -> Result<()> {
    let stand = Stand::set_up("ours")?;
    let wire = Wire::start()?;
    let other = Cgroup::create("theirs")?;
    let to = at(ADDRESSES_V4[1], PORT);
    let theirs = {
        let _joined = Joined::to(&other)?;
        Connection::open(wire.a(), wire.b(), to)?
    };
    let ours = Connection::open(wire.a(), wire.b(), to)?;
    let home = Home::create(&program()?, &on_wire("sndbuf = '300000'"))?;
    let _agent = home.start(stand.cgroup())?;
    ensure!(ours.near_flow(wire.a())?.sndbuf_bytes == 600_000);
    let left = theirs.near_flow(wire.a())?;
    ensure!(left.sndbuf_bytes != 600_000 && left.congestion == "cubic", "{left:?}");
    ensure!(home.metrics()?.of_path("wad_flows_tuned", "p")? == 1.0);
    Ok(())
}

/// The receiver's clamp was settled when it accepted: at half of `tcp_rmem`.
#[e2e(every_change, alone)]
fn an_adopted_receiver_offers_what_its_window_scale_allows() -> Result<()> {
    let stand = Stand::set_up("receiver")?;
    let wire = Wire::start()?;
    wire.b().run(|| sysctl::set("net.ipv4.tcp_rmem", "4096 65536 65536"))??;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    connection.exchange(5_000_000)?;
    let before = connection.near_flow(wire.a())?;
    ensure!(before.send_window_bytes <= 65_536, "{before:?}");
    let path = "[[path]]\nname = 'p'\nremote = '10.81.0.1'\nlocal_port = 7000\nrcvbuf = '4MiB'\n";
    let home = Home::create(&program()?, path)?;
    let _agent = home.start(stand.cgroup())?;
    let offered = || -> Result<u64> {
        connection.exchange(5_000_000)?;
        Ok(connection.near_flow(wire.a())?.send_window_bytes)
    };
    // The scale came from net.core.rmem_max of 212992: two bits.
    until("the window has grown", SOON, offered, |bytes| *bytes > 200_000)?;
    let scales = connection.far_flow(wire.b())?.window_scales;
    ensure!(scales.is_some_and(|(_, ours)| ours == 2), "{scales:?}");
    Ok(())
}

fn on_wire(keys: &str) -> String {
    format!("[[path]]\nname = 'p'\nremote = ['10.81.0.2', 'fd81::2']\nremote_port = 7000\n{keys}\n")
}

#[e2e(every_change, beside)]
fn a_change_of_the_policy_reaches_flows_that_run() -> Result<()> {
    let stand = Stand::set_up("change")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "")?;
    let _agent = home.start(stand.cgroup())?;
    let v4 = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let v6 = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V6[1], PORT))?;
    let both = || -> Result<_> { Ok([v4.near_flow(wire.a())?, v6.near_flow(wire.a())?]) };
    let untouched = both()?;
    let tuned = || -> Result<_> { Ok(home.metrics()?.of_path("wad_flows_tuned", "p")?) };

    home.reload(&on_wire("sndbuf = '300000'\npacing = '80Mbit'\ncongestion = 'reno'\ndscp = 8"))?;
    for flow in both()? {
        ensure!(flow.sndbuf_bytes == 600_000 && flow.congestion == "reno", "{flow:?}");
    }
    ensure!(tuned()? == 2.0);

    // Larger, then smaller, and a law.
    home.reload(&on_wire("sndbuf = '500000'\nrcvbuf = '500000'\ncongestion = 'wad_aimd'"))?;
    for flow in both()? {
        let buffers = (flow.sndbuf_bytes, flow.rcvbuf_bytes);
        ensure!(buffers == (1_000_000, 1_000_000), "{flow:?}");
        ensure!(flow.congestion.starts_with("wad_aimd"), "{flow:?}");
    }
    home.reload(&on_wire("sndbuf = '200000'\nrcvbuf = '200000'\ncongestion = 'wad_aimd'"))?;
    for flow in both()? {
        ensure!((flow.sndbuf_bytes, flow.rcvbuf_bytes) == (400_000, 400_000), "{flow:?}");
    }
    [&v4, &v6].iter().try_for_each(|connection| connection.exchange(3_000_000))?;

    // Gone: back to the default, and counted as gone.
    home.reload("")?;
    for (flow, before) in both()?.iter().zip(&untouched) {
        ensure!(flow.congestion == before.congestion, "{flow:?}");
    }
    let left = || Ok::<_, anyhow::Error>(home.log().matches("flow left its path").count());
    until("both are told to have left", SOON, left, |count| *count == 2)?;
    ensure!(home.log().contains("left=2"), "{}", home.log());

    // And back.
    home.reload(&on_wire("congestion = 'wad_aimd'"))?;
    ensure!(both()?.iter().all(|flow| flow.congestion.starts_with("wad_aimd")));
    ensure!(tuned()? == 2.0);
    drop((v4, v6));
    until("both have closed", SOON, tuned, |now| *now == 0.0)?;
    Ok(())
}

/// A law takes the parameters of the path that a flow comes under, even if it is the
/// law that it has already.
#[e2e(long, beside)]
fn a_flow_that_comes_under_another_path_gets_its_parameters() -> Result<()> {
    let stand = Stand::set_up("other")?;
    let wire = Wire::start()?;
    let policy = |remote: &str, max_cwnd: u32| {
        format!(
            "[[path]]\nname = 'p{max_cwnd}'\nremote = '{remote}'\nremote_port = 7000\n\
             congestion = 'wad_aimd'\nmax_cwnd = {max_cwnd}\n"
        )
    };
    let home = Home::create(&program()?, &policy("10.81.0.0/16", 20))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let window = || -> Result<u32> {
        connection.exchange(2_000_000)?;
        Ok(connection.near_flow(wire.a())?.cwnd_segments)
    };
    until("the window is at its maximum", SOON, window, |window| *window == 20)?;
    let more_specific = format!("{}{}", policy("10.81.0.2", 12), policy("10.81.0.0/16", 20));
    home.reload(&more_specific)?;
    until("the window is at the other's", SOON, window, |window| *window == 12)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_flows_tuned", "p20")? == 0.0);
    ensure!(metrics.of_path("wad_flows_tuned", "p12")? == 1.0);
    Ok(())
}

/// Before Linux 6.12 a flow that runs cannot be given the callback at its end.
#[e2e(long, beside)]
fn without_the_callback_ends_are_seen_all_the_same() -> Result<()> {
    let stand = Stand::set_up("ends")?;
    let wire = Wire::start()?;
    let _mounted = old_kernel::BpfFileSystem::mount()?;
    let to = at(ADDRESSES_V4[1], PORT);
    let connection = Connection::open(wire.a(), wire.b(), to)?;
    let home = Home::create(&program()?, &on_wire("sndbuf = '300000'"))?;
    let mut command = home.command("run");
    command.arg("--cgroup").arg(stand.cgroup().path());
    let script = old_kernel::without(&["TCP_BPF_SOCK_OPS_CB_FLAGS"], home.folder())?;
    let mut command = in_mounts(&script, &command);
    let log = File::create(home.folder().join("log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    home.expect_agent();
    let mut agent = Place::default().spawn(command)?;
    let ready = || Ok::<_, anyhow::Error>(home.command("status").output()?.status.success());
    until("the agent is ready", SOON, ready, |ready| *ready)?;

    ensure!(connection.near_flow(wire.a())?.sndbuf_bytes == 600_000);
    let second = Connection::open(wire.a(), wire.b(), to)?;
    let tuned = || Ok::<_, anyhow::Error>(home.metrics()?.of_path("wad_flows_tuned", "p")?);
    ensure!(tuned()? == 2.0);
    drop((connection, second));
    until("both have closed", SOON, tuned, |now| *now == 0.0)?;
    ensure!(home.metrics()?.of_path("wad_flows_closed_total", "p")? == 2.0);
    agent.signal(Signal::SIGTERM);
    ensure!(agent.wait(SOON, || ())?.success());
    ensure!(!home.pins().exists());
    Ok(())
}

/// The policy has a path whose own flows measure it.
const MEASURED: &str = "[limits]\nmax_memory = '1GiB'\n[[source]]\nname = 'flows'\n\
     kind = 'passive'\ninterval = '1s'\n[[path]]\nname = 'p'\nremote = '10.81.0.2'\n\
     mode = 'measured'\nsndbuf = 'auto'\n";

#[e2e(long, few)]
fn a_flow_that_runs_shows_what_its_path_carries() -> Result<()> {
    let stand = Stand::set_up("shown")?;
    let wire = Wire::start()?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let home = Home::create(&program()?, MEASURED)?;
    let agent = home.start(stand.cgroup())?;
    let rate = || -> Result<Option<f64>> {
        connection.exchange(1_000_000)?;
        let output = home.command("paths").arg("--json").output()?;
        let paths: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(paths["paths"][0]["measured"]["bandwidth_bits_per_second"]["value"].as_f64())
    };
    // By an iterator over the flows' state: it has not ended.
    let rate = until("it is seen", SOON, rate, Option::is_some)?;
    ensure!(rate.is_some_and(|rate| rate > 1e6), "{rate:?}; {}", home.log());
    agent.stop()?;
    Ok(())
}
