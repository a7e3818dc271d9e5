//! `wad trace` and `wad plot` are tested for the beat, what ss says meanwhile, and what
//! is left when the trace is killed, its disk full, its agent away.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    slice,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::{
        flights::Flight,
        wan::{self, Wan},
    },
    monotonic_ns,
    policy::path_to,
    process::{self, Place, in_mounts},
    sending::{Sample, samples, while_sending},
    settings, signal,
    stand::{Stand, until},
    tcp::{Connection, at, set_option},
    tracing::{Tracing, rows, time},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(10);
const POLICY: &str = "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nmode = 'observe'\n";

/// Checks that rows come in the order of time, and each flow once at each.
fn ensure_ordered(rows: &[Value]) -> Result<()> {
    let mut last = None;
    for row in rows {
        let at = (time(row)?, row["cookie"].as_u64());
        ensure!(last.is_none_or(|last: (Timestamp, _)| last.0 <= at.0 && last != at), "{row}");
        last = Some(at);
    }
    Ok(())
}

fn unpacked(file: &Path) -> Result<String> {
    Ok(process::run("zstd", &["-dc", &file.to_string_lossy()])?)
}

/// Returns the picture of some traces.
fn plotted(files: &[&Path]) -> Result<String> {
    let output = Command::new(program()?).arg("plot").args(files).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns how many lines, and dashed ones, a picture has.
fn lines_of(picture: &str) -> Result<(usize, usize)> {
    let xml = roxmltree::Document::parse(picture)?;
    ensure!(xml.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")), "no SVG");
    let count = |class| {
        let paths = xml.descendants().filter(|node| node.tag_name().name() == "path");
        paths.filter(|path| path.attribute("class") == Some(class)).count()
    };
    Ok((count("line"), count("dashed")))
}

#[e2e(long, alone)]
fn it_keeps_its_beat_and_has_the_windows_that_ss_shows() -> Result<()> {
    let stand = Stand::set_up("trace")?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '50ms'\nforward = { rate = '50Mbit', queue = { bdp = 1.0 }, drop_at = ['2s'] }\n",
    )?)?;
    settings::apply(&wan)?;
    let home = Home::create(&program()?, &path_to(PORT, "congestion = \"wad_aimd\""))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wan.a(), wan.b(), at(wan::ADDRESSES_V4[1], PORT))?;
    let (fast, slow) = (home.folder().join("fast.jsonl"), home.folder().join("slow.csv.zst"));
    let fast_trace = Tracing::start(&home, &["--interval", "10ms"], &fast)?;
    let slow_trace = Tracing::start(&home, &["--format", "csv", "--zstd"], &slow)?;
    let (now, clock) = (Instant::now(), SystemTime::now());
    let connections = slice::from_ref(&connection);
    let seen = while_sending(connections, || {
        samples(wan.a(), connections, Duration::from_secs(4)).map(|mut all| all.remove(0))
    })?;
    for trace in [fast_trace, slow_trace] {
        println!("{}", trace.finish()?);
    }

    let rows = rows(&fs::read_to_string(&fast)?)?;
    ensure_ordered(&rows)?;
    let (first, last) = (time(&rows[0])?, time(&rows[rows.len() - 1])?);
    let beat_ms = (last - first).total(jiff::Unit::Second)? * 1e3 / (rows.len() - 1) as f64;
    println!("a reading every {beat_ms:.2} ms");
    // This machine may have other things to do.
    ensure!((9.9..20.0).contains(&beat_ms), "{beat_ms} ms");

    // In slow start it grows by what arrives until a loss lowers it at once, and in recovery
    // it follows what arrives, too: so much may have come and gone between two readings, or
    // three where one is missed.
    let unseen_octets = 50e6 / 8.0 * 0.02;
    let mut compared = 0;
    for Sample { at, flow } in &seen {
        let at = Timestamp::try_from(clock + (*at - now))?;
        // What it was about then: ss takes some time to look.
        let near = |row: &&Value| {
            time(row).is_ok_and(|time| {
                (time - at).abs().total(jiff::Unit::Second).is_ok_and(|s| s < 0.05)
            })
        };
        let windows: Vec<f64> = rows
            .iter()
            .filter(near)
            .filter_map(|row| row["instruments"]["CurCwnd"].as_f64())
            .collect();
        let window = f64::from(flow.cwnd_segments * flow.mss_bytes);
        let least = windows.iter().copied().fold(f64::MAX, f64::min);
        let most = windows.iter().copied().fold(0.0, f64::max);
        if windows.len() > 5 {
            let range = least - unseen_octets..=most + unseen_octets;
            ensure!(range.contains(&window), "{window} not in {range:?}");
            compared += 1;
        }
    }
    println!("{compared} of {} windows of ss compared", seen.len());
    ensure!(compared > 50, "{compared} of {}", seen.len());

    let csv = unpacked(&slow)?;
    let head = "time,cookie,netns,path,local,remote,congestion,uid,pid,process,cgroup,\
                namespace,pod_name,container_name,HCThru";
    ensure!(csv.starts_with(head), "{csv}");
    let count = csv.lines().count();
    ensure!((30..60).contains(&count) && csv.ends_with('\n'), "{count} lines");
    // Window, rate, RTT, retransmissions of each; the loss made a threshold.
    ensure!(lines_of(&plotted(&[&fast])?)? == (4, 1));
    ensure!(lines_of(&plotted(&[&fast, &slow])?)? == (8, 2));
    Ok(())
}

