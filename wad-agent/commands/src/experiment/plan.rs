//! `wad experiment plan`: how an experiment would be, before there is one.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use wad_agent::evidence::at;
use wad_evidence::{experiment::Settings, metric::METRICS, plan::Moment};
use wad_policy::config::{AskedExperiment, Config, Host, PathPolicy, refuse_neighbours};
use wad_toolbox::{amounts::Time, text_table::TextTable};

use super::asked::Asked;
use crate::{arguments::ConfigFile, error::CommandError, output};

#[derive(Debug, Args)]
pub struct Arguments {
    /// The path's name
    pub path: String,
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub asked: Asked,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How an experiment would be that is begun now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Planned {
    path: String,
    block_seconds: f64,
    burn_in_seconds: f64,
    blocks: u64,
    begins: Timestamp,
    /// It ends then at the latest.
    ends: Timestamp,
    alpha: f64,
    /// How long it takes until effects are found.
    takes: Vec<Takes>,
}

/// An effect takes so long to be found, if the logarithms of blocks deviate by so much and blocks
/// are independent of each other: in half of all experiments, and in nine of ten.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Takes {
    effect: f64,
    deviation: f64,
    half_seconds: f64,
    most_seconds: f64,
}

/// Pairs until effects are found, as simulated for one metric at an alpha of [`SIMULATED_ALPHA`]
/// (`wad-agent/evidence/tests/simulation/coverage.rs` prints them): an effect, the deviation of a
/// block's logarithm, and pairs for half and for nine in ten.
const PAIRS: [(f64, f64, u32, u32); 6] = [
    (2.0, 0.1, 9, 9),
    (2.0, 0.3, 11, 18),
    (1.2, 0.1, 13, 24),
    (1.2, 0.3, 72, 122),
    (1.05, 0.1, 101, 175),
    (1.05, 0.3, 699, 1_474),
];

const SIMULATED_ALPHA: f64 = 0.05;

/// Returns how many times longer it takes at the alpha that goodput has in an experiment: the
/// time that a bet takes grows with the logarithm of the gain that decides it.
fn times_longer(alpha: f64) -> f64 {
    let gain = |alpha: f64| (2.0 / alpha).ln();
    gain(METRICS[0].question(alpha).alpha) / gain(SIMULATED_ALPHA)
}

/// `wad experiment plan`.
pub fn run(args: &Arguments) -> Result<()> {
    let config = Config::load(&args.config.file, &Host::read()?)?;
    let path = config.paths.iter().find(|path| path.name == args.path);
    let path = path.ok_or_else(|| anyhow!("no path of the file is called {:?}", args.path))?;
    let asked = args.asked.experiment();
    if let Some(why) = refuse_neighbours(path, &asked.neighbours, &config.paths) {
        bail!("{why}");
    }
    let of_file = path.experiment.as_deref().filter(|_| asked == Default::default());
    let now = Duration::try_from(Timestamp::now().as_duration()).unwrap_or_default();
    let Settings { plan, alpha, .. } = match of_file {
        Some(settings) => settings.begin(now, 0)?,
        None => of_command_line(&asked, path, now)?,
    };
    let pair_seconds = 2.0 * plan.length().as_secs_f64();
    let seconds = |pairs: u32| (f64::from(pairs) * times_longer(alpha)).ceil() * pair_seconds;
    let planned = Planned {
        path: path.name.clone(),
        block_seconds: plan.length().as_secs_f64(),
        burn_in_seconds: plan.burn_in().as_secs_f64(),
        blocks: plan.blocks(),
        begins: at(plan.start()),
        ends: at(plan.end()),
        alpha,
        takes: PAIRS
            .map(|(effect, deviation, half, most)| Takes {
                effect,
                deviation,
                half_seconds: seconds(half),
                most_seconds: seconds(most),
            })
            .into(),
    };
    if args.json { output::print_json(&planned) } else { output::print(Page(&planned)) }
}

fn of_command_line(
    asked: &AskedExperiment,
    path: &PathPolicy,
    now: Moment,
) -> Result<Settings, CommandError> {
    Ok(asked.settle(path)?.begin(now, 0)?)
}

struct Page<'p>(&'p Planned);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Planned { path, blocks, begins, ends, .. } = self.0;
        let (length, burn_in) = (Time(self.0.block_seconds), Time(self.0.burn_in_seconds));
        writeln!(f, "An experiment on path {} that is begun now:", path.escape_debug())?;
        writeln!(f, "begins  {begins}, when a pair of blocks may")?;
        writeln!(f, "ends    {ends} at the latest, after {blocks} blocks of {length}")?;
        writeln!(
            f,
            "counts  connections that begin {burn_in} or more after their block, and end in it"
        )?;
        writeln!(
            f,
            "\nUntil an effect on goodput has its verdict, about, where blocks differ so much:\n"
        )?;
        let titles = ["TIMES BETTER", "BLOCKS DIFFER", "HALF TAKE", "NINE IN TEN TAKE"];
        let rows = self.0.takes.iter().map(|takes| {
            [
                format!("{}x", takes.effect),
                format!("by {:.0}%", takes.deviation * 100.0),
                Time(takes.half_seconds).to_string(),
                Time(takes.most_seconds).to_string(),
            ]
        });
        let table = TextTable::new(titles).with_figures_behind(0).with_rows(rows);
        if f.alternate() { write!(f, "{table:#}") } else { write!(f, "{table}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_alpha_takes_a_fifth_more() {
        assert!((times_longer(0.05) - 1.188).abs() < 1e-3);
        assert!((times_longer(0.1) - 1.0).abs() < 1e-12);
    }
}
