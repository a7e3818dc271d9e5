//! Over a grid of paths the policies that `wad plan` has for pasting are set beside what a user
//! would have without them: untuned Linux, and CUBIC with large buffers. All of it is simulated, by
//! `wad simulate`. A cell is one path, one rate of losses, one queue, and one number of flows.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::Deserialize;
use wad_testbed::{process::run_command, signal};

use crate::measure::median;

const RATES: [&str; 4] = ["100Mbit/s", "622Mbit/s", "2500Mbit/s", "10Gbit/s"];
const RTTS: [&str; 4] = ["10ms", "40ms", "100ms", "300ms"];
const LOSSES: [&str; 5] = ["0", "1e-6", "1e-5", "1e-4", "1e-3"];
/// Parts of bandwidth times RTT.
const QUEUES: [&str; 4] = ["0.05", "0.25", "1", "2"];
const FLOWS: [u32; 2] = [1, 8];
/// An untuned connection has so much on its way at most: the kernel's own buffers.
const UNTUNED_WINDOW: &str = "3MiB";
/// Losses come by chance: a cell with some is simulated with so many seeds, and has their medians.
const SEEDS: u32 = 3;

/// The first policy has so much of untuned Linux at least, and of CUBIC with large buffers.
const OF_UNTUNED: f64 = 0.98;
const OF_CUBIC: f64 = 0.97;
/// The second one has so much of CUBIC with large buffers.
const SECOND_OF_CUBIC: f64 = 1.0;
/// So many of the worst cells are listed.
const LISTED: usize = 12;

/// A cell of the grid.
#[derive(Clone, Copy, Debug)]
struct Cell {
    rate: &'static str,
    rtt: &'static str,
    loss: &'static str,
    queue: &'static str,
    flows: u32,
}

/// Rates of one cell, in bits per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    untuned: f64,
    cubic: f64,
    first: f64,
    second: Option<f64>,
}

/// The output of `wad plan --json`, as far as it is needed here.
#[derive(Deserialize)]
struct Planned {
    policies: Policies,
}

#[derive(Deserialize)]
struct Policies {
    fair: String,
    aggressive: Option<String>,
}

/// The output of `wad simulate --json`, likewise.
#[derive(Deserialize)]
struct Simulated {
    laws: Vec<Figures>,
}

#[derive(Clone, Copy, Deserialize)]
struct Figures {
    bits_per_second: f64,
}

/// Simulates every cell, or one of so many, and returns a table of the worst.
///
/// # Errors
/// When a policy has less than it is to have, after the table; or when `wad` fails.
pub fn run(wad: &Path, one_of: usize, print: impl Fn(&str) -> Result<()>) -> Result<()> {
    let cells: Vec<Cell> = cells().step_by(one_of.max(1)).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            signal::check()?;
            let rates = rates(wad, *cell).with_context(|| format!("{cell:?}"))?;
            done.lock().map_err(|_| anyhow!("another thread failed"))?.push((*cell, rates));
        }
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.map_err(|_| anyhow!("a thread failed"))?)
    })?;
    let done = done.into_inner().map_err(|_| anyhow!("a thread failed"))?;
    conclude(&done, print)
}

/// Returns all cells.
fn cells() -> impl Iterator<Item = Cell> {
    let with = |rate, rtt, loss, queue| FLOWS.map(|flows| Cell { rate, rtt, loss, queue, flows });
    RATES.into_iter().flat_map(move |rate| {
        RTTS.into_iter().flat_map(move |rtt| {
            LOSSES.into_iter().flat_map(move |loss| {
                QUEUES.into_iter().flat_map(move |queue| with(rate, rtt, loss, queue))
            })
        })
    })
}

/// Simulates what each would have.
fn rates(wad: &Path, cell: Cell) -> Result<Rates> {
    let mut plan = Command::new(wad);
    plan.args(["plan", "--json", "--rate", cell.rate, "--rtt", cell.rtt]);
    if cell.loss != "0" {
        plan.args(["--loss", cell.loss]);
    }
    if cell.flows > 1 {
        plan.args(["--streams", &cell.flows.to_string()]);
    }
    let Planned { policies } = serde_json::from_str(&run_command(&mut plan)?)?;
    let law = |more: &[&str]| simulate(wad, cell, &[&["--law", "cubic"], more].concat());
    let pasted = |policy: &str| -> Result<f64> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), policy)?;
        let name = file.path().to_str().context("a path that is no UTF-8")?;
        simulate(wad, cell, &["--config", name, "--path", "planned"])
    };
    Ok(Rates {
        untuned: law(&["--window", UNTUNED_WINDOW])?,
        cubic: law(&[])?,
        first: pasted(&policies.fair)?,
        second: policies.aggressive.as_deref().map(pasted).transpose()?,
    })
}

