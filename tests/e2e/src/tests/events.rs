//! Events of flows are held against what `ss` shows; these tests also see that sinks
//! get them in their order and whole, whatever becomes of sinks, the agent and its
//! disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    archive::{Archive, Taken},
    free,
    mutex::locked,
    process::run,
    signal,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(20);
/// The spool pauses for this long at most between two attempts.
const BACK: Duration = Duration::from_secs(60);

fn path(name: &str, port: u16, keys: &str) -> String {
    let remote = [ADDRESSES_V4[1], ADDRESSES_V6[1]];
    format!("[[path]]\nname = '{name}'\nremote = {remote:?}\nremote_port = {port}\n{keys}\n")
}

fn file_sink(file: &Path) -> String {
    format!("[[sink]]\nname = 'file'\nkind = 'file'\npath = '{}'\n", file.display())
}

fn http_sink(name: &str, address: SocketAddr) -> String {
    format!("[[sink]]\nname = '{name}'\nkind = 'http'\nurl = 'http://{address}/wad'\n")
}

/// Returns the lines of a text that are events.
fn events_in(text: &str) -> Result<Vec<Value>> {
    let lines = text.lines().filter(|line| line.starts_with("{\"schema\":"));
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Waits for the events of a file, once there are so many of one connection.
fn await_events(file: &Path, port: u16, count: usize) -> Result<Vec<Value>> {
    let look = || -> Result<Vec<Value>> {
        let text = fs::read_to_string(file).unwrap_or_default();
        Ok(of_port(events_in(&text)?, port))
    };
    until("the events are told", SOON, look, |events| events.len() >= count)
}

/// Returns the events of the connection that has this port here.
fn of_port(events: Vec<Value>, port: u16) -> Vec<Value> {
    events.into_iter().filter(|event| event["src_port"] == port).collect()
}

/// Names, and why.
fn names(events: &[Value]) -> Vec<String> {
    let name = |event: &Value| {
        let name = event["event"].as_str().unwrap_or("?");
        match event["values"]["why"].as_str() {
            Some(why) => format!("{name}: {why}"),
            None => name.to_owned(),
        }
    };
    events.iter().map(name).collect()
}

fn port_of(connection: &Connection) -> Result<u16> {
    Ok(connection.near.local_addr()?.port())
}

#[e2e(long, beside)]
fn a_flow_is_told_of_from_its_beginning_to_its_end() -> Result<()> {
    let stand = Stand::set_up("events")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("events.jsonl");
    let policy = |keys: &str| {
        file_sink(&file) + &path("tuned", PORT, keys) + &path("few", PORT + 1, "max_flows = 1")
    };
    let keys = "sndbuf = 300000\nrcvbuf = 400000\ncongestion = 'wad_aimd'\n";
    let running = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let home = Home::create(&program()?, &policy(keys))?;
    let agent = home.start(stand.cgroup())?;

    // One of each family, against ss.
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        let connection = Connection::open(wire.a(), wire.b(), at(address, PORT))?;
        let port = port_of(&connection)?;
        let events = await_events(&file, port, 2)?;
        ensure!(names(&events) == ["open", "tuned"], "{events:?}");
        let flow = connection.near_flow(wire.a())?;
        let tuned = &events[1];
        let after = &tuned["values"]["after"];
        ensure!(after["sndbuf_bytes"] == flow.sndbuf_bytes, "{tuned} {flow:?}");
        ensure!(after["rcvbuf_bytes"] == flow.rcvbuf_bytes, "{tuned} {flow:?}");
        ensure!(after["congestion"] == flow.congestion, "{tuned} {flow:?}");
        ensure!(after["cwnd_segments"] == flow.cwnd_segments, "{tuned} {flow:?}");
        ensure!(tuned["values"]["before"]["congestion"] == "cubic", "{tuned}");
        ensure!(tuned["dst_host"] == address && tuned["dst_port"] == PORT, "{tuned}");
        ensure!(tuned["src_host"] == flow.local.ip().to_string(), "{tuned}");
        ensure!(tuned["path"] == "tuned" && tuned["prog"] == "wad", "{tuned}");
        let filter = format!("sport = :{port}");
        let shown = wire.a().run(|| run("ss", &["-tneHO", &filter]))??;
        let cookie = tuned["cookie"].as_u64().context("no cookie")?;
        ensure!(shown.contains(&format!(" sk:{cookie:x} ")), "{cookie:x}: {shown}");

        connection.exchange(1_000_000)?;
        let look = || -> Result<_> { Ok(connection.near_flow(wire.a())?) };
        let flow = until("all is acknowledged", SOON, look, |flow| flow.unacked_segments == 0)?;
        drop(connection);
        let events = await_events(&file, port, 3)?;
        let closed = &events[2]["values"];
        ensure!(events[2]["event"] == "closed", "{events:?}");
        // The kernel counts a FIN.
        let sent = closed["sent_bytes"].as_u64().context("no bytes")?;
        ensure!((flow.bytes_acked..=flow.bytes_acked + 1).contains(&sent), "{closed} {flow:?}");
        let received = closed["received_bytes"].as_u64().context("no bytes")?;
        let most = flow.bytes_received + 1;
        ensure!((flow.bytes_received..=most).contains(&received), "{closed} {flow:?}");
        ensure!(closed["mss_bytes"] == flow.mss_bytes, "{closed} {flow:?}");
        ensure!(closed["cwnd_segments"] == flow.cwnd_segments, "{closed} {flow:?}");
        ensure!(closed["ssthresh_segments"].as_u64().is_none(), "{closed} {flow:?}");
        ensure!(closed["seconds"].as_f64().is_some_and(|time| time > 0.0), "{closed}");
    }

    // The one that was there before, by what becomes of its path.
    let port = port_of(&running)?;
    let expected = ["open", "retuned: adopted", "retuned: policy", "retuned: policy", "left"];
    ensure!(names(&await_events(&file, port, 2)?) == expected[..2]);
    let larger = keys.replace("300000", "350000");
    home.reload(&policy(&larger))?;
    let events = await_events(&file, port, 3)?;
    ensure!(names(&events) == expected[..3], "{events:?}");
    let after = &events[2]["values"]["after"];
    ensure!(after["sndbuf_bytes"] == running.near_flow(wire.a())?.sndbuf_bytes, "{after}");
    // Of others' changes it does not tell, but of those of its law.
    home.reload(&(policy(&larger) + &path("new", PORT + 2, "")))?;
    home.reload(&policy(&format!("{larger}decrease = 0.4\nadditive_increase = 0.75\n")))?;
    let events = await_events(&file, port, 4)?;
    ensure!(names(&events) == expected[..4], "{events:?}");
    let sets = events[1..].iter().map(|event| event["values"]["policy_set"].as_u64());
    ensure!(sets.eq([Some(1), Some(2), Some(4)]), "{events:?}");
    home.reload(&(file_sink(&file) + &path("few", PORT + 1, "max_flows = 1")))?;
    let events = await_events(&file, port, 5)?;
    ensure!(names(&events) == expected && events[4]["path"] == "tuned", "{events:?}");

    let to = at(ADDRESSES_V4[1], PORT + 1);
    let _first = Connection::open(wire.a(), wire.b(), to)?;
    let second = Connection::open(wire.a(), wire.b(), to)?;
    let events = await_events(&file, port_of(&second)?, 2)?;
    ensure!(names(&events) == ["open", "limited: max_flows"], "{events:?}");
    ensure!(events[1]["level"] == "Warn", "{events:?}");

    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_events_total", &["event=\"retuned\""])? == 3.0);
    ensure!(metrics.value("wad_events_total", &["event=\"left\""])? == 1.0);
    let all = events_in(&fs::read_to_string(&file)?)?.len() as f64;
    ensure!(metrics.value("wad_sink_sent_total", &["sink=\"file\""])? == all, "{all}");
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn flows_whose_buffers_are_divided_anew_are_retuned() -> Result<()> {
    let stand = Stand::set_up("divided")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("events.jsonl");
    let keys = "sndbuf = 800000\nrcvbuf = 800000\ndivide = true\ncongestion = 'reno'\n";
    let home = Home::create(&program()?, &(file_sink(&file) + &path("both", PORT, keys)))?;
    let agent = home.start(stand.cgroup())?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let open = || -> Result<TcpStream> {
        let near = tcp::connect(wire.a(), at(ADDRESSES_V4[1], PORT))?;
        listener.accept()?;
        Ok(near)
    };
    let first = open()?;
    let port = first.local_addr()?.port();
    ensure!(names(&await_events(&file, port, 2)?) == ["open", "tuned"]);
    let second = open()?;
    let events = await_events(&file, port, 3)?;
    ensure!(names(&events[2..]) == ["retuned: divided"], "{events:?}");
    ensure!(events[2]["values"]["after"]["sndbuf_bytes"] == 800_000, "{events:?}");
    drop((first, second));
    agent.stop()?;
    Ok(())
}

