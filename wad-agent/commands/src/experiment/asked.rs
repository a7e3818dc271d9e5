//! An experiment is asked to be so, where that is not left to what fits the path.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use wad_policy::config::{self, AskedExperiment};

/// Says what ends an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ends {
    /// The verdict on goodput
    Verdict,
    /// Its time
    Time,
}

#[derive(Debug, Args)]
pub struct Asked {
    /// Nine in ten of the path's connections do not last longer [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub flow_life: Option<Duration>,
    /// The length of blocks [default: what fits the path]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub block: Option<Duration>,
    /// Connections that begin so soon after the begin of a block do not count [default: what
    /// fits the path]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub burn_in: Option<Duration>,
    /// It goes on for so long at most [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// It ends then at the latest: a date and time with its zone
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
    /// It ends by this [default: verdict]
    #[arg(long)]
    pub ends: Option<Ends>,
    /// The probability, at most, that any verdict is wrong, 0.001 to 0.5 [default: 0.05]
    #[arg(long, value_name = "P")]
    pub alpha: Option<f64>,
    /// It decides which block of each two has the policy [default: chance]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub seed: Option<u64>,
    /// A path of others on the same way, with mode = "observe"; may be given several times
    #[arg(long = "neighbour", value_name = "PATH")]
    pub neighbours: Vec<String>,
}

impl Asked {
    pub fn experiment(&self) -> AskedExperiment {
        let Self { flow_life, block, burn_in, duration, until, ends, alpha, seed, neighbours } =
            self;
        AskedExperiment {
            flow_life: *flow_life,
            block: *block,
            burn_in: *burn_in,
            duration: *duration,
            until: until.map(|until| Duration::try_from(until.as_duration()).unwrap_or_default()),
            ends_by_verdict: ends.map(|ends| ends == Ends::Verdict),
            alpha: *alpha,
            seed: *seed,
            neighbours: neighbours.clone(),
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let range = Duration::from_millis(1)..=366 * DAY;
    config::duration(text, range, "1ms to 366d").map_err(|fault| fault.to_string())
}
