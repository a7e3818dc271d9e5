//! `[host] routes` sets metrics that routes carry, as connections have them; routes
//! change, with an agent and without; and nothing is left in the end.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::Shutdown,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::Capture,
    ends::{self, Ends},
    metrics::Metrics,
    netns::Netns,
    settings, signal,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    wad::{Agent, Home, program},
};

const SOON: Duration = Duration::from_secs(5);
/// The two links between the ends have these names and networks; on each the near end
/// is .1, the far end .2.
const LINKS: [(&str, &str); 2] = [("link0", "10.81.0"), ("link1", "10.82.0")];
/// The near end has this address behind the links.
const NEAR: &str = "10.80.0.1";
const FAR: &str = "10.90.0.1";
const PORT: u16 = 7000;

/// Two ends with two links between them, and addresses behind those.
struct Net {
    ends: Ends,
}

impl Net {
    fn start() -> Result<Self> {
        let net = Self { ends: Ends::create()? };
        for netns in net.ends.both() {
            settings::apply_to(netns)?;
            // Else nothing is remembered of a connection.
            netns.run(|| sysctl::set("net.ipv4.tcp_no_metrics_save", "0"))??;
            // Else routes to addresses of its own come a second later.
            netns.run(|| sysctl::set("net.ipv6.conf.default.accept_dad", "0"))??;
        }
        for (device, prefix) in LINKS {
            ends::join(net.ends.both(), device)?;
            for (netns, last) in net.ends.both().into_iter().zip(["1", "2"]) {
                ends::add_address(netns, device, &format!("{prefix}.{last}/24"))?;
            }
        }
        ends::add_address(net.a(), "lo", &format!("{NEAR}/32"))?;
        ends::add_address(net.b(), "lo", &format!("{FAR}/24"))?;
        net.lead_over(0)?;
        Ok(net)
    }

    fn a(&self) -> &Netns {
        &self.ends.a
    }

    fn b(&self) -> &Netns {
        &self.ends.b
    }

    /// Changes the gateway, at both ends; the other link leads nowhere then.
    fn lead_over(&self, link: usize) -> Result<()> {
        let (_, prefix) = LINKS[link];
        let (near, far) = (format!("{prefix}.1"), format!("{prefix}.2"));
        for (other, (device, _)) in LINKS.iter().enumerate() {
            // It drops what comes by another way than it would go back by.
            let filter = if other == link { "0" } else { "1" };
            self.b()
                .run(|| sysctl::set(&format!("net.ipv4.conf.{device}.rp_filter"), filter))??;
        }
        self.b().ip(&["route", "replace", NEAR, "via", &near])?;
        self.a().ip(&["route", "replace", "10.90.0.0/24", "via", &far, "src", NEAR])?;
        Ok(())
    }

    /// Returns all that tells how packets go.
    fn routing(&self) -> Result<String> {
        let mut all = String::new();
        for question in [
            &["-d", "rule"][..],
            &["-d", "-6", "rule"],
            &["-d", "route", "show", "table", "all"],
            &["-d", "-6", "route", "show", "table", "all"],
        ] {
            all += &self.a().ip(question)?;
        }
        Ok(all)
    }

    /// Returns where a connection to an address and port would go.
    fn way(&self, to: &str, port: u16) -> Result<String> {
        let port = port.to_string();
        let question = ["-d", "route", "get", to, "ipproto", "6", "dport", &port, "fibmatch"];
        Ok(self.a().ip(&question)?)
    }
}

/// Only the host's own namespace tells the memory that TCP may take.
const LIMITS: &str = "[limits]\nmax_memory = '1GiB'\n";

fn policy(host: &str) -> String {
    format!(
        "{LIMITS}{host}\n[[path]]\nname = 'far'\nremote = '10.90.0.0/24'\nreorder = 19\n\
         delayed_ack = false\n\
         [[path]]\nname = 'near'\nremote = '10.80.0.0/24'\n"
    )
}

const ROUTES: &str = "[host]\nroutes = true\n";

