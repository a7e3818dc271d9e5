//! A reload changes all that there is to change under a thousand connections: a dry run
//! has said it, ss sees it, and no connection is disturbed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    free,
    netns::Netns,
    process::run,
    ss::{self, Flow},
    stand::{Stand, until},
    tcp::{self, Connection, at},
    tls::Authority,
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Agent, Home, program},
};

use crate::said::json;

const SOON: Duration = Duration::from_secs(60);
const LISTED: &str = "10.81.0.3";
/// Connections of each path.
const EACH: usize = 200;
/// Bytes that each connection carries each way, round by round.
const ROUND_BYTES: usize = 5_000;

/// A path that has connections: where these go, and what they have, before and after.
struct Group {
    name: &'static str,
    to: SocketAddr,
    before: Given,
    after: Given,
}

/// A send buffer, as SO_SNDBUF, and the name that a congestion control begins with; None
/// for what an untuned connection has.
#[derive(Clone, Copy)]
struct Given {
    sndbuf_bytes: Option<u64>,
    congestion: &'static str,
}

const fn given(sndbuf_bytes: u64, congestion: &'static str) -> Given {
    Given { sndbuf_bytes: Some(sndbuf_bytes), congestion }
}

const UNTUNED: Given = Given { sndbuf_bytes: None, congestion: "cubic" };

fn groups() -> [Group; 5] {
    let v4 = ADDRESSES_V4[1];
    let group = |name, to, before, after| Group { name, to, before, after };
    [
        group("law", at(v4, 7001), given(201_000, "wad_aimd"), given(301_000, "wad_highspeed")),
        group("plain", at(v4, 7002), given(202_000, "cubic"), given(302_000, "reno")),
        group("gone", at(v4, 7003), given(203_000, "wad_aimd"), UNTUNED),
        group(
            "six",
            at(ADDRESSES_V6[1], 7004),
            given(204_000, "wad_aimd"),
            given(204_000, "wad_aimd"),
        ),
        group("listed", at(LISTED, 7005), given(205_000, "cubic"), given(305_000, "cubic")),
    ]
}

/// The path that comes, which has no connection before.
const NEW_PORT: u16 = 7006;
const NEW: Given = given(306_000, "wad_aimd");

fn path(name: &str, keys: &str) -> String {
    format!("[[path]]\nname = '{name}'\n{keys}\n")
}

fn to(port: u16, keys: &str) -> String {
    format!("remote = '{}'\nremote_port = {port}\n{keys}", ADDRESSES_V4[1])
}

fn named(table: &str, name: &str, keys: &str) -> String {
    format!("[[{table}]]\nname = '{name}'\n{keys}\n")
}

/// A test vector of bcrypt's authors.
const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

/// Two configurations that differ in each section.
struct Files<'h> {
    home: &'h Home,
    authority: Authority,
    /// Addresses of the metrics and the API, before and after.
    listen: [[SocketAddr; 2]; 2],
}

