//! Traces of the configuration are written by the agent: what they have is held against
//! ss, and they outlive reloads, vanished folders and full disks.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process,
    sending::while_sending,
    signal,
    stand::{Stand, until},
    tcp::{Connection, at, set_option},
    tracing::{rows, time},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(20);
const PATHS: &str = "[[path]]\nname = 'four'\nremote = '10.81.0.0/16'\nsndbuf = '1MiB'\n\
                     [[path]]\nname = 'six'\nremote = 'fd81::/32'\n\
                     [[path]]\nname = 'idle'\nremote = '192.0.2.0/24'\n";

fn trace(name: &str, file: &Path, keys: &str) -> String {
    format!("[[trace]]\nname = '{name}'\nfile = '{}'\n{keys}\n", file.display())
}

/// Opens a connection that is at work, but not with all that the processors have.
fn open(wire: &Wire, address: &str) -> Result<Connection> {
    let connection = Connection::open(wire.a(), wire.b(), at(address, PORT))?;
    set_option(&connection.near, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 5_000_000)?;
    Ok(connection)
}

/// Returns the rows of a file that is not there yet, or is.
fn rows_of(file: &Path) -> Result<Vec<Value>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(rows(&text)?),
        Err(_) => Ok(Vec::new()),
    }
}

fn await_rows(file: &Path, count: usize) -> Result<Vec<Value>> {
    until("rows of a trace", SOON, || rows_of(file), |rows| rows.len() >= count)
}

fn interval_ms(file: &Path) -> Result<Value> {
    // Between two files there is none for a moment.
    let text = fs::read_to_string(file).unwrap_or_else(|_| "{}\n".to_owned());
    let head: Value = serde_json::from_str(text.lines().next().context("no line")?)?;
    Ok(head["interval_ms"].clone())
}

/// Returns what `wad status` says of a trace.
fn status(home: &Home, name: &str) -> Result<Value> {
    let output = home.command("status").arg("--json").output()?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    let traces = status["traces"].as_array().context("no traces")?;
    let own = traces.iter().find(|trace| trace["name"] == name);
    own.cloned().with_context(|| format!("no trace {name}: {status}"))
}

fn await_fault(home: &Home, name: &str, words: &str) -> Result<Value> {
    let has = |status: &Value| status["failing"].as_str().is_some_and(|why| why.contains(words));
    until("the trace fails", SOON, || status(home, name), has)
}

fn failing(home: &Home, name: &str) -> Result<f64> {
    Ok(home.metrics()?.value("wad_trace_failing", &[&format!("trace=\"{name}\"")])?)
}