/// A batch that is refused for good is given up after so many times.
const REFUSALS: usize = 10;

/// Everything goes to all kinds of sinks that are there, and back when one was away; what
/// one refuses for good is set aside.
#[e2e(long, beside)]
fn every_kind_of_sink_gets_the_same() -> Result<()> {
    let stand = Stand::set_up("kinds")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    let at_path = |name: &str| folder.path().join(name);
    let daemon = |kind: &str| {
        let path = at_path(kind);
        format!("[[sink]]\nname = '{kind}'\nkind = '{kind}'\npath = '{}'\n", path.display())
    };
    let taken = Taken::default();
    let address = free::address()?;
    let _archive = Archive::open(address, &taken, 1)?;
    let (by_strict, strict) = (Taken::default(), free::address()?);
    let _strict = Archive::strict(strict, &by_strict, REFUSALS)?;
    let syslog = UnixDatagram::bind(at_path("syslog"))?;
    syslog.set_read_timeout(Some(BACK))?;
    let policy = file_sink(&at_path("events.jsonl"))
        + "[[sink]]\nname = 'stdout'\nkind = 'stdout'\n"
        + &daemon("syslog")
        + &daemon("journald")
        + &http_sink("archive", address)
        + &http_sink("strict", strict)
        + &path("all", PORT, "sndbuf = 300000");
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    for _ in 0..20 {
        Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    }
    // journald was away until now.
    let behind = || -> Result<bool> {
        let output = home.command("status").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).contains("behind   sink journald: "))
    };
    until("wad status shows it", SOON, behind, |behind| *behind)?;
    let journald = UnixDatagram::bind(at_path("journald"))?;
    journald.set_read_timeout(Some(BACK))?;

    const ALL: usize = 20 * 3;
    let look = || -> Result<usize> {
        let metrics = home.metrics()?;
        let sent = |kind| metrics.value("wad_sink_sent_total", &[&format!("sink=\"{kind}\"")]);
        Ok((sent("file")? + sent("stdout")? + sent("archive")?) as usize)
    };
    until("those that are there have all", SOON, look, |sent| *sent == 3 * ALL)?;
    let expected = events_in(&fs::read_to_string(at_path("events.jsonl"))?)?;
    ensure!(expected.len() == ALL, "{}", expected.len());
    for (socket, begins) in
        [(syslog, "<30>wad["), (journald, "PRIORITY=6\nSYSLOG_IDENTIFIER=wad\n")]
    {
        let mut events = Vec::<Value>::new();
        let mut buffer = [0; 8192];
        while events.len() < ALL {
            let bytes = socket.recv(&mut buffer)?;
            let text = std::str::from_utf8(&buffer[..bytes])?;
            ensure!(text.starts_with(begins), "{text}");
            let json = text.find("{\"schema\":").context("no event")?;
            events.push(serde_json::from_str(&text[json..])?);
        }
        ensure!(events == expected, "{begins}");
    }
    ensure!(events_in(&home.log())? == expected);
    ensure!(*locked(&taken) == expected);

    let strict =
        |name| -> Result<usize> { Ok(home.metrics()?.value(name, &["sink=\"strict\""])? as usize) };
    let look = || strict("wad_sink_sent_total");
    let refused = || strict("wad_sink_refused_total");
    until("the next are told", BACK, look, |sent| {
        refused().is_ok_and(|refused| refused > 0 && refused + sent == ALL)
    })?;
    let aside = format!("state/events-{}/strict.refused.jsonl", home.instance());
    let mut events = events_in(&fs::read_to_string(home.folder().join(aside))?)?;
    ensure!(events.len() == refused()?, "{} are set aside", events.len());
    events.extend(locked(&by_strict).iter().cloned());
    ensure!(events == expected, "{} of {ALL}, or in another order", events.len());
    agent.stop()?;
    Ok(())
}

