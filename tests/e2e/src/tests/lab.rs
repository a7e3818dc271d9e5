//! Experiments of the lab are run here, small and slow: who runs, under which policy,
//! against what, and what is counted of it.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_lab::{
    client::Client,
    lab::Lab,
    progress::Line,
    report::{Flows, Report},
    scenario::Scenario,
};
use wad_testbed::{process::run as run_program, signal, sysctl, tracing, wad::program};

fn run(text: &str) -> Result<Report> {
    run_with(text, None)
}

fn run_with(text: &str, traces: Option<PathBuf>) -> Result<Report> {
    signal::catch()?;
    let scenario = Scenario::parse("test", Path::new("test.toml"), text)?;
    let folder = tempfile::tempdir()?;
    let own = folder.path().join(crate::PEER);
    symlink(env::current_exe()?, &own)?;
    let lab = Lab { own, wad: program()?, client: Client::Own, traces };
    Ok(lab.run(&scenario, 1, &Line::new(&scenario, 1))?)
}

#[e2e(long, beside)]
fn flows_of_several_kinds_share_a_path() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let scenario = r#"
        description = "A flow of the kernel's and, later, two of ours"
        seconds = 6
        settle = "4s"
        path = { rtt = "20ms", forward = { rate = "50Mbit", queue.bdp = 1 } }
        policy = { sndbuf = "1MiB", rcvbuf = "1MiB" }
        [[variant]]
        name = "both"
        flows = [
            { name = "theirs", policy = { congestion = "reno" } },
            { name = "ours", start = "2s", streams = 2, policy = { congestion = "wad_aimd" } },
        ]
    "#;
    let report = run_with(scenario, Some(folder.path().to_owned()))?;
    let sample = report.variants[0].samples.first().context("a sample")?;
    let [theirs, ours] = sample.flows.as_slice() else { anyhow::bail!("two kinds of flows") };
    ensure!((theirs.congestion.as_str(), ours.congestion.as_str()) == ("reno", "wad_aimd"));
    ensure!(theirs.streams_bits_per_second.len() == 1 && ours.streams_bits_per_second.len() == 2);
    let first = |flows: &Flows| flows.series.iter().find(|point| point.cwnd_segments > 0).cloned();
    let first = |flows| first(flows).context("it was never seen").map(|point| point.seconds);
    ensure!(first(theirs)? < 1.0, "{:?}", first(theirs)?);
    ensure!((1.9..3.0).contains(&first(ours)?), "{:?}", first(ours)?);
    // Each has something, and together they have the path.
    let rates = [theirs, ours].map(|flows| flows.goodput_bits_per_second);
    let carries = report.variants[0].path.carries_bits_per_second;
    ensure!(rates.iter().all(|rate| *rate > 0.1 * carries), "{rates:?}");
    ensure!((0.8..1.05).contains(&(rates.iter().sum::<f64>() / carries)), "{rates:?}");
    ensure!(sample.jain_index.is_some_and(|index| (1.0 / 3.0..=1.0).contains(&index)));
    // The senders were traced, and nobody else.
    let rows = tracing::rows(&fs::read_to_string(folder.path().join("both.jsonl"))?)?;
    let remotes = rows.iter().filter_map(|row| row["remote"].as_str());
    let remotes: BTreeSet<&str> = remotes.collect();
    ensure!(remotes == ["10.77.0.2:5001", "10.77.0.2:5002"].into(), "{remotes:?}");
    ensure!(rows.len() > 100, "{}", rows.len());
    Ok(())
}

#[e2e(long, beside)]
fn what_runs_without_wad_cannot_be_traced() -> Result<()> {
    let scenario = r#"
        description = "Nobody there to trace it"
        seconds = 5
        path = { rtt = "20ms", forward = { rate = "50Mbit", queue.bdp = 1 } }
        variant = [{ name = "untuned" }]
    "#;
    let said = run_with(scenario, Some("traces".into())).err().context("it was")?.to_string();
    ensure!(said.contains("untuned runs without wad"), "{said}");
    Ok(())
}