#[e2e(long, beside)]
fn the_agent_traces_chosen_flows_and_a_reload_changes_which() -> Result<()> {
    let stand = Stand::set_up("file-traces")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "")?;
    let folder = home.folder().join("traces");
    fs::create_dir(&folder)?;
    let file = |name: &str| folder.join(name);
    let unchanged = trace("same", &file("same"), "interval = '50ms'")
        + &trace("none", &file("none"), "paths = 'idle'\ninterval = '10ms'");
    let six = "paths = 'six'\ninstruments = ['CurMSS']\nfields = ['snd_cwnd']\nformat = 'csv'\n\
               zstd = true\ninterval = '20ms'";
    let before = unchanged.clone()
        + &trace("v4", &file("v4"), "remote = '10.81.0.0/16'\ninterval = '100ms'")
        + &trace("v6", &file("v6"), six);
    let own = fs::read_to_string("/proc/self/comm")?;
    let before = before
        + &trace("own", &file("own"), &format!("process = ['{}', 'nobody']", own.trim()))
        + &trace("others", &file("others"), "process = 'nobody'");
    home.write_policy(&(before + PATHS))?;
    let agent = home.start(stand.cgroup())?;
    let connections = [open(&wire, ADDRESSES_V4[1])?, open(&wire, ADDRESSES_V6[1])?];
    let four = || connections[0].near_flow(wire.a());
    while_sending(&connections, || {
        // What it has of a flow lies between what ss says before and after.
        await_rows(&file("v4"), 1)?;
        let (least, from) = (four()?.bytes_acked, Timestamp::now());
        signal::sleep(Duration::from_secs(1))?;
        let (most, to) = (four()?.bytes_acked, Timestamp::now());
        let past = |rows: &Vec<Value>| {
            rows.last().is_some_and(|row| time(row).is_ok_and(|time| time > to))
        };
        let rows = until("rows up to there", SOON, || rows_of(&file("v4")), past)?;
        ensure!(rows.iter().all(|row| row["path"] == "four"), "{rows:?}");
        // The other end is on the path, too.
        let remote = at(ADDRESSES_V4[1], PORT).to_string();
        let between: Vec<u64> = rows
            .iter()
            .filter(|row| row["remote"] == remote.as_str())
            .filter(|row| time(row).is_ok_and(|time| (from..to).contains(&time)))
            .filter_map(|row| row["instruments"]["HCThruOctetsAcked"].as_u64())
            .collect();
        println!("{} readings between {least} and {most} octets", between.len());
        // ss counts the SYN, too.
        let range = least - 1..=most;
        ensure!(between.len() > 3 && between.iter().all(|octets| range.contains(octets)));
        ensure!(between.is_sorted() && between.first() < between.last(), "{between:?}");
        let both = await_rows(&file("same"), 20)?;
        ensure!(["four", "six"].iter().all(|path| both.iter().any(|row| row["path"] == *path)));
        let csv = process::run("zstd", &["-dc", &file("v6").to_string_lossy()])?;
        let (head, lines) = csv.split_once('\n').context("no line")?;
        ensure!(head.ends_with(",container_name,CurMSS (octets),snd_cwnd"), "{head}");
        ensure!(lines.lines().count() > 10 && lines.lines().all(|line| line.contains(",six,")));
        ensure!(!file("none").exists(), "a file without a line");
        await_rows(&file("own"), 4)?;
        ensure!(!file("others").exists(), "lines of another process");
        let told = status(&home, "same")?;
        ensure!(told["lines"].as_u64() > Some(20) && told["failing"].is_null(), "{told}");
        let written = home.metrics()?.value("wad_trace_lines_total", &["trace=\"v4\""])?;
        ensure!(written > 5.0 && failing(&home, "v4")? == 0.0);

        // One goes, one comes, one is changed; those that are as before go on.
        let number = fs::metadata(file("same"))?.ino();
        let after = unchanged.clone()
            + &trace("v4", &file("v4"), "paths = 'four'\ninterval = '20ms'")
            + &trace("new", &file("new"), "paths = ['six', 'four']\ninterval = '20ms'");
        let other = home.folder().join("other.toml");
        home.write_to(other.clone(), &(after.clone() + PATHS))?;
        let output =
            home.command("reload").args(["--dry-run", "--json", "--config"]).arg(other).output()?;
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let expected =
            json!({ "added": ["new"], "changed": ["v4"], "removed": ["v6", "own", "others"] });
        ensure!(told["traces"] == expected, "{told}");
        home.reload(&(after + PATHS))?;
        let line = "added trace new; changed trace v4; removed trace v6, own, others";
        ensure!(home.log().contains(line), "{}", home.log());
        await_rows(&file("new"), 10)?;
        let gone = fs::read(file("v6"))?;
        let interval = || interval_ms(&file("v4"));
        until("the next file is begun", SOON, interval, |interval| *interval == 20)?;
        ensure!(interval_ms(&file("v4.1"))? == 100);
        let newer = await_rows(&file("v4"), 10)?;
        let older = rows_of(&file("v4.1"))?;
        ensure!(time(older.last().context("no row")?)? < time(&newer[0])?);
        signal::sleep(Duration::from_secs(1))?;
        ensure!(fs::read(file("v6"))? == gone, "it is written still");
        ensure!(fs::metadata(file("same"))?.ino() == number && !file("same.1").exists());

        // The folder vanishes, and comes back: tuning goes on, and so do the traces.
        fs::rename(&folder, home.folder().join("moved"))?;
        await_fault(&home, "new", "No such file or directory")?;
        ensure!(failing(&home, "new")? == 1.0);
        ensure!(open(&wire, ADDRESSES_V4[1])?.near_flow(wire.a())?.sndbuf_bytes == 2 << 20);
        signal::sleep(Duration::from_secs(1))?;
        let said = || home.log().lines().filter(|line| line.contains("cannot write")).count();
        // One for each trace, flows or none.
        ensure!(said() == 4, "{}", home.log());
        fs::create_dir(&folder)?;
        await_rows(&file("new"), 5)?;
        ensure!(status(&home, "new")?["lost_lines"].as_u64() > Some(0));
        until("all is well", SOON, || failing(&home, "none"), |failing| *failing == 0.0)?;
        ensure!(said() == 4, "{}", home.log());

        let stopped = Timestamp::now();
        agent.stop()?;
        for name in ["same", "v4", "new"] {
            let rows = rows_of(&file(name))?;
            let last = time(rows.last().context("no row")?)?;
            let missing = (stopped - last).total(jiff::Unit::Second)?;
            ensure!(missing < 0.3, "{name}: the last {missing} s are missing");
        }
        Ok(())
    })
}

