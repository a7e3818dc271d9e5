//! Figures say what an agent takes, looked at again and again, and whether that grows.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use wad_testbed::{
    bpf::{self, Kind},
    signal,
};

use super::{
    counts::Counts,
    ground::Ground,
    load::{Done, Load},
};

/// An agent takes this at a moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    /// By figure, in the order of [`FIGURES`].
    values: [u64; FIGURES.len()],
}

/// A figure may differ from look to look by so much, with an agent that has just begun, a policy
/// set that is just going, or events that have just come.
struct Figure {
    name: &'static str,
    slack: u64,
}

const FIGURES: [Figure; 6] = [
    Figure { name: "resident KiB", slack: 4096 },
    Figure { name: "maps' KiB", slack: 1024 },
    Figure { name: "descriptors", slack: 16 },
    Figure { name: "threads", slack: 6 },
    Figure { name: "BPF objects", slack: 40 },
    Figure { name: "pins", slack: 4 },
];

/// A figure's upper envelope may rise by this part, and by its slack.
const RISE: f64 = 0.05;

/// All looks, and the objects of BPF that agents have had.
#[derive(Default)]
pub struct Figures {
    looks: Vec<Look>,
    objects: BTreeSet<(Kind, u32)>,
}

impl Figures {
    /// Looks at the agent of that number.
    pub fn look(&mut self, ground: &Ground<'_>, id: u32, at: Duration) -> Result<()> {
        let process = Path::new("/proc").join(id.to_string());
        let status = fs::read_to_string(process.join("status"))?;
        let field = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            Ok(word.with_context(|| format!("no {name} of process {id}"))?.parse()?)
        };
        let map_bytes = self.note_objects(&process)?;
        let values = [
            field("VmRSS:")?,
            map_bytes / 1024,
            fs::read_dir(process.join("fd"))?.count() as u64,
            field("Threads:")?,
            self.alive()?,
            count_below(&ground.home.pins()),
        ];
        self.looks.push(Look { at, values });
        Ok(())
    }

    /// Notes what the process has open; returns the memory of its maps.
    fn note_objects(&mut self, process: &Path) -> Result<u64> {
        let (mut maps, mut bytes) = (BTreeSet::new(), 0);
        for entry in fs::read_dir(process.join("fdinfo"))? {
            // It may have been closed meanwhile.
            let Ok(info) = fs::read_to_string(entry?.path()) else { continue };
            let field = |name: &str| -> Option<u64> {
                info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            };
            // A link tells of its program, too.
            for kind in [Kind::Link, Kind::Map, Kind::Program] {
                let Some(id) = field(kind.number()) else { continue };
                self.objects.insert((kind, id as u32));
                if kind == Kind::Map && maps.insert(id) {
                    bytes += field("memlock:").unwrap_or(0);
                }
            }
        }
        Ok(bytes)
    }

    /// Returns how many of the objects that agents have had are in the kernel.
    fn alive(&mut self) -> Result<u64> {
        for object in self.objects.clone() {
            let (kind, id) = object;
            if bpf::name(kind, id)?.is_none() {
                self.objects.remove(&object);
            }
        }
        Ok(self.objects.len() as u64)
    }

    /// Says whether any are there still, some time after the end.
    pub fn left_behind(&mut self) -> Result<Option<String>> {
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            if self.alive()? == 0 {
                return Ok(None);
            }
            signal::sleep(Duration::from_millis(100))?;
        }
        Ok(Some(format!("{} objects of BPF are left in the kernel", self.objects.len())))
    }

    /// Returns a line of progress.
    pub fn line(&self, load: &Load, counts: &Counts) -> String {
        let Some(look) = self.looks.last() else { return String::new() };
        let Done { connections, bytes } = load.done();
        let figures = FIGURES
            .iter()
            .zip(look.values)
            .map(|(figure, value)| format!("{value} {}", figure.name));
        format!(
            "{:>5} s: {connections} connections, {:.1} GB; {} reloads, {} restarts, {} kills, {} \
             upgrades; {}",
            look.at.as_secs(),
            bytes as f64 / 1e9,
            counts.reloads,
            counts.restarts,
            counts.kills,
            counts.upgrades,
            figures.collect::<Vec<_>>().join(", ")
        )
    }

    /// Says which figures rise: after a third of the looks, in which all warms up, the highest
    /// value of the last third may be above that of the second by [`RISE`] and the slack; and so
    /// may what the line through both thirds (least squares) gains over them.
    pub fn judge(&self) -> Vec<String> {
        let mut rising = Vec::new();
        for (place, figure) in FIGURES.iter().enumerate() {
            let values: Vec<_> =
                self.looks.iter().map(|look| (look.at.as_secs_f64(), look.values[place])).collect();
            rising
                .extend(rises(&values, figure.slack).map(|why| format!("{}: {why}", figure.name)));
        }
        rising
    }

    /// Makes the report.
    pub fn report(&self, seed: u64, done: Done, counts: Counts, failures: Vec<String>) -> Report {
        let mut table = format!(
            "seed {seed}: {} connections, {:.1} GB\n{} reloads, {} restarts, {} kills, {} \
             upgrades, {} namespaces, {} cgroups, {} changes of services; counts of all paths \
             compared {} times\n\n{:<14} {:>10} {:>10} {:>10}\n",
            done.connections,
            done.bytes as f64 / 1e9,
            counts.reloads,
            counts.restarts,
            counts.kills,
            counts.upgrades,
            counts.namespaces,
            counts.cgroups,
            counts.services,
            counts.comparisons,
            "most of thirds",
            "first",
            "second",
            "last",
        );
        for (place, figure) in FIGURES.iter().enumerate() {
            let values: Vec<_> = self.looks.iter().map(|look| look.values[place]).collect();
            let [first, second, last] = thirds(&values).map(|third| most(third.iter().copied()));
            let _ = writeln!(table, "{:<14} {first:>10} {second:>10} {last:>10}", figure.name);
        }
        Report { table, failures }
    }
}

