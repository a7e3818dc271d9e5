//! `wad experiment status`: how far experiments are.

use anyhow::Result;
use clap::Args;
use wad_agent::{
    client::{self, Request},
    evidence::{AT, ExperimentTold, ExperimentsTold},
};
use wad_toolbox::text_table::TextTable;

use crate::{arguments::Ask, output, report::words};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only the experiment on this path
    pub path: Option<String>,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad experiment status`.
pub fn run(Arguments { path, ask }: &Arguments) -> Result<()> {
    let mut told: ExperimentsTold = client::ask_instance(&ask.instance.name, &Request::get(AT))?;
    told.experiments.retain(|it| path.as_ref().is_none_or(|path| *path == it.path));
    if ask.json {
        return output::print_json(&told);
    }
    let titles = ["PATH", "PAIRS", "NOT COUNTED", "KINDS", "GOODPUT", "STATE"];
    output::print(TextTable::new(titles).with_rows(told.experiments.iter().map(row)))
}

fn row(it: &ExperimentTold) -> [String; 6] {
    let counts = &it.counts;
    [
        it.path.escape_debug().to_string(),
        format!("{} of {}", counts.pairs, it.blocks / 2),
        counts.thrown.values().sum::<u64>().to_string(),
        if words::are_alike(counts) { "alike" } else { "not alike" }.to_owned(),
        it.found.first().map_or_else(|| "-".to_owned(), words::verdict),
        words::state(it),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::told;

    #[test]
    fn kinds_of_which_one_was_chosen_are_not_alike() {
        let mut told = told();
        // 70 with the policy crossed, and 20 without.
        assert_eq!(row(&told)[..4], ["bob", "18 of 2520", "1", "not alike"]);
        told.counts.crossed_default = 70;
        assert_eq!(row(&told)[3], "alike");
        told.counts.held_up_tuned = 40;
        assert_eq!(row(&told)[3], "not alike");
    }
}