/// Connects and closes one connection after the other; returns their ports here, in
/// this order.
fn connect_and_close(wire: &Wire, listener: &TcpListener, count: usize) -> Result<Vec<u16>> {
    let one = |_| -> Result<u16> {
        let near = tcp::connect(wire.a(), listener.local_addr()?)?;
        let (mut far, _) = listener.accept()?;
        let port = near.local_addr()?.port();
        drop(near);
        far.read_to_end(&mut Vec::new())?;
        Ok(port)
    };
    (0..count).map(one).collect()
}

/// Returns what was taken, each event once: where it comes again, its first is what
/// counts.
fn once(taken: &Taken) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let taken = locked(taken);
    taken.iter().filter(|event| seen.insert(event["id"].to_string())).cloned().collect()
}

/// Checks that each run of the agent numbers its events: they come in that order, and
/// those of a later run come later.
fn ensure_in_order(events: &[Value]) -> Result<()> {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = String::new();
    for event in events {
        let id = event["id"].as_str().context("no id")?;
        let (run, number) = id.split_once('-').context("no number")?;
        let number = number.parse()?;
        ensure!(run == current || !last.contains_key(run), "{id} comes after {current}");
        current = run.to_owned();
        let before = last.insert(run.to_owned(), number);
        ensure!(before.is_none_or(|before| before < number), "{id} after {before:?}");
    }
    Ok(())
}