/// Returns how long it takes the near end to acknowledge a segment alone, in seconds:
/// the median of some.
fn acknowledged_after(net: &Net, connection: &Connection) -> Result<f64> {
    let send = |pause_ms| -> Result<()> {
        tcp::send(&connection.far, 100, 1)?;
        Ok(signal::sleep(Duration::from_millis(pause_ms))?)
    };
    // The first are acknowledged at once, whatever comes. Nobody reads meanwhile: that
    // acknowledges, too.
    (0..40).try_for_each(|_| send(2))?;
    let capture = Capture::start(net.a(), LINKS[0].0, "tcp")?;
    (0..20).try_for_each(|_| send(100))?;
    let packets = capture.stop()?;
    let from = connection.far.local_addr()?;
    let pairs = packets.windows(2).filter(|pair| pair[0].from == from && pair[1].to == from);
    let mut delays: Vec<_> =
        pairs.map(|pair| pair[1].time_seconds - pair[0].time_seconds).collect();
    delays.sort_by(f64::total_cmp);
    delays.get(delays.len() / 2).copied().context("no acknowledgement was seen")
}

#[e2e(long, beside)]
fn connections_have_the_metrics() -> Result<()> {
    let stand = Stand::set_up("metrics")?;
    for (host, routes) in [("", false), (ROUTES, true)] {
        let net = Net::start()?;
        let home = Home::create(&program()?, &policy(host))?;
        let agent = home.start_inside(net.a(), stand.cgroup())?;
        let to = at(FAR, PORT);
        let mut seen = Vec::new();
        let mut delays = Vec::new();
        for _ in 0..2 {
            let connection = Connection::open(net.a(), net.b(), to)?;
            connection.exchange(100_000)?;
            seen.push(connection.near_flow(net.a())?.reordering_segments);
            delays.push(acknowledged_after(&net, &connection)?);
            // Else it ends with a reset, of which nothing is remembered.
            (&connection.near).read_exact(&mut [0; 6000])?;
        }
        println!("routes: {routes}: reordering {seen:?}, acknowledged after {delays:?} s");
        // The first finds nothing remembered of the address, which is where the
        // kernel takes it from.
        ensure!(seen == [None, routes.then_some(19)], "routes: {routes}: {seen:?}");
        for delay in delays {
            // Without, it waits for two ticks, of which the last may have just begun.
            ensure!((delay < 0.001) == routes, "routes: {routes}: {delay} s");
        }
        let explained = home.command("explain").arg(FAR).output()?;
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        let means = if routes { "table 1190039" } else { "no effect without [host] routes" };
        ensure!(explained.contains(means), "{explained}");
        agent.stop()?;
    }
    Ok(())
}

/// Talks on one connection, from before something happens until 2 s after it; returns
/// the longest wait.
fn stall(net: &Net, happen: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let connection = Connection::open(net.a(), net.b(), at(FAR, PORT))?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let mut byte = [0];
            while (&connection.far).read_exact(&mut byte).is_ok() {
                if (&connection.far).write_all(&byte).is_err() {
                    break;
                }
            }
        });
        let talking = scope.spawn(|| -> Result<Duration> {
            let mut worst = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                (&connection.near).write_all(&[0])?;
                (&connection.near).read_exact(&mut [0])?;
                worst = worst.max(asked.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            Ok(worst)
        });
        let happened = signal::sleep(Duration::from_millis(300))
            .map_err(anyhow::Error::from)
            .and_then(|()| happen());
        let slept = signal::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        let worst = talking.join().expect("talking does not panic");
        let _ = connection.near.shutdown(Shutdown::Both);
        echo.join().expect("an echo does not panic");
        happened?;
        slept?;
        worst
    })
}