/// Returns the rate of all flows together, the median of the seeds.
fn simulate(wad: &Path, cell: Cell, sender: &[&str]) -> Result<f64> {
    let seeds = if cell.loss == "0" { 1 } else { SEEDS };
    // Enough to see what comes after slow start, and not more packets than can be simulated soon.
    let seconds = if cell.rate.starts_with("10G") { "20s" } else { "60s" };
    let rate = |seed: u32| -> Result<f64> {
        let mut command = Command::new(wad);
        command.args(["simulate", "--json", "--rate", cell.rate, "--rtt", cell.rtt]);
        command.args(["--queue", &format!("{}BDP", cell.queue), "--for", seconds]);
        command.args(["--flows", &cell.flows.to_string(), "--seed", &seed.to_string()]);
        if cell.loss != "0" {
            command.args(["--loss", cell.loss]);
        }
        let simulated: Simulated = serde_json::from_str(&run_command(command.args(sender))?)?;
        let figures = simulated.laws.first().context("no law was simulated")?;
        Ok(figures.bits_per_second)
    };
    Ok(median((1..=seeds).map(rate).collect::<Result<Vec<_>>>()?))
}

/// Prints the worst cells of each comparison.
fn conclude(done: &[(Cell, Rates)], print: impl Fn(&str) -> Result<()>) -> Result<()> {
    type Of = fn(&Rates) -> Option<f64>;
    let comparisons: [(&str, f64, Of); 3] = [
        ("the first policy, of untuned Linux", OF_UNTUNED, |it| Some(it.first / it.untuned)),
        ("the first policy, of CUBIC with large buffers", OF_CUBIC, |it| Some(it.first / it.cubic)),
        ("the second policy, of CUBIC with large buffers", SECOND_OF_CUBIC, |it| {
            it.second.map(|second| second / it.cubic)
        }),
    ];
    let mut missed = 0;
    for (what, target, of) in comparisons {
        let mut ratios: Vec<_> =
            done.iter().filter_map(|(cell, rates)| Some((of(rates)?, cell, rates))).collect();
        ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
        let below = ratios.iter().filter(|(ratio, ..)| *ratio < target).count();
        missed += below;
        let middle = median(ratios.iter().map(|(ratio, ..)| *ratio));
        let mut text = format!(
            "{what}: {} cells, {below} below {target}; median {middle:.2}; the worst:\n",
            ratios.len()
        );
        for (ratio, cell, rates) in ratios.iter().take(LISTED) {
            let Cell { rate, rtt, loss, queue, flows } = cell;
            let mbps = |bits: f64| bits / 1e6;
            // A string takes it all.
            let _ = writeln!(
                text,
                "  {ratio:.2}  {rate} {rtt}, loss {loss}, queue {queue} BDP, {flows} flows: untuned \
                 {:.1}, cubic {:.1}, first {:.1}, second {:.1} Mbit/s",
                mbps(rates.untuned),
                mbps(rates.cubic),
                mbps(rates.first),
                mbps(rates.second.unwrap_or(0.0)),
            );
        }
        print(&text)?;
    }
    ensure!(missed == 0, "{missed} of the targets are missed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Rates, cells, conclude};

    #[test]
    fn the_grid_is_large() {
        assert!(cells().count() >= 500);
    }

    #[test]
    fn a_policy_that_has_less_than_it_is_to_have_is_an_error() {
        let cell = cells().next().expect("the first");
        let good = Rates { untuned: 100.0, cubic: 200.0, first: 196.0, second: Some(201.0) };
        let print = |_: &str| Ok(());
        assert!(conclude(&[(cell, good)], print).is_ok());
        for bad in [
            Rates { untuned: 201.0, ..good },
            Rates { first: 190.0, ..good },
            Rates { second: Some(199.0), ..good },
        ] {
            assert!(conclude(&[(cell, good), (cell, bad)], print).is_err(), "{bad:?}");
        }
    }
}