fn spooled_bytes(home: &Home) -> Result<f64> {
    Ok(home.metrics()?.value("wad_sink_spooled_bytes", &["sink=\"archive\""])?)
}

/// Waits until what is spooled has not grown for a while: all is on the disk.
fn await_rest(home: &Home) -> Result<()> {
    let mut before = -1.0;
    let look = || -> Result<bool> {
        let now = spooled_bytes(home)?;
        signal::sleep(Duration::from_millis(400))?;
        Ok(std::mem::replace(&mut before, now) == now)
    };
    until("all is spooled", SOON, look, |rests| *rests)?;
    Ok(())
}

#[e2e(long, beside)]
fn an_archive_that_was_away_gets_all_in_order_and_so_it_does_after_a_kill() -> Result<()> {
    const FLOWS: usize = 100;
    let stand = Stand::set_up("away")?;
    let wire = Wire::start()?;
    let (taken, address) = (Taken::default(), free::address()?);
    let home = Home::create(
        &program()?,
        &(http_sink("archive", address) + &path("all", PORT, "sndbuf = 300000")),
    )?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let mut ports = Vec::new();

    let agent = home.start(stand.cgroup())?;
    ports.extend(connect_and_close(&wire, &listener, FLOWS)?);
    until("most are spooled", SOON, || spooled_bytes(&home), |bytes| *bytes > 100_000.0)?;
    await_rest(&home)?;
    agent.kill()?;
    // Nobody reads the kernel's events meanwhile: they are for the next agent.
    ports.extend(connect_and_close(&wire, &listener, FLOWS)?);
    let agent = home.start(stand.cgroup())?;
    ports.extend(connect_and_close(&wire, &listener, FLOWS)?);
    // It comes back, goes, refuses every other time, and is back.
    let come = |one_in, most: usize| -> Result<()> {
        let archive = Archive::open(address, &taken, one_in)?;
        let enough = || Ok::<_, anyhow::Error>(once(&taken).len());
        until("the archive gets events", BACK, enough, |count| *count >= most)?;
        drop(archive);
        Ok(())
    };
    come(1, 1)?;
    ports.extend(connect_and_close(&wire, &listener, FLOWS)?);
    await_rest(&home)?;
    let all = 4 * FLOWS * 3;
    come(2, all)?;

    let events = once(&taken);
    ensure!(events.len() == all, "{} of {all}", events.len());
    ensure_in_order(&events)?;
    let closed = events.iter().filter(|event| event["event"] == "closed");
    let closed: Vec<_> = closed.filter_map(|event| event["src_port"].as_u64()).collect();
    ensure!(closed == ports.iter().map(|port| u64::from(*port)).collect::<Vec<_>>());
    let metrics = home.metrics()?;
    for reason in ["queue", "spool", "disk", "damaged"] {
        let reason = format!("reason=\"{reason}\"");
        let labels = ["sink=\"archive\"", reason.as_str()];
        ensure!(metrics.value("wad_sink_lost_total", &labels)? == 0.0, "{reason}");
    }
    agent.stop()?;
    Ok(())
}

