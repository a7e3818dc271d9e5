//! A report for people.

use std::fmt::{self, Display};

use wad_agent::evidence::ExperimentTold;
use wad_toolbox::{amounts::Time, text_table::TextTable};

use super::words;

/// All experiments, one after the other.
pub struct Page<'p>(pub &'p [ExperimentTold]);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "There is no experiment, and none is kept of that time.");
        }
        for (number, it) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write(it, f)?;
        }
        Ok(())
    }
}

fn write(it: &ExperimentTold, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "path {}: {}", it.path.escape_debug(), words::state(it))?;
    writeln!(f, "compared  new connections with the policy, and without: {}", it.subject)?;
    if !it.neighbours.is_empty() {
        writeln!(f, "          and beside them those of {}", it.neighbours.join(", "))?;
    }
    let (length, burn_in) = (Time(it.block_seconds), Time(it.burn_in_seconds));
    writeln!(f, "when      {} to {}, at the latest to {}", it.begins, it.reached, it.ends)?;
    writeln!(f, "how       blocks of {length}, {burn_in} of burn-in, seed {}", it.seed)?;
    writeln!(f, "counted   {}", words::counted(&it.counts))?;
    for left_out in words::not_counted(&it.counts) {
        writeln!(f, "not       {left_out}")?;
    }
    writeln!(f)?;
    let titles = ["METRIC", "VERDICT", "TIMES BETTER", "POSSIBLE", "EQUAL", "PAIRS", "MORE"];
    let rows = it.found.iter().map(words::row);
    write_table(TextTable::new(titles).with_figures_behind(2).with_rows(rows), f)?;
    let sizes: Vec<_> = it.found.iter().flat_map(words::sizes).collect();
    if !sizes.is_empty() {
        writeln!(f)?;
        let titles = ["BY SIZE, NOT JUDGED", "FROM", "TIMES BETTER", "PAIRS"];
        write_table(TextTable::new(titles).with_figures_behind(1).with_rows(sizes), f)?;
    }
    writeln!(f, "\n{}", words::sure(it))?;
    words::doubts(it).iter().try_for_each(|doubt| writeln!(f, "{doubt}"))
}

fn write_table(table: TextTable, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if f.alternate() { write!(f, "{table:#}") } else { write!(f, "{table}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::told;

    #[test]
    fn it_is_as_agreed() {
        let expected = "\
path bob: in block 38 of 5040: new connections get the kernel's defaults until 1970-01-01T00:02:00Z
compared  new connections with the policy, and without: remote 10.0.0.0/8; sndbuf 4.0 MiB
when      1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z, at the latest to 1970-01-08T00:00:00Z
how       blocks of 2 min, 10.1 s of burn-in, seed 7
counted   18 pairs of 37 blocks, with 370 connections that got the policy and 369 that did not
not       1 blocks: the agent or the host was restarted
not       90 connections begun in a block before
not       of those begun in a block before, 70 with the policy, 20 without

METRIC             VERDICT  TIMES BETTER          POSSIBLE         EQUAL  PAIRS     MORE
goodput            better         2.010x  1.800x to 2.200x  up to 1.050x     18        -
octets sent again  go on          0.900x               any  up to 1.250x     18  unknown
";
        let page = Page(&[told()]).to_string();
        assert!(page.starts_with(expected), "{page}");
        assert!(page.contains("part of an effect may be one of choice"), "{page}");
    }
}