/// A soak has shown this.
#[derive(Debug)]
pub struct Report {
    pub table: String,
    pub failures: Vec<String>,
}

fn thirds<T>(values: &[T]) -> [&[T]; 3] {
    let (first, rest) = values.split_at(values.len() / 3);
    let (second, last) = rest.split_at(rest.len() / 2);
    [first, second, last]
}

fn most(values: impl Iterator<Item = u64>) -> u64 {
    values.max().unwrap_or(0)
}

/// Says how values rise, of which each has its time in seconds.
fn rises(values: &[(f64, u64)], slack: u64) -> Option<String> {
    const FEWEST: usize = 9;
    if values.len() < FEWEST {
        return Some(format!("{} looks are too few to be judged", values.len()));
    }
    let [_, second, last] = thirds(values);
    let [before, after] = [second, last].map(|third| most(third.iter().map(|(_, value)| *value)));
    let bound = before as f64 * RISE + slack as f64;
    if after as f64 > before as f64 + bound {
        return Some(format!("at most {before}, and later {after}"));
    }
    let judged = || second.iter().chain(last);
    let count = judged().count() as f64;
    let mean_time = judged().map(|(time, _)| time).sum::<f64>() / count;
    let mean = judged().map(|(_, value)| *value as f64).sum::<f64>() / count;
    let spread = judged().map(|(time, _)| (time - mean_time).powi(2)).sum::<f64>();
    let together =
        judged().map(|(time, value)| (time - mean_time) * (*value as f64 - mean)).sum::<f64>();
    let gained = together / spread * (last[last.len() - 1].0 - second[0].0);
    (gained > bound).then(|| format!("gains {gained:.0} in the time that was judged"))
}

fn count_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| 1 + count_below(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(values: impl IntoIterator<Item = u64>) -> Vec<(f64, u64)> {
        values.into_iter().zip(0..).map(|(value, time)| (f64::from(time) * 10.0, value)).collect()
    }

    #[test]
    fn what_goes_to_and_fro_does_not_rise() {
        let to_and_fro = (0..30).map(|n| 1000 + n % 5 * 20);
        assert_eq!(rises(&timed(to_and_fro), 10), None);
        // It warms up.
        let warming = (0..10).map(|n| n * 100).chain([1000; 20]);
        assert_eq!(rises(&timed(warming), 10), None);
    }

    #[test]
    fn a_leak_rises() {
        let slow = (0..30).map(|n| 1000 + n * 10);
        assert!(rises(&timed(slow), 10).is_some());
        // Nothing but the envelope shows this one.
        let rare = (0..30).map(|n| if n == 29 { 2000 } else { 1000 });
        assert!(rises(&timed(rare), 10).is_some_and(|why| why.contains("later 2000")));
        assert!(rises(&timed([1; 5]), 10).is_some_and(|why| why.contains("too few")));
    }
}