/// Returns the guard among the agent's processes, which are itself and the guard of its
/// routes.
fn guard_of(agent: &Agent<'_>) -> Result<Pid> {
    let children = format!("/proc/{0}/task", agent.id());
    for task in fs::read_dir(children)? {
        let text = fs::read_to_string(task?.path().join("children"))?;
        for child in text.split_whitespace() {
            let command = fs::read_to_string(format!("/proc/{child}/cmdline"))?;
            if command.contains("guard-routes") {
                return Ok(Pid::from_raw(child.parse()?));
            }
        }
    }
    anyhow::bail!("the agent has no guard")
}

#[e2e(long, few)]
fn a_new_gateway_is_followed_at_once() -> Result<()> {
    let stand = Stand::set_up("gateway")?;
    let net = Net::start()?;
    let home = Home::create(&program()?, &policy(ROUTES))?;
    let agent = home.start_inside(net.a(), stand.cgroup())?;
    ensure!(net.way(FAR, PORT)?.contains("reordering 19"), "{}", net.way(FAR, PORT)?);

    let waited = stall(&net, || net.lead_over(1))?;
    println!("the gateway changes under an agent: traffic waits for {waited:?}");
    ensure!(waited < Duration::from_secs(1), "{waited:?}");
    let way = net.way(FAR, PORT)?;
    ensure!(way.contains("reordering 19") && way.contains("10.82.0.2"), "{way}");

    // Rules of others, who come after.
    net.a().ip(&["rule", "add", "to", "10.99.0.0/16", "lookup", "77", "pref", "32765"])?;
    let look = || Ok::<_, anyhow::Error>(net.a().ip(&["rule"])?);
    until("ours are made anew, after theirs", SOON, look, |rules| {
        rules.find("lookup 77") < rules.find("lookup 1190039")
    })?;
    // And somebody who removes ours.
    net.a().ip(&["rule", "flush", "protocol", "119"])?;
    until("they come back", SOON, look, |rules| rules.contains("lookup 1190039"))?;
    net.a().ip(&["rule", "del", "to", "10.99.0.0/16", "lookup", "77"])?;

    // A link that goes takes routes with it: nobody is told of those.
    net.a().ip(&["link", "set", LINKS[1].0, "down"])?;
    let look = || Ok::<_, anyhow::Error>(net.a().ip(&["route", "show", "table", "1190039"])?);
    until("the copy goes with the link", SOON, look, String::is_empty)?;
    net.a().ip(&["link", "set", LINKS[1].0, "up"])?;
    net.lead_over(0)?;
    until("and comes back with a route", SOON, look, |table| table.contains("10.81.0.2"))?;
    agent.stop()?;
    Ok(())
}

#[e2e(long, few)]
fn a_new_gateway_while_nobody_follows() -> Result<()> {
    let stand = Stand::set_up("dead")?;
    let net = Net::start()?;
    let home = Home::create(&program()?, &policy(ROUTES))?;
    let agent = home.start_inside(net.a(), stand.cgroup())?;
    let waited = stall(&net, || {
        agent.kill()?;
        net.lead_over(1)
    })?;
    println!("the gateway changes as the agent is killed: traffic waits for {waited:?}");
    ensure!(waited < Duration::from_secs(1), "{waited:?}");
    ensure!(!net.a().ip(&["rule"])?.contains("1190039"), "{}", net.a().ip(&["rule"])?);

    // All of it is killed at once: until a cleanup the copy holds.
    net.lead_over(0)?;
    let agent = home.start_inside(net.a(), stand.cgroup())?;
    let waited = stall(&net, || {
        kill(guard_of(&agent)?, Signal::SIGKILL)?;
        agent.kill()?;
        net.lead_over(1)?;
        signal::sleep(Duration::from_millis(700))?;
        ensure!(net.way(FAR, PORT)?.contains("10.81.0.2"), "{}", net.way(FAR, PORT)?);
        let mut command = home.command("cleanup");
        let output = command.arg("--routes").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ensure!(net.way(FAR, PORT)?.contains("10.82.0.2"), "{}", net.way(FAR, PORT)?);
        Ok(())
    })?;
    println!("with its guard, and cleaned up after 0.7 s: traffic waits for {waited:?}");
    ensure!(waited > Duration::from_millis(700) && waited < Duration::from_secs(3), "{waited:?}");
    // The tuning goes on.
    ensure!(home.pins().exists());
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Kill,
    KillAll,
    Reload,
}