/// The payload of a full packet on the emulated path is this, without headers.
const MSS_OCTETS: f64 = 1448.0;

/// A window of a flow as a trace has it.
#[derive(Clone, Copy)]
struct Window {
    time_ns: u64,
    octets: f64,
}

/// Returns how many windows are not what the path saw on its way. A flow that its
/// window bounds has just that on its way, but for a few segments: one that is lost,
/// and those that the kernel holds back, a millisecond at most, to send them together.
/// When it had them is known to within an interval between readings: the agent notes
/// the time before it reads, and the path looks at its packets every millisecond.
fn misfits(windows: impl Iterator<Item = Window>, course: &[Flight]) -> usize {
    const INTERVAL_NS: u64 = 10_000_000;
    const HELD_BACK_OCTETS: f64 = 4.0 * MSS_OCTETS;
    let fits = |window: &Window| {
        let after = |time_ns: u64| course.partition_point(|flight| flight.time_ns <= time_ns);
        // What there was already when that time began, and what came in it.
        let first = after(window.time_ns - INTERVAL_NS).saturating_sub(1);
        let near = &course[first..after(window.time_ns + INTERVAL_NS)];
        let octets = || near.iter().map(|flight| f64::from(flight.bytes));
        let (least, most) = (octets().fold(f64::MAX, f64::min), octets().fold(0.0, f64::max));
        (least - HELD_BACK_OCTETS..=most + HELD_BACK_OCTETS).contains(&window.octets)
    };
    windows.filter(|window| !fits(window)).count()
}

/// A busy machine may take the processor from the agent while it reads, or from the path.
/// A trace that is wrong is so each time.
#[e2e(long, alone)]
fn its_windows_are_what_the_path_saw_on_its_way() -> Result<()> {
    const TRIES: usize = 3;
    let stand = Stand::set_up("trace-path")?;
    for _ in 1..TRIES {
        match compare_with_path(&stand) {
            Ok(()) => return Ok(()),
            Err(error) => println!("once more: {error:#}"),
        }
    }
    compare_with_path(&stand)
}

