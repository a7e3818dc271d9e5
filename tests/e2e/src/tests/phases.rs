//! Tests see where a law is with a real flow, as `wad flows` and `wad trace` say it,
//! beside what ss says of the window: slow start, limited slow start, then congestion
//! avoidance from a loss on.

use std::{fs, process::Command, slice, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    sending::while_sending,
    settings, signal,
    ss::Flow,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    tracing::{Tracing, rows},
    wad::{Home, program},
};

const OURS: u16 = 7021;
const KERNELS: u16 = 7022;
/// Slow start is limited from so many segments on.
const LIMIT: u32 = 40;
const READINGS: usize = 100;
const SOON: Duration = Duration::from_secs(10);

const SLOW_START: u64 = 1;
const LIMITED_SLOW_START: u64 = 2;
const CONGESTION_AVOIDANCE: u64 = 3;
const RECOVERY: u64 = 4;

/// Returns the phases that fit a window; in recovery it is what the kernel makes of it.
fn fitting(flow: &Flow) -> &'static [u64] {
    match flow.ssthresh_segments {
        None if flow.cwnd_segments < LIMIT => &[SLOW_START],
        None => &[LIMITED_SLOW_START],
        Some(_) => &[CONGESTION_AVOIDANCE, RECOVERY],
    }
}

/// Returns the flow to a port, as `wad flows` has it.
fn flow(home: &Home, port: u16) -> Result<Value> {
    let output =
        home.command("flows").args(["--json", "--path", &format!("to-{port}")]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reading: Value = serde_json::from_slice(&output.stdout)?;
    let flows = reading["flows"].as_array().context("no list of flows")?;
    let [flow] = &flows[..] else { anyhow::bail!("not one flow: {flows:?}") };
    ensure!(flow["instruments"].get("Phase").is_some(), "no phase: {flow}");
    Ok(flow.clone())
}

/// Returns each phase once, where it begins.
fn course(phases: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut course: Vec<u64> = phases.into_iter().collect();
    course.dedup();
    course
}

#[e2e(long, beside)]
fn a_law_says_where_it_is() -> Result<()> {
    let stand = Stand::set_up("phases")?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '100ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 }, \
         drop_data_packets = [900] }\n",
    )?)?;
    settings::apply(&wan)?;
    let law = format!("congestion = \"wad_aimd\"; max_ssthresh = {LIMIT}");
    let policy = path_to(OURS, &law) + &path_to(KERNELS, "congestion = \"reno\"");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], OURS))?;
    let file = home.folder().join("trace.jsonl");
    let chosen = ["--interval", "10ms", "--path", &format!("to-{OURS}")];
    let trace = Tracing::start(&home, &chosen, &file)?;
    until("a trace", SOON, || Ok::<_, anyhow::Error>(file.exists()), |exists| *exists)?;
    let (seen, table) = while_sending(slice::from_ref(&connection), || {
        let mut seen = Vec::new();
        for _ in 0..READINGS {
            let before = tcp::flow(wan.a(), &connection.near)?;
            let phase = flow(&home, OURS)?["instruments"]["Phase"].as_u64();
            let after = tcp::flow(wan.a(), &connection.near)?;
            let fitting = [fitting(&before), fitting(&after)];
            // Before the first ACK there is none.
            if let Some(phase) = phase {
                let is_between =
                    fitting[0][0] <= phase && phase <= fitting[1][fitting[1].len() - 1];
                ensure!(is_between, "phase {phase} between {before:?} and {after:?}");
                if fitting[0] == fitting[1] {
                    seen.push(phase);
                }
            }
            signal::sleep(Duration::from_millis(20))?;
        }
        Ok::<_, anyhow::Error>((seen, String::from_utf8(home.command("flows").output()?.stdout)?))
    })?;
    println!("{:?}\n{table}", course(seen.iter().copied()));
    println!("{}", trace.finish()?);
    for phase in [SLOW_START, LIMITED_SLOW_START, CONGESTION_AVOIDANCE] {
        ensure!(seen.contains(&phase), "no phase {phase}: {seen:?}");
    }
    ensure!(table.contains("PHASE") && table.contains(" congestion_avoidance "), "{table}");

    let rows = rows(&fs::read_to_string(&file)?)?;
    let traced = course(rows.iter().filter_map(|row| row["instruments"]["Phase"].as_u64()));
    println!("traced: {traced:?}");
    let expected = [SLOW_START, LIMITED_SLOW_START, RECOVERY, CONGESTION_AVOIDANCE];
    ensure!(traced == expected, "{traced:?}");
    let plot = Command::new(program()?).arg("plot").arg(&file).output()?;
    let picture = String::from_utf8(plot.stdout)?;
    for text in ["phase of the law", "limited_slow_start", "congestion_avoidance"] {
        ensure!(picture.contains(text), "no {text}: {}", String::from_utf8_lossy(&plot.stderr));
    }

    let other = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], KERNELS))?;
    other.exchange(100_000)?;
    let other = flow(&home, KERNELS)?;
    ensure!(other["congestion"] == "reno" && other["instruments"]["Phase"].is_null(), "{other}");
    Ok(())
}