#[e2e(long, few)]
fn kills_at_full_rate_leave_whole_lines_in_their_order() -> Result<()> {
    const KILLS: usize = 3;
    /// The agent reads at most so many events at once: a tenth of a second, at some
    /// thousands a second.
    const MOST_EACH: f64 = 1000.0;
    let stand = Stand::set_up("kills")?;
    let wire = Wire::start()?;
    let (taken, address) = (Taken::default(), free::address()?);
    let home = Home::create(
        &program()?,
        &(http_sink("archive", address) + &path("all", PORT, "sndbuf = 300000")),
    )?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // What came of it the kernel counts.
                let _ = connect_and_close(&wire, &listener, 10);
            }
        });
        let kills = || -> Result<()> {
            for _ in 0..KILLS {
                let agent = home.start(stand.cgroup())?;
                signal::sleep(Duration::from_millis(1500))?;
                agent.kill()?;
            }
            Ok(())
        };
        let killed = kills();
        over.store(true, Ordering::Relaxed);
        killed
    })?;
    let agent = home.start(stand.cgroup())?;
    let _archive = Archive::open(address, &taken, 1)?;
    let left = || spooled_bytes(&home);
    until("all is taken", BACK, left, |bytes| *bytes == 0.0)?;
    let events = once(&taken);
    ensure_in_order(&events)?;
    // All but what found the ring buffer full, and what was between that and the spool
    // at a kill.
    let metrics = home.metrics()?;
    let made = metrics.of_path("wad_flows_opened_total", "all")?
        + metrics.of_path("wad_flows_closed_total", "all")?;
    let full = metrics.value("wad_events_lost_total", &[])?;
    let told = events.iter().filter(|event| event["event"] == "open" || event["event"] == "closed");
    let told = told.count() as f64;
    let gone = made - full - told;
    println!("of {made} events {told} are told, {full} were too many, {gone} went with an agent");
    ensure!((0.0..=KILLS as f64 * MOST_EACH).contains(&gone), "{gone}");
    agent.stop()?;
    Ok(())
}

/// The agent runs in a mount namespace where its state has a small disk of its own.
#[e2e(long, beside)]
fn a_full_disk_costs_events_that_are_counted_and_nothing_else() -> Result<()> {
    const FLOWS: usize = 1200;
    let stand = Stand::set_up("full")?;
    let wire = Wire::start()?;
    let (taken, address) = (Taken::default(), free::address()?);
    let home = Home::create(
        &program()?,
        &(http_sink("archive", address) + &path("all", PORT, "sndbuf = 90000")),
    )?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let state = home.folder().join("state");
    fs::create_dir(&state)?;
    let mount = format!("mount -t tmpfs -o mode=700,size=256k none '{}'", state.display());
    let agent = home.start_in(&mount, stand.cgroup())?;
    connect_and_close(&wire, &listener, FLOWS)?;
    let disk = ["sink=\"archive\"", "reason=\"disk\""];
    let lost = || Ok::<_, anyhow::Error>(home.metrics()?.value("wad_sink_lost_total", &disk)?);
    until("what the disk did not take is counted", SOON, lost, |lost| *lost > 0.0)?;
    await_rest(&home)?;
    ensure_tuned(&wire)?;
    {
        let _archive = Archive::open(address, &taken, 1)?;
        ensure_accounted(&home, &taken)?;
    }

    // A disk that cannot be written at all any more.
    let pid = agent.id().to_string();
    let state = state.display().to_string();
    let remount = ["--target", &pid, "--mount", "mount", "-o", "remount,ro", &state];
    run("nsenter", &remount)?;
    connect_and_close(&wire, &listener, 50)?;
    until("they wait in memory", SOON, || spooled_bytes(&home), |bytes| *bytes > 50_000.0)?;
    ensure!(home.log().contains("wait in memory"), "{}", home.log());
    ensure_tuned(&wire)?;
    {
        let _archive = Archive::open(address, &taken, 1)?;
        ensure_accounted(&home, &taken)?;
    }
    drop(agent);
    Ok(())
}

fn ensure_tuned(wire: &Wire) -> Result<()> {
    let address = at(ADDRESSES_V6[1], PORT);
    let flow = Connection::open(wire.a(), wire.b(), address)?.near_flow(wire.a())?;
    ensure!(flow.sndbuf_bytes == 180_000, "{flow:?}");
    Ok(())
}

/// Checks that what was told comes to be taken, or is counted as lost.
fn ensure_accounted(home: &Home, taken: &Taken) -> Result<()> {
    let told_taken_lost = || -> Result<(f64, usize, f64)> {
        let metrics = home.metrics()?;
        let told = ["open", "tuned", "closed", "retuned", "limited", "left"]
            .iter()
            .map(|event| metrics.value("wad_events_total", &[&format!("event=\"{event}\"")]))
            .sum::<Result<_, _>>()?;
        let disk = ["sink=\"archive\"", "reason=\"disk\""];
        Ok((told, once(taken).len(), metrics.value("wad_sink_lost_total", &disk)?))
    };
    let is_complete = |(told, taken, lost): &(f64, usize, f64)| *taken as f64 + lost == *told;
    let (told, came, lost) = until("all is taken", BACK, told_taken_lost, is_complete)?;
    println!("{told} told, {came} taken, {lost} lost");
    ensure_in_order(&once(taken))
}