fn compare_with_path(stand: &Stand) -> Result<()> {
    // The drops end slow start and the growth after it before the queue is full.
    let wan = Wan::start(&toml::from_str(
        "rtt = '100ms'\n[forward]\nrate = '40Mbit'\nqueue.bdp = 1.0\n\
         drop_data_packets = [500]\ndrop_at = ['3s']\n",
    )?)?;
    wan.record_flights();
    settings::apply(&wan)?;
    // A paced flow would not have all on its way that its window lets it.
    let law = "congestion = \"wad_aimd\"; additive_increase = 4; pacing = \"off\"";
    let home = Home::create(&program()?, &path_to(PORT, law))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wan.a(), wan.b(), at(wan::ADDRESSES_V4[1], PORT))?;
    let file = home.folder().join("trace.jsonl");
    let chosen = ["--interval=10ms", "--remote", wan::ADDRESSES_V4[1]];
    let trace = Tracing::start(&home, &chosen, &file)?;
    until("a trace", SOON, || Ok::<_, anyhow::Error>(file.exists()), |exists| *exists)?;
    let (begun_ns, begun) = (monotonic_ns(), Timestamp::now());
    while_sending(slice::from_ref(&connection), || signal::sleep(Duration::from_secs(5)))?;
    let ended_ns = monotonic_ns();
    println!("{}", trace.finish()?);
    let [forward, _] = wan.counters()?;
    ensure!((forward.planned_drops, forward.queue_drops) == (2, 0), "{forward:?}");

    let mut windows = Vec::new();
    for row in rows(&fs::read_to_string(&file)?)? {
        let since_ns = (time(&row)? - begun).total(jiff::Unit::Nanosecond)?;
        let octets = row["instruments"]["CurCwnd"].as_f64().context("no window")?;
        windows.push(Window { time_ns: (begun_ns as f64 + since_ns) as u64, octets });
    }
    // From when the first window is on its way.
    windows.retain(|window| (begun_ns + 50_000_000..ended_ns).contains(&window.time_ns));
    let segments_at = |ms: u64| {
        let window = windows.iter().find(|window| window.time_ns >= begun_ns + ms * 1_000_000);
        window.map_or(f64::NAN, |window| window.octets / MSS_OCTETS)
    };
    let [first, grows, grown, halved, last] = [50, 1000, 2900, 3600, 4900].map(segments_at);
    let highest = windows.iter().map(|window| window.octets / MSS_OCTETS).fold(0.0, f64::max);
    println!("{first}, {highest}, {grows} to {grown}, {halved} to {last} segments");
    ensure!(first <= 20.0 && highest > 400.0 && grows < 0.7 * highest);
    ensure!(grown > grows + 40.0 && halved < 0.7 * grown && last > halved + 20.0);

    let flights = wan.flights();
    let flights = flights.of([connection.near.local_addr()?.port(), PORT]);
    let late = |one: &Window| Window { time_ns: one.time_ns + 20_000_000, ..*one };
    let large = |one: &Window| Window { octets: one.octets * 1.02, ..*one };
    let wrong = misfits(windows.iter().copied(), flights);
    let wrong_late = misfits(windows.iter().map(late), flights);
    let wrong_large = misfits(windows.iter().map(large), flights);
    println!(
        "of {} windows {wrong} do not fit; {wrong_late} if they came 20 ms later, {wrong_large} \
         if they were 2% larger",
        windows.len()
    );
    let most = windows.len() / 50;
    ensure!(wrong <= most && windows.len() > 250, "{wrong} of {}", windows.len());
    ensure!(wrong_late > most && wrong_large > most, "this would not have noticed faults");
    Ok(())
}

/// Runs an agent that observes both ends of some connections at work.
fn while_busy(label: &str, look: impl FnOnce(&Home, &Stand) -> Result<()>) -> Result<()> {
    let stand = Stand::set_up(label)?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let open = || Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT));
    let connections = [open()?, open()?];
    // At work, but not with all that the processors have: whoever looks has some, too.
    for connection in &connections {
        set_option(&connection.near, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 25_000_000)?;
    }
    while_sending(&connections, || look(&home, &stand))
}