impl Files<'_> {
    fn file(&self, name: &str) -> String {
        self.home.folder().join(name).display().to_string()
    }

    fn head(&self, index: usize, agent: &str, metrics: &str, api: &str) -> String {
        let [metrics_at, api_at] = self.listen[index];
        let state = self.file("state");
        format!(
            "[agent]\nstate_dir = '{state}'\n{agent}\n[metrics]\nlisten = '{metrics_at}'\n{metrics}\n\
             [api]\nlisten = '{api_at}'\n{api}\n"
        )
    }

    fn before(&self) -> String {
        [
            self.head(0, "", "max_paths = 100", ""),
            "[limits]\nmax_memory = '1GiB'\nmax_buffer = '512MiB'\nchange_interval = '30s'\n\
             [log]\nformat = 'text'\nlevel = 'info'\n[host]\nnetdev_max_backlog = 4321\n\
             transmit_queue_length = { lo = 1100 }\n\
             [defaults]\nsndbuf = '202000'\ncongestion = 'cubic'\n"
                .to_owned(),
            named("source", "flows", "kind = 'passive'"),
            named("set", "list", &format!("file = '{}'\nevery = '1s'", self.file("one.txt"))),
            named("sink", "goes", "kind = 'stdout'"),
            named("sink", "moves", &format!("kind = 'file'\npath = '{}'", self.file("sink-1"))),
            named("trace", "goes", &format!("file = '{}'\ninterval = '1s'", self.file("trace-1"))),
            named("trace", "moves", &format!("file = '{}'\ninterval = '1s'", self.file("trace-2"))),
            named("derived", "Sent", "value = 'HCDataOctetsOut'\nunit = 'B'"),
            path("law", &to(7001, "sndbuf = '201000'\ncongestion = 'wad_aimd'")),
            path("plain", &to(7002, "")),
            path("gone", &to(7003, "sndbuf = '203000'\ncongestion = 'wad_aimd'")),
            path("six", "remote = 'fd81::/32'\nsndbuf = '204000'\ncongestion = 'wad_aimd'"),
            path("listed", "remote_set = 'list'\nsndbuf = '205000'"),
            path("measured", "remote = '192.0.2.0/24'\nmode = 'measured'\nsndbuf = 'auto'"),
        ]
        .concat()
    }

    fn after(&self) -> String {
        let [certificate, key] = self.authority.identity();
        let metrics = format!(
            "max_paths = 200\ncertificate = '{}'\ncertificate_key = '{}'\nusers = {{ a = '{HASH}' }}",
            certificate.display(),
            key.display()
        );
        [
            self.head(1, "on_exit = 'keep'", &metrics, "group = 0"),
            "[limits]\nmax_memory = '2GiB'\nmax_buffer = '256MiB'\nchange_interval = '40s'\n\
             [learn]\n[otlp]\nurl = 'http://127.0.0.1:9'\n\
             [log]\nformat = 'json'\nlevel = 'debug'\n[host]\nnetdev_max_backlog = 5432\n\
             transmit_queue_length = { lo = 1200 }\nroutes = true\n\
             [defaults]\nsndbuf = '302000'\ncongestion = 'reno'\n"
                .to_owned(),
            named("source", "passive", "kind = 'passive'"),
            named("set", "list", &format!("file = '{}'\nevery = '2s'", self.file("two.txt"))),
            named("sink", "moves", &format!("kind = 'file'\npath = '{}'", self.file("sink-2"))),
            named("sink", "comes", &format!("kind = 'file'\npath = '{}'", self.file("sink-3"))),
            named("trace", "moves", &format!("file = '{}'\ninterval = '2s'", self.file("trace-3"))),
            named("trace", "comes", &format!("file = '{}'\ninterval = '1s'", self.file("trace-4"))),
            named("derived", "Sent", "value = 'HCDataOctetsOut / 1000'\nunit = 'kB'"),
            path("six", "remote = 'fd81::/32'\nsndbuf = '204000'\ncongestion = 'wad_aimd'"),
            path(
                "law",
                &to(7001, "sndbuf = '301000'\ncongestion = 'wad_highspeed'\nallow = 'aggressive'"),
            ),
            path("plain", &to(7002, "")),
            path(
                "listed",
                "remote_set = 'list'\nsndbuf = '305000'\ncongestion = 'cubic'\nreorder = 50",
            ),
            path("measured", "remote = '192.0.2.0/24'\nmode = 'observe'"),
            path("new", &to(NEW_PORT, "sndbuf = '306000'\ncongestion = 'wad_aimd'\nreorder = 40")),
        ]
        .concat()
    }
}

const SETTINGS: [&str; 18] = [
    "agent.on_exit",
    "metrics.listen",
    "metrics.max_paths",
    "metrics.certificate",
    "metrics.users",
    "api.listen",
    "api.group",
    "limits.max_memory",
    "limits.max_buffer",
    "limits.change_interval",
    "learn",
    "log.format",
    "log.level",
    "otlp",
    "host",
    "source",
    "set",
    "derived",
];

/// Files that the sinks and traces of the first configuration write.
const FIRST: [&str; 3] = ["sink-1", "trace-1", "trace-2"];
/// Files that those write which come or change.
const FILES: [&str; 4] = ["sink-2", "sink-3", "trace-3", "trace-4"];

/// All of the host that an agent may change, as it is seen from outside.
#[derive(Debug)]
struct Seen {
    /// Settings of the kernel, by name.
    sysctls: BTreeMap<String, String>,
    /// Packets in the transmit queue of the loopback device.
    queue: String,
    /// Rules for the metrics of routes.
    rules: usize,
    /// The names of pins.
    pins: BTreeSet<String>,
    /// Addresses that the agent answers at.
    addresses: BTreeSet<SocketAddr>,
    /// The names of files beside the configuration.
    files: BTreeSet<String>,
    has_readers: bool,
}

