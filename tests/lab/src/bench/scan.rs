//! `scan` measures what the scans of all flows take of a processor, as the kernel counts the run
//! time of their programs: of ten thousand flows, and of a hundred thousand. So it does for the search for
//! the processes that have these connections open, which is made when somebody asks.
//!
//! The flows are idle, in twelve network namespaces: a process has descriptors for so many. Where a program has not run for a while, as
//! that for buffers where none may grow, its first runs are waited for.

use std::{
    collections::HashMap,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use wad_testbed::{
    cgroup::Cgroup, netns::Netns, process::run_command, say, sysctl::Changed, wad::Home,
};

use super::{Outcome, Report, Target, instruments, programs};

const NAMESPACES: usize = 12;
const FLOWS: [usize; 2] = [10_000, 100_000];
/// A scan takes at most so long for each flow.
const MOST_NS_PER_FLOW: f64 = 600.0;
/// Runs of a program that are a sample.
const RUNS: u64 = 3;
const SAMPLES: usize = 7;
const INTERVAL: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(180);

/// Scans that an agent makes on its own account, by their programs.
const SCANS: [&str; 3] = ["wad_needs", "wad_progress", "wad_health"];

/// The program that is run for each open file of each process when somebody asks for flows, once a second
/// at most.
const SEARCH: &str = "wad_holders";
const SEARCH_INTERVAL: Duration = Duration::from_millis(1100);

/// Has flows scanned for all of these.
const POLICY: &str = "[guard]\nevery = '500ms'\n\n\
                      [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '1s'\n\n\
                      [[path]]\nname = 'bench'\nremote = '10.200.0.1'\nremote_port = 5002\n\
                      mode = 'measured'\nsndbuf = 'auto'\nrcvbuf = 'auto'\n\
                      bandwidth = '10Gbit'\nrtt = '100ms'\n";

/// Runs the benchmark.
///
/// # Errors
/// Without root, or where a step fails.
pub fn run(me: &Path, wad: &Path) -> Result<Report> {
    let cgroup = Cgroup::create("bench")?;
    let home = Home::create(wad, POLICY)?;
    let namespaces: Vec<Netns> =
        (0..NAMESPACES).map(|_| Netns::create("bench")).collect::<Result<_, _>>()?;
    namespaces.iter().try_for_each(instruments::prepare)?;
    let mut results = Vec::new();
    for flows in FLOWS {
        let agent = home.start(&cgroup)?;
        let holders = instruments::hold(me, &namespaces, &cgroup, flows)?;
        results.extend(scans(flows)?);
        results.push(searches(&home, flows)?);
        drop(holders);
        agent.stop()?;
    }
    Ok(Report { bench: "scan", results })
}

/// Returns how long each scan of so many flows takes.
fn scans(flows: usize) -> Result<Vec<Outcome>> {
    let _statistics = Changed::to("kernel.bpf_stats_enabled", "1")?;
    let mut samples: HashMap<&str, Vec<f64>> = HashMap::new();
    let mut before = runs()?;
    let begun = Instant::now();
    say(&format!("scan: {flows} flows"));
    while SCANS.iter().any(|scan| samples.get(scan).is_none_or(|all| all.len() < SAMPLES)) {
        ensure!(begun.elapsed() < LIMIT, "there are not enough runs of all scans: {samples:?}");
        thread::sleep(INTERVAL);
        let now = runs()?;
        for scan in SCANS {
            let (Some((ns, count)), Some((ns_before, count_before))) =
                (now.get(scan), before.get(scan).copied())
            else {
                continue;
            };
            // One that was loaded anew, with more room, counts from zero.
            if *count < count_before {
                before.insert(scan.to_owned(), (*ns, *count));
            } else if count - count_before >= RUNS {
                let seconds = (ns - ns_before) as f64 / 1e9 / (count - count_before) as f64;
                samples.entry(scan).or_default().push(seconds);
                before.insert(scan.to_owned(), (*ns, *count));
            }
        }
        for (scan, counted) in now {
            before.entry(scan).or_insert(counted);
        }
    }
    let most = MOST_NS_PER_FLOW * flows as f64 / 1e9;
    let outcome = |scan: &str| {
        let all = samples.remove(scan).unwrap_or_default();
        Outcome::new(format!("{scan}_seconds/{flows}"), "s", Target::AtMost(most), all)
    };
    Ok(SCANS.into_iter().map(outcome).collect())
}

/// Returns how long it takes to search all open files for the processes of connections.
fn searches(home: &Home, flows: usize) -> Result<Outcome> {
    let _statistics = Changed::to("kernel.bpf_stats_enabled", "1")?;
    let total_ns = || -> Result<u64> { Ok(runs()?.get(SEARCH).map_or(0, |(ns, _)| *ns)) };
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        thread::sleep(SEARCH_INTERVAL);
        let before = total_ns()?;
        run_command(home.command("flows").args(["--all", "--json"]))?;
        samples.push((total_ns()? - before) as f64 / 1e9);
    }
    ensure!(samples.iter().all(|seconds| *seconds > 0.0), "{SEARCH} has not run: {samples:?}");
    Ok(Outcome::alone(format!("{SEARCH}_seconds/{flows}"), "s", samples))
}

/// Returns the run time of each program so far, in nanoseconds, and how often it ran.
fn runs() -> Result<HashMap<String, (u64, u64)>> {
    let programs = programs::programs()?.into_iter();
    Ok(programs
        .filter_map(|program| Some((program.name?, (program.run_time_ns, program.run_cnt))))
        .collect())
}