#[e2e(long, few)]
fn a_trace_that_is_killed_is_whole_up_to_its_last_second() -> Result<()> {
    while_busy("trace-kill", |home, stand| {
        let _agent = home.start(stand.cgroup())?;
        for (round, form) in
            ["--format=json", "--zstd", "--format=json", "--zstd"].iter().enumerate()
        {
            let file = home.folder().join(format!("{round}.trace"));
            let mut trace = Tracing::start(home, &["--interval", "10ms", form], &file)?;
            signal::sleep(Duration::from_millis(2300 + 170 * round as u64))?;
            let killed = Timestamp::now();
            trace.process.signal(Signal::SIGKILL);
            trace.process.wait(SOON, || ())?;
            let is_packed = *form == "--zstd";
            let text = if is_packed { unpacked(&file)? } else { fs::read_to_string(&file)? };
            let rows = rows(&text)?;
            ensure_ordered(&rows)?;
            let last = time(rows.last().context("no rows")?)?;
            let missing = (killed - last).total(jiff::Unit::Second)?;
            println!("{} rows, the last {missing:.3} s before the end", rows.len());
            ensure!(missing < 1.0, "{missing} s");
            ensure!(lines_of(&plotted(&[&file])?)?.0 == 8);
        }
        Ok(())
    })
}

#[e2e(long, beside)]
fn what_a_full_disk_does_not_take_is_counted_and_what_it_has_stays_whole() -> Result<()> {
    while_busy("trace-full", |home, stand| {
        let _agent = home.start(stand.cgroup())?;
        let disk = home.folder().join("disk");
        fs::create_dir(&disk)?;
        let script = format!(
            "mount -t tmpfs -o size=256k wad {0}\nhead -c 131072 /dev/zero >{0}/filler",
            disk.display()
        );
        let mut command = home.command("trace");
        command.args(["--interval", "10ms", "--out"]).arg(disk.join("trace"));
        let command = in_mounts(&script, &command);
        let mut trace = Tracing::spawn(command, home.folder().join("full.said"))?;
        let inside = PathBuf::from(format!("/proc/{}/root", trace.process.id()));
        let disk = inside.join(disk.strip_prefix("/")?);
        trace.await_word("cannot write: No space left on device")?;
        let before = rows(&fs::read_to_string(disk.join("trace"))?)?;
        ensure!(before.len() > 100, "{}", before.len());
        fs::remove_file(disk.join("filler"))?;
        trace.await_word("lines are written again")?;
        let after = rows(&fs::read_to_string(disk.join("trace"))?)?;
        ensure_ordered(&after)?;
        ensure!(after.len() > before.len() && after[..before.len()] == before, "{}", after.len());
        let (is_content, said) = trace.end()?;
        println!("{said}");
        ensure!(!is_content && said.contains(" lines are lost"), "{said}");
        ensure!(said.matches("cannot write").count() <= 2, "said too often: {said}");
        Ok(())
    })
}

#[e2e(long, beside)]
fn what_cannot_be_begun_is_refused() -> Result<()> {
    while_busy("trace-refused", |home, stand| {
        let refused = |mut command: Command| -> Result<String> {
            let output = command.args(["--duration", "1s"]).output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(!output.status.success(), "{said}");
            Ok(said)
        };
        let said = refused(home.command("trace"))?;
        ensure!(said.contains("no agent runs"), "{said}");
        let _agent = home.start(stand.cgroup())?;
        let mut command = home.command("trace");
        command.args(["--instruments", "CurCwmd"]);
        let said = refused(command)?;
        ensure!(said.contains("no instrument is called CurCwmd, did you mean CurCwnd?"), "{said}");

        let other = home.folder().join("letter");
        fs::write(&other, "dear")?;
        let mut command = home.command("trace");
        command.arg("--out").arg(&other);
        let said = refused(command)?;
        ensure!(said.contains("is no trace") && fs::read_to_string(&other)? == "dear", "{said}");

        let folder = home.folder().join("read-only");
        fs::create_dir(&folder)?;
        let mut command = home.command("trace");
        command.arg("--duration=1s").arg("--out").arg(folder.join("trace"));
        let mount = format!("mount -t tmpfs -o ro wad {}", folder.display());
        let output = in_mounts(&mount, &command).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains("Read-only file system"), "{said}");
        Ok(())
    })
}

