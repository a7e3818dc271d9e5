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
use wad_testbed::{process::run_command, random::Random, signal};

use crate::measure::median;

const RATES: [&str; 4] = ["100Mbit/s", "622Mbit/s", "2500Mbit/s", "10Gbit/s"];
const RTTS: [&str; 4] = ["10ms", "40ms", "100ms", "300ms"];
const LOSSES: [&str; 5] = ["0", "1e-6", "1e-5", "1e-4", "1e-3"];
/// Parts of bandwidth times RTT.
const QUEUES: [&str; 4] = ["0.05", "0.25", "1", "2"];
const FLOWS: [u32; 2] = [1, 8];
/// An untuned connection has so much on its way at most: the kernel's own buffers.
const UNTUNED_WINDOW: &str = "3MiB";
/// Number of seeds with which a cell that has random losses is simulated; its rates are their means.
const SEEDS: u32 = 9;
/// A ratio misses its target if it is below it by more than this number of standard errors.
const TOLERATED_ERRORS: f64 = 2.0;

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

/// The rates that each sender reaches in one cell.
#[derive(Clone, Copy, Debug)]
struct Rates {
    untuned: Rate,
    cubic: Rate,
    first: Rate,
    second: Option<Rate>,
}

/// A rate in bits per second, as the mean of several seeds.
#[derive(Clone, Copy, Debug)]
struct Rate {
    mean: f64,
    /// Standard error of the mean; 0 for a single seed.
    standard_error: f64,
}

impl Rate {
    fn of(rates: &[f64]) -> Self {
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        // A cell without random losses is simulated once: its rate has no error.
        let standard_error = (squares / (count - 1.0).max(1.0) / count).sqrt();
        Self { mean, standard_error }
    }

    /// Divides this rate by another one.
    fn over(self, other: Self) -> Ratio {
        let value = self.mean / other.mean;
        let of_mean = |rate: Self| (rate.standard_error / rate.mean).powi(2);
        Ratio { value, standard_error: value * (of_mean(self) + of_mean(other)).sqrt() }
    }
}

/// The quotient of two rates.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    value: f64,
    standard_error: f64,
}

impl Ratio {
    /// Whether the ratio is below a target by more than its standard error explains.
    fn misses(self, target: f64) -> bool {
        TOLERATED_ERRORS.mul_add(self.standard_error, self.value) < target
    }
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
    let cells = sample(one_of.max(1));
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

/// Returns a random sample: one of every `one_of` cells, the same ones in each run. Every eighth cell,
/// say, has the same queue and the same number of flows.
fn sample(one_of: usize) -> Vec<Cell> {
    let mut random = Random::new(1);
    let mut cells: Vec<Cell> = cells().collect();
    cells.sort_by_cached_key(|_| random.next());
    cells.truncate(cells.len().div_ceil(one_of));
    cells
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
    let pasted = |policy: &str| -> Result<Rate> {
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

/// Simulates a cell with one kind of sender, and returns the total rate of its flows.
fn simulate(wad: &Path, cell: Cell, sender: &[&str]) -> Result<Rate> {
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
    Ok(Rate::of(&(1..=seeds).map(rate).collect::<Result<Vec<_>>>()?))
}

/// Prints the worst cells of each comparison.
fn conclude(done: &[(Cell, Rates)], print: impl Fn(&str) -> Result<()>) -> Result<()> {
    type Of = fn(&Rates) -> Option<Ratio>;
    let comparisons: [(&str, f64, Of); 3] = [
        ("the first policy, of untuned Linux", OF_UNTUNED, |it| Some(it.first.over(it.untuned))),
        ("the first policy, of CUBIC with large buffers", OF_CUBIC, |it| {
            Some(it.first.over(it.cubic))
        }),
        ("the second policy, of CUBIC with large buffers", SECOND_OF_CUBIC, |it| {
            it.second.map(|second| second.over(it.cubic))
        }),
    ];
    let mut missed = 0;
    for (what, target, of) in comparisons {
        let mut ratios: Vec<_> =
            done.iter().filter_map(|(cell, rates)| Some((of(rates)?, cell, rates))).collect();
        ratios.sort_by(|(one, ..), (other, ..)| one.value.total_cmp(&other.value));
        let below = ratios.iter().filter(|(ratio, ..)| ratio.misses(target)).count();
        missed += below;
        let middle = median(ratios.iter().map(|(ratio, ..)| ratio.value));
        let mut text = format!(
            "{what}: {} cells, {below} below {target}; median {middle:.2}; the worst:\n",
            ratios.len()
        );
        for (ratio, cell, rates) in ratios.iter().take(LISTED) {
            let Cell { rate, rtt, loss, queue, flows } = cell;
            let mbps = |rate: Rate| rate.mean / 1e6;
            let second =
                rates.second.map_or_else(|| "none".to_owned(), |it| format!("{:.1}", mbps(it)));
            // A string takes it all.
            let _ = writeln!(
                text,
                "  {:.2} +-{:.2}  {rate} {rtt}, loss {loss}, queue {queue} BDP, {flows} flows: \
                 untuned {:.1}, cubic {:.1}, first {:.1}, second {second} Mbit/s",
                ratio.value,
                ratio.standard_error,
                mbps(rates.untuned),
                mbps(rates.cubic),
                mbps(rates.first),
            );
        }
        print(&text)?;
    }
    ensure!(missed == 0, "{missed} of the targets are missed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FLOWS, QUEUES, Rate, Rates, cells, conclude, sample};

    #[test]
    fn the_grid_is_large() {
        assert!(cells().count() >= 500);
    }

    #[test]
    fn a_sample_has_every_queue_with_every_number_of_flows() {
        assert_eq!(sample(1).len(), cells().count());
        for one_of in [2, 3, 8, 16] {
            let sample = sample(one_of);
            assert_eq!(sample.len(), cells().count().div_ceil(one_of));
            for (queue, flows) in QUEUES.into_iter().flat_map(|queue| FLOWS.map(|it| (queue, it))) {
                assert!(sample.iter().any(|cell| cell.queue == queue && cell.flows == flows));
            }
        }
    }

    #[test]
    fn a_policy_that_has_less_than_it_is_to_have_is_an_error() {
        let cell = cells().next().expect("the first");
        let rate = |bits| Rate::of(&[bits]);
        let good = Rates {
            untuned: rate(100.0),
            cubic: rate(200.0),
            first: rate(196.0),
            second: Some(rate(201.0)),
        };
        let print = |_: &str| Ok(());
        assert!(conclude(&[(cell, good)], print).is_ok());
        for bad in [
            Rates { untuned: rate(201.0), ..good },
            Rates { first: rate(190.0), ..good },
            Rates { second: Some(rate(199.0)), ..good },
        ] {
            assert!(conclude(&[(cell, good), (cell, bad)], print).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_ratio_within_two_standard_errors_of_its_target_meets_it() {
        let alike = Rate::of(&[100.0, 101.0, 99.0]);
        assert!(Rate::of(&[90.0, 91.0, 89.0]).over(alike).misses(0.98));
        assert!(!Rate::of(&[70.0, 110.0, 90.0]).over(alike).misses(0.98));
        assert!((alike.standard_error - 1.0 / 3.0_f64.sqrt()).abs() < 1e-9);
    }
}
