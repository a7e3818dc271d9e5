//! The matrix of kills: each phase of the agent is run once for each of its calls that can change
//! the host, with SIGKILL right before it or right after it.
//!
//! After a kill *after* a call the next agent starts, without help, and then all is as after a
//! start without a kill; it ends in turn by SIGTERM, and by a kill and `wad cleanup`. After a kill
//! *before* a call `wad cleanup` comes at once. In the end the host is as it was before. The state
//! before a call is that after the one before it, unless threads change the host side by side: so
//! each state is met by both.

mod inventory;
mod phase;
mod table;
mod world;

use anyhow::{Result, ensure};
use wad_testbed::signal;

use self::{phase::Expected, world::World};
pub use self::{
    phase::Phase,
    table::{Row, table},
    world::{Build, Builds},
};
use crate::traced::Kill;
pub use crate::traced::When;

/// The kills of a phase that are to be done.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Before calls, or after them, or both.
    pub when: &'a [When],
    /// At calls with one of these words; at all of them if there is none.
    pub words: &'a [&'a str],
    /// One of so many of these, from this one on.
    pub first: usize,
    pub every: usize,
}

impl Part<'_> {
    fn kills(&self, calls: &[String]) -> Vec<Kill> {
        let is_meant = |call: &str| self.words.iter().any(|word| call.contains(word));
        let meant = (1..).zip(calls).filter(|(_, call)| self.words.is_empty() || is_meant(call));
        let all =
            meant.flat_map(|(nth, _)| self.when.iter().map(move |when| Kill { nth, when: *when }));
        all.skip(self.first).step_by(self.every).collect()
    }
}

/// Returns the calls of a phase that can change the host, in the order in which they came.
///
/// # Errors
/// When the phase fails, or its surroundings cannot be made.
pub fn calls(builds: &Builds, phase: Phase) -> Result<Vec<String>> {
    Ok(Expected::of(&World::start(builds)?, phase)?.1)
}

/// Runs a phase with its kills. What fails is in the row.
///
/// # Errors
/// When the phase fails without a kill, or its surroundings cannot be made.
pub fn run(builds: &Builds, phase: Phase, part: Part<'_>, say: &dyn Fn(&str)) -> Result<Row> {
    ensure!(part.every > 0, "every 0th call is none");
    let mut world = World::start(builds)?;
    let (expected, calls) = Expected::of(&world, phase)?;
    let mut row = Row::new(phase, calls.len());
    for kill in part.kills(&calls) {
        let at = &calls[kill.nth - 1];
        signal::check()?;
        match phase.killed(&world, kill, &expected) {
            Ok(killed) => row.count(killed.is_some()),
            Err(error) => {
                signal::check()?;
                let failure = format!("{phase}, {kill} `{at}`: {error:#}");
                say(&failure);
                row.failed(failure);
                // What is left of this one must not be taken for another's.
                drop(world);
                world = World::start(builds)?;
            }
        }
        row.longest_stall = row.longest_stall.max(world.longest_stall());
        if row.kills.is_multiple_of(50) {
            say(&format!("{phase}: call {} of {}", kill.nth, calls.len()));
        }
    }
    Ok(row)
}