impl Seen {
    fn look(home: &Home, agent: &Agent<'_>) -> Result<Self> {
        let mut sysctls = BTreeMap::new();
        for folder in ["net/core", "net/ipv4"] {
            for entry in fs::read_dir(Path::new("/proc/sys").join(folder))? {
                let entry = entry?;
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if let Ok(value) = fs::read_to_string(entry.path()) {
                    sysctls.insert(name.replace('/', "."), value.trim().to_owned());
                }
            }
        }
        let own = format!("pid={},", agent.id());
        let listening = run("ss", &["-ltnpH"])?;
        let listening = listening.lines().filter(|line| line.contains(&own));
        let address = |line: &str| line.split_whitespace().nth(3)?.parse().ok();
        let readers = Path::new("/run/wad").join(format!("{}.read.sock", home.instance()));
        let link = run("ip", &["-oneline", "link", "show", "lo"])?;
        let mut words = link.split_whitespace().skip_while(|word| *word != "qlen");
        let queue = words.nth(1).context("no queue")?.trim_end_matches('\\').to_owned();
        Ok(Self {
            sysctls,
            queue,
            rules: rules()?,
            pins: pins(&home.pins())?,
            addresses: listening.filter_map(address).collect(),
            files: names(home.folder())?,
            has_readers: readers.exists(),
        })
    }
}

/// Returns how many rules for the metrics of routes there are.
fn rules() -> Result<usize> {
    let all = run("ip", &["-d", "rule"])? + &run("ip", &["-d", "-6", "rule"])?;
    Ok(all.matches("proto 119").count())
}

/// Returns the names of what is in a folder.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs::read_dir(folder)?.map(name).collect()
}

