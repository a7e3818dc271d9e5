//! A grid of paths, loads and machines: each variant runs over every one of them.

use serde::Deserialize;
use wad_testbed::emulated::{
    path::{Path, Queue},
    units::{Rate, Span},
};

/// Tells what is varied; what is left out stays as the scenario's path has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    #[serde(default)]
    pub rate: Vec<Rate>,
    #[serde(default)]
    pub rtt: Vec<Span>,
    /// Multiples of the bandwidth-delay product.
    #[serde(default)]
    pub queue_bdp: Vec<f64>,
    /// Random loss with the data: probabilities.
    #[serde(default)]
    pub loss: Vec<f64>,
    /// Sizes of what is sent.
    #[serde(default)]
    pub bytes: Vec<u64>,
    /// Memory of the machine that it is for.
    #[serde(default)]
    pub memory_gib: Vec<u32>,
}

/// One path of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The ending of a variant's name, such as `-20ms-0.1bdp`; nothing where nothing is
    /// varied.
    pub suffix: String,
    pub path: Path,
    pub bytes: Option<u64>,
    pub memory_gib: Option<u32>,
}

impl Grid {
    /// Returns the paths, the rate varied last, then the RTT.
    #[must_use]
    pub fn cells(&self, path: &Path) -> Vec<Cell> {
        let path = path.clone();
        let one = Cell { suffix: String::new(), path, bytes: None, memory_gib: None };
        let mut cells = varied(&[one], &self.rate, |cell, rate| {
            cell.path.forward.rate = *rate;
            format!("-{}Mbit", rate.bits_per_second as f64 / 1e6)
        });
        cells = varied(&cells, &self.rtt, |cell, rtt| {
            cell.path.rtt = *rtt;
            format!("-{}ms", rtt.0.as_secs_f64() * 1e3)
        });
        cells = varied(&cells, &self.queue_bdp, |cell, multiple| {
            cell.path.forward.queue = Queue::Bdp(*multiple);
            format!("-{multiple}bdp")
        });
        cells = varied(&cells, &self.loss, |cell, probability| {
            cell.path.forward.loss = *probability;
            format!("-{probability:e}")
        });
        cells = varied(&cells, &self.bytes, |cell, bytes| {
            cell.bytes = Some(*bytes);
            format!("-{}MB", *bytes as f64 / 1e6)
        });
        varied(&cells, &self.memory_gib, |cell, gib| {
            cell.memory_gib = Some(*gib);
            format!("-{gib}GiB")
        })
    }
}

fn varied<T>(cells: &[Cell], values: &[T], change: fn(&mut Cell, &T) -> String) -> Vec<Cell> {
    if values.is_empty() {
        return cells.to_vec();
    }
    let with = |cell: &Cell, value| {
        let mut cell = cell.clone();
        let suffix = change(&mut cell, value);
        cell.suffix += &suffix;
        cell
    };
    cells.iter().flat_map(|cell| values.iter().map(move |value| with(cell, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "rtt = '70ms'\nforward = { rate = '622Mbit', queue.bdp = 1 }";

    #[test]
    fn every_pair_is_there_once() {
        let grid: Grid = toml::from_str("rtt = ['20ms', '120ms']\nqueue_bdp = [0.1, 1]").unwrap();
        let cells = grid.cells(&toml::from_str(PATH).unwrap());
        let suffixes: Vec<_> = cells.iter().map(|cell| cell.suffix.as_str()).collect();
        assert_eq!(suffixes, ["-20ms-0.1bdp", "-20ms-1bdp", "-120ms-0.1bdp", "-120ms-1bdp"]);
        assert_eq!(cells[2].path.queue_bytes(&cells[2].path.forward), 933_000);
    }

    #[test]
    fn a_path_of_another_rate_holds_more() {
        let grid: Grid = toml::from_str("rate = ['8Mbit', '1Gbit']").unwrap();
        let cells = grid.cells(&toml::from_str(PATH).unwrap());
        let suffixes: Vec<_> = cells.iter().map(|cell| cell.suffix.as_str()).collect();
        assert_eq!(suffixes, ["-8Mbit", "-1000Mbit"]);
        assert_eq!(cells[0].path.bdp_bytes(), 70_000);
    }

    #[test]
    fn losses_are_written_as_powers_of_ten() {
        let grid: Grid = toml::from_str("loss = [0.0001]").unwrap();
        let cells = grid.cells(&toml::from_str(PATH).unwrap());
        assert_eq!(cells[0].suffix, "-1e-4");
        assert!((cells[0].path.forward.loss - 1e-4).abs() < 1e-12);
    }

    #[test]
    fn loads_and_machines_vary_over_one_path() {
        let grid: Grid = toml::from_str("bytes = [10_000_000]\nmemory_gib = [1, 4]").unwrap();
        let cells = grid.cells(&toml::from_str(PATH).unwrap());
        let suffixes: Vec<_> = cells.iter().map(|cell| cell.suffix.as_str()).collect();
        assert_eq!(suffixes, ["-10MB-1GiB", "-10MB-4GiB"]);
        assert_eq!((cells[1].bytes, cells[1].memory_gib), (Some(10_000_000), Some(4)));
    }

    #[test]
    fn without_a_grid_there_is_the_path_itself() {
        let cells = Grid::default().cells(&toml::from_str(PATH).unwrap());
        assert_eq!((cells.len(), cells[0].suffix.as_str()), (1, ""));
    }
}
