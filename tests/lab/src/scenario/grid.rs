//! A grid of paths: each variant runs over every one of them.

use serde::Deserialize;
use wad_testbed::emulated::{
    path::{Path, Queue},
    units::Span,
};

/// Tells what is varied; what is left out stays as the scenario's path has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    #[serde(default)]
    pub rtt: Vec<Span>,
    /// Multiples of the bandwidth-delay product.
    #[serde(default)]
    pub queue_bdp: Vec<f64>,
    /// Random loss with the data: probabilities.
    #[serde(default)]
    pub loss: Vec<f64>,
}

/// One path of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The ending of a variant's name, such as `-20ms-0.1bdp`; nothing where nothing is
    /// varied.
    pub suffix: String,
    pub path: Path,
}

impl Grid {
    /// Returns the paths, the RTT varied last.
    #[must_use]
    pub fn cells(&self, path: &Path) -> Vec<Cell> {
        let mut cells = vec![Cell { suffix: String::new(), path: path.clone() }];
        cells = varied(&cells, &self.rtt, |path, rtt| {
            path.rtt = *rtt;
            format!("-{}ms", rtt.0.as_secs_f64() * 1e3)
        });
        cells = varied(&cells, &self.queue_bdp, |path, multiple| {
            path.forward.queue = Queue::Bdp(*multiple);
            format!("-{multiple}bdp")
        });
        varied(&cells, &self.loss, |path, probability| {
            path.forward.loss = *probability;
            format!("-{probability:e}")
        })
    }
}

fn varied<T>(cells: &[Cell], values: &[T], change: fn(&mut Path, &T) -> String) -> Vec<Cell> {
    if values.is_empty() {
        return cells.to_vec();
    }
    let with = |cell: &Cell, value| {
        let mut cell = cell.clone();
        cell.suffix += &change(&mut cell.path, value);
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
    fn losses_are_written_as_powers_of_ten() {
        let grid: Grid = toml::from_str("loss = [0.0001]").unwrap();
        let cells = grid.cells(&toml::from_str(PATH).unwrap());
        assert_eq!(cells[0].suffix, "-1e-4");
        assert!((cells[0].path.forward.loss - 1e-4).abs() < 1e-12);
    }

    #[test]
    fn without_a_grid_there_is_the_path_itself() {
        let cells = Grid::default().cells(&toml::from_str(PATH).unwrap());
        assert_eq!((cells.len(), cells[0].suffix.as_str()), (1, ""));
    }
}