#[e2e(long, beside)]
fn a_transfer_of_bytes_takes_as_long_as_it_takes() -> Result<()> {
    let report = run(r#"
        description = "Four streams of 5 MB together"
        bytes = 5_000_000
        path = { rtt = "20ms", forward = { rate = "20Mbit", queue.bdp = 1 } }
        variant = [{ name = "untuned", streams = 4 }]
    "#)?;
    let variant = &report.variants[0];
    let sample = variant.samples.first().context("a sample")?;
    // 5 MB at 19.3 Mb/s are 2.07 s.
    ensure!((2.0..4.0).contains(&sample.seconds), "{} s", sample.seconds);
    let bytes = sample.goodput_bits_per_second * sample.seconds / 8.0;
    ensure!((bytes - 5e6).abs() < 1.0, "{bytes} bytes");
    ensure!(sample.goodput_after_3_seconds_bits_per_second.is_none() || sample.seconds > 4.0);
    Ok(())
}

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn a_path_that_nobody_writes_down_is_measured() -> Result<()> {
    let report = run(r#"
        description = "Buffers by what Prometheus holds"
        seconds = 8
        path = { rtt = "100ms", forward = { rate = "400Mbit", queue.bdp = 1 } }
        policy = { sndbuf = "auto", rcvbuf = "auto" }
        [[variant]]
        name = "measured"
        monitor = "prometheus"
        policy = { mode = "measured" }
    "#)?;
    let variant = &report.variants[0];
    let sample = variant.samples.first().context("a sample")?;
    // 1.25 times what the path holds of payload, which the kernel doubles.
    // That is beyond what the kernel gives by itself, and the flow needs it.
    let bytes = variant.path.carries_bits_per_second / 8.0 * 0.1 * 1.25 * 2.0;
    for buffer in [sample.sndbuf_bytes, sample.rcvbuf_bytes] {
        ensure!((buffer as f64 - bytes).abs() <= 2.0, "{buffer} bytes, not {bytes}");
    }
    Ok(())
}

#[e2e(long, alone)]
fn a_burst_of_datagrams_makes_a_flow_lose() -> Result<()> {
    let report = run(r#"
        description = "A burst takes the path away"
        seconds = 6
        burst = { at = "3s", lasts = "100ms", rate = "200Mbit" }
        path = { rtt = "100ms", forward = { rate = "50Mbit", queue.bdp = 1 } }
        policy = { sndbuf = "4MiB", rcvbuf = "800KiB" }
        variant = [{ name = "reno", policy = { congestion = "reno" } }]
    "#)?;
    let sample = report.variants[0].samples.first().context("a sample")?;
    ensure!(sample.emulator.forward.queue_drops > 100, "{:?}", sample.emulator.forward);
    ensure!(sample.congestion_events >= 1 && sample.retransmits > 0, "{:?}", sample.tcp_counters);
    let first = sample.slow_start.first_drop_seconds.context("no drop")?;
    ensure!((3.0..3.3).contains(&first), "the first drop is at {first} s");
    let recovery = sample.recovery.as_ref().context("no burst")?;
    ensure!(recovery.back_after_seconds != Some(0.0), "{recovery:?}");
    ensure!(recovery.after_bits_per_second < recovery.before_bits_per_second, "{recovery:?}");
    Ok(())
}

#[e2e(long, few, slow)]
fn cuts_are_told_apart_by_their_cause() -> Result<()> {
    let report = run(r#"
        description = "A full queue of the host's own, a drop and a mark"
        seconds = 9
        ecn = true
        path.rtt = "10ms"
        path.forward = { rate = "622Mbit", queue.bdp = 1, drop_at = ["3s", "4s", "5s"], mark_at = ["6s", "7s", "8s"] }
        policy = { sndbuf = "4MiB", rcvbuf = "4MiB", congestion = "reno" }
        [[variant]]
        name = "short"
        sender_queue = "tbf rate 200mbit burst 128kb limit 100kb"
        policy = {}
        [[variant]]
        name = "long"
        sender_queue = "tbf rate 200mbit burst 128kb limit 3000kb"
        policy = {}
    "#)?;
    let counted = |number: usize| -> Result<_> {
        let sample = report.variants[number].samples.first().context("a sample")?;
        let forward = sample.emulator.forward;
        ensure!((forward.planned_drops, forward.marks) == (3, 3), "{forward:?}");
        sample.responses.context("nothing was counted")
    };
    let short = counted(0)?;
    let cuts = short.cuts.context("reno's threshold is its own")?;
    ensure!(short.local_drops >= cuts.local_drops && cuts.local_drops >= 1, "{short:?}");
    // One that comes while the window is being cut already cuts no more
    // (tcp_enter_recovery asks tcp_in_cwnd_reduction): the local queue may be at it.
    let of_network = [cuts.network_drops, cuts.marks];
    ensure!(of_network.iter().all(|cuts| *cuts >= 1), "{short:?}");
    // TCP small queues keep the same flow from filling a longer one. On a machine that
    // pauses, the kernel may take for lost what is only late.
    let long = counted(1)?;
    let cuts = long.cuts.context("as above")?;
    ensure!(long.local_drops == 0 && cuts.local_drops == 0, "{long:?}");
    ensure!(cuts.network_drops >= 3 && cuts.marks == 3, "{long:?}");
    Ok(())
}

#[e2e(long, alone)]
fn a_sender_may_be_in_the_first_namespace() -> Result<()> {
    let read = || ["tcp_rmem", "tcp_ecn", "tcp_no_metrics_save"].map(setting);
    let before = read();
    let report = run(r#"
        description = "From the host itself to a container"
        seconds = 6
        path = { rtt = "20ms", forward = { rate = "50Mbit", queue.bdp = 1 } }
        [[variant]]
        name = "first"
        is_first = true
        policy = { congestion = "wad_aimd", sndbuf = "1MiB", rcvbuf = "1MiB" }
    "#)?;
    let variant = &report.variants[0];
    let sample = variant.samples.first().context("a sample")?;
    ensure!(variant.congestion == "wad_aimd", "{}", variant.congestion);
    // Both ends are tuned, and the path is full.
    ensure!((sample.sndbuf_bytes, sample.rcvbuf_bytes) == (2 << 20, 2 << 20), "{sample:?}");
    let part = variant.goodput_bits_per_second / variant.path.carries_bits_per_second;
    ensure!((0.8..1.05).contains(&part), "{part}");
    // Nothing of it stays on the host.
    ensure!(read() == before, "{before:?} before, {:?} now", read());
    let devices = run_program("ip", &["-o", "link"])?;
    ensure!(!devices.contains("wan0"), "{devices}");
    Ok(())
}

fn setting(name: &str) -> Option<String> {
    sysctl::get(&format!("net.ipv4.{name}")).ok()
}

#[e2e(long, beside)]
fn an_object_is_got_by_curl_from_nginx() -> Result<()> {
    let report = run(r#"
        description = "Two objects"
        client = "curl"
        path = { rtt = "20ms", forward = { rate = "20Mbit", queue.bdp = 1 } }
        grid.bytes = [1_000_000, 4_000_000]
        [[variant]]
        name = "tuned"
        policy = { congestion = "wad_aimd", sndbuf = "1MiB", rcvbuf = "1MiB" }
    "#)?;
    let names: Vec<_> = report.variants.iter().map(|variant| variant.name.as_str()).collect();
    ensure!(names == ["tuned-1MB", "tuned-4MB"], "{names:?}");
    for (variant, bits) in report.variants.iter().zip([8e6, 32e6]) {
        let sample = variant.samples.first().context("a sample")?;
        // Both ends: the server, which was connected to, and the client.
        ensure!(variant.congestion == "wad_aimd", "{}", variant.congestion);
        ensure!((sample.sndbuf_bytes, sample.rcvbuf_bytes) == (2 << 20, 2 << 20), "{sample:?}");
        // 19.3 Mb/s at most, and two round trips before the first byte.
        let least_seconds = bits / 19.31e6 + 0.04;
        ensure!((least_seconds..least_seconds + 2.0).contains(&sample.seconds), "{sample:?}");
        let got = sample.goodput_bits_per_second * sample.seconds;
        ensure!((got / bits - 1.0).abs() < 0.01, "{got} bits");
    }
    Ok(())
}

#[e2e(long, beside)]
fn the_policy_is_what_a_plan_prints() -> Result<()> {
    let report = run(r#"
        description = "A policy to paste"
        seconds = 5
        path = { rtt = "50ms", forward = { rate = "100Mbit", queue.bdp = 1 } }
        variant = [{ name = "planned", plan = "first" }, { name = "untuned" }]
    "#)?;
    let printed =
        run_program(&program()?.to_string_lossy(), &["plan", "--rate=100Mbit", "--rtt=50ms"])?;
    let policy = printed.split_once("[[path]]").context("no policy")?.1;
    let policy = policy.split("\n\n").next().context("no policy")?.trim_end();
    let pasted =
        policy.replacen("192.0.2.0/24\"  # the network of the other end", "10.77.0.0/16\"", 1);
    let shown = &report.variants[0].settings["wad"];
    ensure!(shown.trim_end() == format!("[[path]]{pasted}"), "{shown}");
    ensure!(report.variants[1].settings["wad"] == "not running", "{report:?}");
    Ok(())
}