#[e2e(long, beside)]
fn files_are_rotated_within_their_bounds_and_plotted_as_one() -> Result<()> {
    while_busy("trace-rotate", |home, stand| {
        let _agent = home.start(stand.cgroup())?;
        let file = home.folder().join("trace");
        let bounds = ["--interval", "10ms", "--max-bytes", "64KiB", "--keep", "3"];
        for _ in 0..2 {
            let mut trace = Tracing::start(home, &bounds, &file)?;
            signal::sleep(Duration::from_secs(3))?;
            ensure!(trace.process.ended()?.is_none(), "{}", trace.said());
            trace.finish()?;
        }
        let numbered = |number: u32| file.with_file_name(format!("trace.{number}"));
        let files = [numbered(2), numbered(1), file.clone()];
        let mut all = Vec::new();
        for file in &files {
            let bytes = fs::metadata(file)?.len();
            ensure!(bytes <= 64 << 10, "{}: {bytes}", file.display());
            all.extend(rows(&fs::read_to_string(file)?)?);
        }
        ensure!(!numbered(3).exists() && all.len() > 200, "{}", all.len());
        ensure_ordered(&all)?;
        let [a, b, c] = files.each_ref().map(PathBuf::as_path);
        ensure!(lines_of(&plotted(&[c, a, b])?)?.0 == 8);
        Ok(())
    })
}

#[e2e(long, beside)]
fn it_outlives_its_agent_and_takes_fields_and_chosen_flows() -> Result<()> {
    while_busy("trace-restart", |home, stand| {
        let agent = home.start(stand.cgroup())?;
        let file = home.folder().join("trace");
        let arguments = ["--interval", "50ms", "--instruments", "CurMSS", "--field", "snd_cwnd"];
        let chosen = ["--path", "p", "--remote", "10.81.0.2"];
        let mut trace = Tracing::start(home, &[&arguments[..], &chosen].concat(), &file)?;
        signal::sleep(Duration::from_secs(1))?;
        agent.stop()?;
        trace.await_word("the trace goes on as soon as it answers")?;
        let stopped = Timestamp::now();
        let _agent = home.start(stand.cgroup())?;
        trace.await_word("the agent answers again")?;
        signal::sleep(Duration::from_secs(2))?;
        let said = trace.finish()?;
        ensure!(said.contains("readings missed"), "{said}");
        let rows = rows(&fs::read_to_string(&file)?)?;
        ensure_ordered(&rows)?;
        let after = rows.iter().filter(|row| time(row).is_ok_and(|time| time > stopped)).count();
        ensure!(after > 20 && rows.len() > after + 20, "{after} of {}", rows.len());
        for row in &rows {
            let instruments = row["instruments"].as_object().context("no instruments")?;
            let names: Vec<_> = instruments.keys().map(String::as_str).collect();
            let has_values = instruments.values().all(|value| value.as_f64() > Some(0.0));
            ensure!(names == ["CurMSS", "snd_cwnd"] && has_values, "{row}");
        }
        Ok(())
    })
}

#[e2e(long, beside)]
fn whoever_reads_only_the_head_of_it_has_seen_enough() -> Result<()> {
    while_busy("trace-pipe", |home, stand| {
        let _agent = home.start(stand.cgroup())?;
        let mut command = home.command("trace");
        command.args(["--interval", "20ms"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut trace = Place::default().spawn(command)?;
        let out = trace.child().stdout.take().context("no output")?;
        let mut lines = io::BufRead::lines(io::BufReader::new(out));
        let first: Value = serde_json::from_str(&lines.next().context("no line")??)?;
        ensure!(first["interval_ms"] == 20, "{first}");
        drop(lines);
        ensure!(trace.wait(SOON, || ())?.success());
        Ok(())
    })
}