#[e2e(long, beside)]
fn nothing_is_left_and_nothing_of_others_is_touched() -> Result<()> {
    let stand = Stand::set_up("left")?;
    let net = Net::start()?;
    // Of others, whose numbers come close.
    net.a().ip(&["rule", "add", "to", "10.90.0.0/24", "lookup", "1190039", "pref", "32764"])?;
    net.a().ip(&["rule", "add", "from", "10.80.0.0/24", "lookup", "88"])?;
    net.a().ip(&["route", "add", "192.0.2.0/24", "via", "10.81.0.2", "table", "1190039"])?;
    net.a().ip(&["-6", "route", "add", "2001:db8::/32", "dev", LINKS[0].0])?;
    let before = net.routing()?;
    let v6 = policy(ROUTES).replace("'10.90.0.0/24'", "['10.90.0.0/24', '2001:db8::/48']");
    for end in [End::Stop, End::Kill, End::KillAll, End::Reload] {
        let home = Home::create(&program()?, &v6)?;
        let agent = home.start_inside(net.a(), stand.cgroup())?;
        let during = net.routing()?;
        ensure!(during.matches("lookup 1190039").count() == 3, "{during}");
        ensure!(during.contains("2001:db8::/48 dev link0 table 1190039"), "{during}");
        for line in before.lines() {
            ensure!(during.contains(line), "{end:?}: {line} is gone from\n{during}");
        }
        match end {
            End::Stop => agent.stop()?,
            End::Kill => {
                agent.kill()?;
                // The guard is done in a moment.
                let look = || net.routing();
                until("as before", SOON, look, |now| *now == before)?;
            }
            End::KillAll => {
                kill(guard_of(&agent)?, Signal::SIGKILL)?;
                agent.kill()?;
                // The next one has no use for what is left, and removes it.
                home.write_policy(&policy(""))?;
                home.start_inside(net.a(), stand.cgroup())?.stop()?;
            }
            End::Reload => {
                home.reload(&policy(""))?;
                ensure!(net.routing()? == before, "{}", net.routing()?);
                agent.stop()?;
            }
        }
        ensure!(net.routing()? == before, "{end:?} leaves:\n{}before:\n{before}", net.routing()?);
    }
    Ok(())
}