/// Returns the names of an instance's pins, which are in a folder by their layout; without
/// those of the policies in force, which have one of two at each reload.
fn pins(folder: &Path) -> Result<BTreeSet<String>> {
    let layouts = names(folder)?.into_iter().map(|layout| names(&folder.join(layout)));
    let names = layouts.collect::<Result<Vec<_>>>()?.into_iter().flatten();
    Ok(names.filter(|name| !name.starts_with("policies_")).collect())
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn open(wire: &Wire, to: SocketAddr, count: usize) -> Result<Vec<Connection>> {
    let listener = tcp::listen(wire.b(), to)?;
    let open = |_| Ok(Connection::accepted(&listener, tcp::connect(wire.a(), to)?)?);
    (0..count).map(open).collect()
}

/// Carries bytes both ways on all connections, round by round, until told to stop; no byte
/// may be wrong.
fn carry(connections: &[Connection], stop: &AtomicBool, rounds: &AtomicUsize) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        for Connection { near, far } in connections {
            tcp::send(near, ROUND_BYTES, 1)?;
            tcp::send(far, ROUND_BYTES, 2)?;
            tcp::receive(far, ROUND_BYTES, 1)?;
            tcp::receive(near, ROUND_BYTES, 2)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn await_rounds(rounds: &AtomicUsize, more: usize) -> Result<()> {
    let count = || Ok::<_, anyhow::Error>(rounds.load(Ordering::Relaxed));
    let before = count()?;
    until("all connections carry bytes", SOON, count, |now| *now >= before + more).map(|_| ())
}

/// Returns the near ends of a group, as ss shows them.
fn flows(netns: &Netns, to: SocketAddr) -> Result<Vec<Flow>> {
    let flows = netns.run(|| ss::flows(&format!("dport = :{}", to.port())))??;
    Ok(flows)
}

fn have(flows: &[Flow], given: Given) -> bool {
    let is_given = |flow: &Flow| {
        flow.congestion.starts_with(given.congestion)
            && given.sndbuf_bytes.is_none_or(|bytes| flow.sndbuf_bytes == 2 * bytes)
    };
    flows.iter().all(is_given)
}

/// Holds what a dry run said of the host against what has changed on it.
fn compare(told: &Value, (before, after): (&Seen, &Seen), files: &Files<'_>) -> Result<()> {
    const NAMES_OF_LAWS: &str = "net.ipv4.tcp_available_congestion_control";

    let of_laws = texts(&told["host"]["congestion_controls"]);
    ensure!(of_laws.len() == 1 && of_laws.iter().all(|law| law.starts_with("wad_highs")), "{told}");
    let new_pins: BTreeSet<&str> = after.pins.difference(&before.pins).map(|s| &**s).collect();
    ensure!(new_pins == of_laws && before.pins.is_subset(&after.pins), "{new_pins:?}: {told}");

    let moves = told["host"]["sysctls"].as_array().context("no settings")?;
    let mut expected = before.sysctls.clone();
    for moved in moves {
        let text = |key: &str| moved[key].as_str().map(str::to_owned).context("no text");
        let was = expected.insert(text("name")?, text("after")?);
        ensure!(was == Some(text("before")?), "{moved}: {was:?}");
    }
    let registered = expected.get_mut(NAMES_OF_LAWS).context("no congestion controls")?;
    let mut known: BTreeSet<&str> = registered.split(' ').collect();
    known.extend(&of_laws);
    let now: BTreeSet<&str> = after.sysctls[NAMES_OF_LAWS].split(' ').collect();
    ensure!(known == now, "{known:?} {now:?}");
    expected.insert(NAMES_OF_LAWS.to_owned(), after.sysctls[NAMES_OF_LAWS].clone());
    let differing = |(name, value): (&String, &String)| {
        let now = after.sysctls.get(name);
        (now != Some(value)).then(|| format!("{name}: {value:?} was told, {now:?} is seen"))
    };
    let differing: Vec<_> = expected.iter().filter_map(differing).collect();
    ensure!(differing.is_empty() && moves.len() >= 2, "{differing:?}: {told}");
    ensure!(told["host"]["modules"] == json!([]), "{told}");
    let queues = json!([{ "name": "lo", "before": before.queue, "after": after.queue }]);
    ensure!(told["host"]["transmit_queues"] == queues && after.queue == "1200", "{told}");
    let rules = &told["host"]["rules"];
    let of = |seen: &Seen| seen.rules.to_string();
    ensure!(rules["before"] == of(before) && rules["after"] == of(after), "{after:?}: {told}");
    ensure!(before.rules == 0 && after.rules > 0, "{rules}");

    ensure!(before.addresses == files.listen[0].into(), "{before:?}");
    ensure!(after.addresses == files.listen[1].into(), "{after:?}");
    ensure!(!before.has_readers && after.has_readers);
    // Each is of a sink or trace that was told to come or to change.
    let new: BTreeSet<&str> = after.files.difference(&before.files).map(|s| &**s).collect();
    ensure!(new == FILES.into(), "{new:?}");
    Ok(())
}

#[e2e(long, alone)]
fn a_reload_of_everything_disturbs_none_of_a_thousand_flows_and_was_foretold() -> Result<()> {
    let stand = Stand::set_up("reload-all")?;
    let wire = Wire::start()?;
    wire.add_to_b(LISTED)?;
    let home = Home::create(&program()?, "")?;
    let free = || Ok::<_, anyhow::Error>(free::address()?);
    let authority = Authority::create()?;
    let files = Files { home: &home, authority, listen: [[free()?, free()?], [free()?, free()?]] };
    for name in ["one.txt", "two.txt"] {
        fs::write(home.folder().join(name), format!("{LISTED}\n192.0.2.{}\n", name.len()))?;
    }
    fs::write(home.config(), files.before())?;
    // A watch on the file's folder does not see what is written by another name.
    let elsewhere = tempfile::tempdir()?;
    let same = elsewhere.path().join("same");
    fs::hard_link(home.config(), &same)?;
    let agent = home.start(stand.cgroup())?;
    let is_read = || {
        let status = json(&mut home.command("status"))?;
        Ok::<_, anyhow::Error>(status["sets"][0]["prefixes"] == 2)
    };
    until("the list is read", SOON, is_read, |is_read| *is_read)?;

    let groups = groups();
    let mut connections = Vec::new();
    for group in &groups {
        connections.extend(open(&wire, group.to, EACH)?);
    }
    for group in &groups {
        let flows = flows(wire.a(), group.to)?;
        ensure!(flows.len() == EACH && have(&flows, group.before), "{}: {flows:?}", group.name);
    }
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| -> Result<()> {
        let carrying = scope.spawn(|| carry(&connections, &stop, &rounds));
        let looked = (|| -> Result<()> {
            await_rounds(&rounds, 1)?;
            // They begin their files with the first line.
            let has = |names: &BTreeSet<String>| FIRST.iter().all(|name| names.contains(*name));
            until("sinks and traces have begun", SOON, || names(home.folder()), has)?;
            let other = home.folder().join("other.toml");
            fs::write(&other, files.after())?;
            let before = Seen::look(&home, &agent)?;
            let told = json(home.command("reload").arg("--dry-run").arg("--config").arg(&other))?;
            ensure!(told["result"] == "would_apply", "{told}");
            ensure!(texts(&told["settings"]) == SETTINGS.into(), "{told}");
            let changed = BTreeSet::from(["law", "plain", "listed", "measured"]);
            ensure!(texts(&told["changed"]) == changed && told["unchanged"] == 1, "{told}");
            ensure!(told["added"] == json!(["new"]) && told["removed"] == json!(["gone"]));
            let parts = json!({ "added": ["comes"], "changed": ["moves"], "removed": ["goes"] });
            ensure!(told["sinks"] == parts && told["traces"] == parts && told["reordered"] == true);
            let observed = json!([{ "name": "congestion", "before": "cubic", "after": null }]);
            let of_paths = told["flows"].as_array().context("no flows")?;
            let own = of_paths.iter().find(|it| it["path"] == "measured").context("not told")?;
            ensure!(own["settings"] == observed, "it gets nothing any more: {own}");
            // It changed nothing.
            let same_as_before = Seen::look(&home, &agent)?;
            ensure!(format!("{before:?}") == format!("{same_as_before:?}"), "{same_as_before:?}");

            fs::write(&same, files.after())?;
            home.keep_on_exit(true);
            let done = json(&mut home.command("reload"))?;
            ensure!(done["result"] == "applied", "{done}");
            for part in [
                "added",
                "changed",
                "removed",
                "unchanged",
                "reordered",
                "settings",
                "sinks",
                "traces",
            ] {
                ensure!(told[part] == done[part], "{part}: {told} {done}");
            }
            for Group { name, to, after, .. } in &groups {
                let look = || flows(wire.a(), *to);
                let flows = until("flows follow", SOON, look, |flows| have(flows, *after))?;
                ensure!(flows.len() == EACH, "{name}: {} flows are left", flows.len());
                foretold(&told, name, &flows)?;
            }
            await_rounds(&rounds, 2)?;
            // New connections are of the new file.
            for Group { to, after, before, .. } in &groups {
                let connection = open(&wire, *to, 1)?.remove(0);
                let flow = connection.near_flow(wire.a())?;
                ensure!(have(std::slice::from_ref(&flow), *after), "{flow:?}");
                let is_old = Some(flow.sndbuf_bytes) == before.sndbuf_bytes.map(|bytes| 2 * bytes);
                ensure!(after.sndbuf_bytes.is_some() || !is_old, "{flow:?}");
            }
            let new = open(&wire, at(ADDRESSES_V4[1], NEW_PORT), 1)?.remove(0);
            let flow = new.near_flow(wire.a())?;
            ensure!(have(std::slice::from_ref(&flow), NEW), "{flow:?}");
            drop(new);
            // Sinks and traces have had the time to write.
            let has = |names: &BTreeSet<String>| FILES.iter().all(|name| names.contains(*name));
            until("files of sinks and traces", SOON, || names(home.folder()), has)?;
            until("rules of routes", SOON, rules, |rules| *rules > 0)?;
            compare(&told, (&before, &Seen::look(&home, &agent)?), &files)?;
            await_rounds(&rounds, 1)
        })();
        stop.store(true, Ordering::Relaxed);
        let carried = carrying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        looked.and(carried)
    })?;
    println!("{} rounds", rounds.load(Ordering::Relaxed));
    for group in &groups {
        ensure!(flows(wire.a(), group.to)?.len() == EACH, "{}", group.name);
    }
    drop(connections);
    agent.stop()?;
    Ok(())
}

/// Holds what a dry run said of the flows of a path against what ss shows of each.
fn foretold(told: &Value, path: &str, flows: &[Flow]) -> Result<()> {
    let of_paths = told["flows"].as_array().context("no flows")?;
    let Some(own) = of_paths.iter().find(|it| it["path"] == path) else {
        ensure!(["gone", "six"].contains(&path), "{path} was not told: {told}");
        return Ok(());
    };
    let settings = own["settings"].as_array().context("no settings")?;
    for setting in settings {
        let after = &setting["after"];
        let is_so = |flow: &Flow| match setting["name"].as_str() {
            Some("sndbuf_bytes") => after.as_u64() == Some(flow.sndbuf_bytes / 2),
            Some("congestion") => after.as_str() == Some(&flow.congestion),
            _ => true,
        };
        ensure!(flows.iter().all(is_so), "{path}: {setting}");
    }
    let names: BTreeSet<&str> = settings.iter().filter_map(|it| it["name"].as_str()).collect();
    ensure!(names.contains("sndbuf_bytes"), "{path}: {names:?}");
    ensure!(names.contains("congestion") == ["law", "plain"].contains(&path), "{path}: {names:?}");
    Ok(())
}