#[e2e(long, beside)]
fn a_full_disk_is_told_once_and_what_a_killed_agent_wrote_is_whole() -> Result<()> {
    let stand = Stand::set_up("file-traces-full")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "")?;
    let disk = home.folder().join("disk");
    fs::create_dir(&disk)?;
    let letter = home.folder().join("letter");
    fs::write(&letter, "dear")?;
    let traces = trace("full", &disk.join("trace"), "interval = '10ms'")
        + &trace("letter", &letter, "interval = '10ms'")
        + &trace("field", &home.folder().join("field"), "fields = ['no_such_field']");
    home.write_policy(&(traces + PATHS))?;
    let script = format!(
        "mount -t tmpfs -o size=256k wad {0}\nhead -c 131072 /dev/zero >{0}/filler",
        disk.display()
    );
    let agent = home.start_in(&script, stand.cgroup())?;
    let inside = PathBuf::from(format!("/proc/{}/root", agent.id())).join(disk.strip_prefix("/")?);
    let file = inside.join("trace");
    let connections = [open(&wire, ADDRESSES_V4[1])?];
    while_sending(&connections, || {
        await_fault(&home, "full", "No space left on device")?;
        await_fault(&home, "letter", "is no trace")?;
        await_fault(&home, "field", "no_such_field")?;
        ensure!(fs::read_to_string(&letter)? == "dear" && failing(&home, "full")? == 1.0);
        let before = rows_of(&file)?;
        ensure!(before.len() > 50, "{}", before.len());
        ensure!(open(&wire, ADDRESSES_V4[1])?.near_flow(wire.a())?.sndbuf_bytes == 2 << 20);
        signal::sleep(Duration::from_secs(2))?;
        fs::remove_file(inside.join("filler"))?;
        let after = await_rows(&file, before.len() + 50)?;
        ensure!(after[..before.len()] == before);
        let full = "No space left on device";
        let said = home.log().lines().filter(|line| line.contains(full)).count();
        ensure!((1..=2).contains(&said), "{}", home.log());
        let told = status(&home, "full")?;
        ensure!(told["lost_lines"].as_u64() > Some(0), "{told}");

        // What it has written is whole; the mount goes with the agent.
        let kept = fs::File::open(&file)?;
        await_rows(&file, after.len() + 10)?;
        agent.kill()?;
        let rows = rows(&std::io::read_to_string(kept)?)?;
        ensure!(rows.len() > after.len());
        Ok(())
    })
}
