//! A soak: connections come and go at full rate, while the agent is reloaded, restarted, killed,
//! upgraded, and everything around it comes and goes. Every random choice is made from one seed.
//!
//! Clock steps are no part of it: they are the whole host's.

mod counts;
mod data;
mod events;
mod failures;
mod figures;
mod ground;
mod load;
mod tally;

use std::time::{Duration, Instant};

use anyhow::Result;
use wad_testbed::{random::Random, signal};

pub use self::figures::Report;
use self::{events::Weather, figures::Figures, ground::Ground, load::Load};
use crate::kills::Builds;

/// How long a soak takes, and from what its random choices are made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub span: Duration,
    pub seed: u64,
}

/// Figures are taken, and a line of progress is shown, so often.
const LOOK: Duration = Duration::from_secs(10);
/// A shorter soak has too few looks to be judged by.
pub const SHORTEST: Duration = Duration::from_secs(120);
/// Between two events, at most.
const PAUSE_MS: u64 = 2_500;

/// Runs a soak. What went wrong is in the report.
///
/// # Errors
/// When its ground cannot be made, an agent does not start, or a signal comes.
pub fn run(builds: &Builds, options: Options, say: &dyn Fn(&str)) -> Result<Report> {
    let mut random = Random::new(options.seed);
    let ground = Ground::start(builds)?;
    let load = Load::start(&ground.wire, random.next())?;
    let mut weather = Weather::start(&ground, &load)?;
    let mut figures = Figures::default();
    let begun = Instant::now();
    let mut looked = begun;
    while begun.elapsed() < options.span {
        signal::sleep(Duration::from_millis(random.up_to(PAUSE_MS)))?;
        weather.change(&mut random)?;
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            figures.look(&ground, weather.agent_id()?, begun.elapsed())?;
            say(&figures.line(&load, &weather.counts));
        }
    }
    let mut failures = weather.end()?;
    failures.extend(load.end()?);
    failures.extend(figures.judge());
    failures.extend(figures.left_behind()?);
    failures.extend(ground.left_behind()?);
    Ok(figures.report(options.seed, load.done(), weather.counts.clone(), failures))
}