/// Tells whether the running kernel's modules, as far as it has any, have VRF's.
fn has_vrf_module() -> Result<bool> {
    let release = sysctl::get("kernel.osrelease")?;
    match fs::read_to_string(format!("/lib/modules/{}/modules.dep", release.trim())) {
        Ok(list) => Ok(list.contains("/vrf.ko")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[e2e(long, beside)]
fn what_cannot_be_copied_is_left_alone_and_named() -> Result<()> {
    let stand = Stand::set_up("refused")?;
    let net = Net::start()?;
    let a = net.a();
    a.ip(&[
        "route",
        "add",
        "10.91.0.0/24",
        "nexthop",
        "via",
        "10.81.0.2",
        "nexthop",
        "via",
        "10.82.0.2",
    ])?;
    a.ip(&["nexthop", "add", "id", "7", "via", "10.81.0.2", "dev", LINKS[0].0])?;
    a.ip(&["route", "add", "10.92.0.0/24", "nhid", "7"])?;
    a.ip(&["route", "add", "10.93.0.0/24", "via", "10.81.0.2", "proto", "bird"])?;
    let mut refused = vec![
        ("10.91.0.1", "a multipath route"),
        ("10.92.0.1", "a next-hop object"),
        ("10.93.0.1", "a routing daemon made it (protocol bird"),
    ];
    match a.ip(&["link", "add", "red", "type", "vrf", "table", "10"]) {
        Ok(_) => {
            a.ip(&["link", "set", "red", "up"])?;
            a.ip(&["route", "add", "10.94.0.0/24", "dev", "red"])?;
            refused.push(("10.94.0.1", "the VRF of red"));
        }
        Err(error) => {
            ensure!(error.to_string().contains("Unknown device type"), "{error}");
            ensure!(!has_vrf_module()?, "this kernel has VRFs, but: {error}");
            println!("this kernel has no VRFs");
        }
    }
    let ways = |net: &Net| -> Result<Vec<String>> {
        refused.iter().map(|(to, _)| net.way(to, PORT)).collect()
    };
    let before = ways(&net)?;
    let wide = "[[path]]\nname = 'wide'\nremote = '10.88.0.0/13'\nreorder = 19\n[[path]]\nname = 'port'\nremote = '10.90.0.0/24'\n\
                remote_port = [7001, '7003-7005']\nreorder = 9\n[[path]]\nname = 'plain'\n\
                remote = '10.90.0.0/24'\nlocal_port = 7002\n";
    let home = Home::create(&program()?, &format!("{LIMITS}{ROUTES}{wide}"))?;
    let agent = home.start_inside(a, stand.cgroup())?;
    ensure!(ways(&net)? == before, "{:?}", ways(&net)?);
    ensure!(net.way(FAR, PORT)?.contains("reordering 19"), "{}", net.way(FAR, PORT)?);
    for (port, reordering) in [(7001, 9), (7002, 19), (7003, 9), (7005, 9), (7006, 19)] {
        let way = net.way(FAR, port)?;
        ensure!(way.contains(&format!("reordering {reordering}")), "{port}: {way}");
    }
    ensure!(a.ip(&["rule"])?.contains("dport 7003-7005 lookup"), "{}", a.ip(&["rule"])?);
    ensure!(a.ip(&["rule"])?.contains("sport 7002 goto 32766"), "{}", a.ip(&["rule"])?);

    let port = home.metrics_port();
    let metrics = a.run(|| Metrics::read(port))??;
    ensure!(metrics.value("wad_routes_refused", &[])? == refused.len() as f64);
    ensure!(metrics.value("wad_routes", &[])? == 2.0, "{}", metrics.text());
    let explained = home.command("explain").arg("10.91.0.1").output()?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    for (to, reason) in &refused {
        let known = explained.contains(reason) && home.log().contains(reason);
        ensure!(known, "{to}: {explained}{}", home.log());
    }

    // A disabled path's connections fall under no other's metrics.
    ensure!(home.command("disable").arg("port").output()?.status.success());
    let look = || net.way(FAR, 7001);
    until("its routes are as they were", SOON, look, |way| !way.contains("reordering"))?;
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn two_agents_do_not_share_them() -> Result<()> {
    let stand = Stand::set_up("two")?;
    let net = Net::start()?;
    let first = Home::create(&program()?, &policy(ROUTES))?;
    let agent = first.start_inside(net.a(), stand.cgroup())?;
    let during = net.routing()?;
    let second = Home::create(&program()?, &policy(ROUTES))?;
    second.start_inside(net.a(), stand.cgroup())?.stop()?;
    ensure!(second.log().contains("rules of a wad"), "{}", second.log());
    ensure!(net.routing()? == during, "{}", net.routing()?);
    agent.stop()?;
    Ok(())
}

/// Whoever accepts a connection has the metrics of the routes as well.
#[e2e(long, beside)]
fn accepted_connections_have_them() -> Result<()> {
    let stand = Stand::set_up("accepted")?;
    let net = Net::start()?;
    let home = Home::create(&program()?, &policy(ROUTES))?;
    let agent = home.start_inside(net.a(), stand.cgroup())?;
    let on = at(NEAR, PORT);
    let listener = tcp::listen(net.a(), on)?;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let near = tcp::connect_from(net.b(), at(FAR, 0), on)?;
        let connection = Connection::accepted(&listener, near)?;
        connection.exchange(100_000)?;
        seen.push(connection.far_flow(net.a())?.reordering_segments);
    }
    ensure!(seen == [None, Some(19)], "{seen:?}");
    agent.stop()?;
    Ok(())
}
