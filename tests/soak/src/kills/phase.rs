//! The phases of an agent that are run with a kill, and what is to hold after it.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use wad_testbed::process::run_command;

use super::{
    inventory::{Difference, Inventory},
    world::{Build, World},
};
use crate::traced::{Kill, Traced, When};

/// A phase, from which the agent is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Phase {
    /// A start on a host that has nothing of wad's
    Start,
    /// A start over what an agent of this build left when it was killed
    Takeover,
    /// A reload that changes everything
    Reload,
    /// A reload back
    Revert,
    /// A start over what an agent of another build left
    Upgrade,
    /// An agent of another build takes the place of one that runs
    Handover,
    /// A stop by SIGTERM
    Stop,
    /// `wad cleanup` after a kill
    Cleanup,
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("none is skipped");
        out.write_str(value.get_name())
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.when == When::Before { "before" } else { "after" };
        write!(out, "{when} call {}", self.nth)
    }
}

const TAKE_OVER: &[&str] = &["--take-over"];

/// The inventories that are to be found, whatever has been killed.
pub struct Expected {
    /// The inventory of a host that has had no agent yet.
    before: Inventory,
    /// With an agent that has just started, under the policy of the phase's end.
    started: Inventory,
    /// After its end: what it keeps on the disk is known from here.
    ended: Inventory,
}

/// A phase that is over, or was killed.
struct Run {
    calls: Vec<String>,
    killed_at: Option<String>,
    /// The agents that run still.
    running: Vec<Traced>,
}

impl Run {
    fn of(process: &Traced, running: Vec<Traced>) -> Self {
        let killed_at = process.ended().and_then(|ended| ended.killed_at);
        Self { calls: process.calls(), killed_at, running }
    }
}

impl Expected {
    /// Finds them out, and which calls the phase makes.
    pub fn of(world: &World<'_>, phase: Phase) -> Result<(Self, Vec<String>)> {
        let before = world.inventory()?;
        // A law that was given once stays until the end of tuning.
        world.write_policy(phase.begins_with_second() || phase.ends_with_second())?;
        let agent = world.ready_agent(Build::This, &[])?;
        if phase.begins_with_second() {
            world.write_policy(phase.ends_with_second())?;
            run_command(&mut world.home.command("reload"))?;
        }
        ensure!(world.newcomer()?, "a connection is not tuned: {}", world.log());
        let started = world.settled()?.without_constants();
        world.kill(&agent)?;
        drop(agent);
        world.cleanup(false, None)?;
        let without = |found: &Inventory| found.without_kept().difference(&before);
        world.await_inventory("after a cleanup without any kill in between", without)?;
        let ended = world.inventory()?;
        let expected = Self { before, started, ended };

        let run = phase.run(world, None)?;
        phase.start_again(world, 0, &expected, run.running).context("without a kill")?;
        ensure!(!run.calls.is_empty(), "no call of the phase changes the host");
        Ok((expected, run.calls))
    }

    fn if_ended(&self, found: &Inventory) -> Difference {
        let difference = found.without_kept().difference(&self.before);
        difference.with(found.kept_beyond(&self.ended))
    }
}

impl Phase {
    const fn begins_with_second(self) -> bool {
        matches!(self, Self::Revert)
    }

    const fn ends_with_second(self) -> bool {
        matches!(self, Self::Reload)
    }

    /// Runs it with a kill, and looks at what is to hold afterwards. Returns the call, if it
    /// came to that.
    pub fn killed(
        self,
        world: &World<'_>,
        kill: Kill,
        expected: &Expected,
    ) -> Result<Option<String>> {
        let Run { killed_at, running, .. } = self.run(world, Some(kill))?;
        world.newcomer().context("right after it")?;
        match kill.when {
            When::After => self.start_again(world, kill.nth, expected, running)?,
            When::Before => {
                running.iter().try_for_each(|agent| world.stop(agent))?;
                end(world, expected)?;
            }
        }
        Ok(killed_at)
    }

    /// Runs it, with a kill or to its end.
    fn run(self, world: &World<'_>, kill: Option<Kill>) -> Result<Run> {
        world.forget_state()?;
        world.begin_transfer()?;
        world.write_policy(self.begins_with_second())?;
        Ok(match self {
            Self::Start => {
                let agent = world.agent(Build::This, &[], true, kill)?;
                started(world, agent, Vec::new())?
            }
            Self::Takeover => {
                leave_tuning(world)?;
                let agent = world.agent(Build::This, &[], true, kill)?;
                started(world, agent, Vec::new())?
            }
            Self::Upgrade => {
                leave_tuning(world)?;
                let agent = world.agent(Build::Other, &[], true, kill)?;
                started(world, agent, Vec::new())?
            }
            Self::Handover => {
                let first = world.ready_agent(Build::This, TAKE_OVER)?;
                let second = world.agent(Build::Other, TAKE_OVER, true, kill)?;
                started(world, second, vec![first])?
            }
            Self::Reload | Self::Revert => {
                let agent = world.agent(Build::This, &[], false, kill)?;
                ensure!(world.is_ready(&agent)?, "no agent to reload: {}", world.log());
                world.write_policy(self.ends_with_second())?;
                agent.count(true);
                // It fails where the agent dies.
                let output = world.home.command("reload").output()?;
                agent.count(false);
                let is_well = output.status.success() || kill.is_some();
                ensure!(is_well, "{}", String::from_utf8_lossy(&output.stderr));
                // What was killed is dead a moment later.
                if !output.status.success() {
                    world.end_of(&agent)?;
                }
                let run = Run::of(&agent, Vec::new());
                if run.killed_at.is_some() { run } else { Run { running: vec![agent], ..run } }
            }
            Self::Stop => {
                let agent = world.agent(Build::This, &[], false, kill)?;
                ensure!(world.is_ready(&agent)?, "no agent to stop: {}", world.log());
                agent.count(true);
                agent.signal(Signal::SIGTERM);
                let ended = world.end_of(&agent)?;
                let is_well = ended.is_success || ended.killed_at.is_some();
                ensure!(is_well, "a stop failed: {}", world.log());
                Run::of(&agent, Vec::new())
            }
            Self::Cleanup => {
                leave_tuning(world)?;
                let cleanup = world.cleanup(true, kill)?;
                Run::of(&cleanup, Vec::new())
            }
        })
    }

    /// The next agent starts, under which all is as it is to be; and ends, one way or the other.
    fn start_again(
        self,
        world: &World<'_>,
        nth: usize,
        expected: &Expected,
        running: Vec<Traced>,
    ) -> Result<()> {
        // After an upgrade either build may be the next.
        let is_upgrade = matches!(self, Self::Upgrade | Self::Handover);
        let build = if is_upgrade && nth.is_multiple_of(2) { Build::Other } else { Build::This };
        let agent = if self == Self::Handover {
            world.ready_agent(build, TAKE_OVER).context("the next start")?
        } else {
            running.iter().try_for_each(|agent| world.kill(agent))?;
            world.ready_agent(build, &[]).context("the next start")?
        };
        // Those that have left their place wait to be stopped.
        if self == Self::Handover {
            running.iter().try_for_each(|agent| world.stop(agent))?;
        }
        ensure!(world.newcomer()?, "a connection is not tuned after the next start");
        let differs =
            |found: &Inventory| found.clone().without_constants().difference(&expected.started);
        // A flow keeps the copy of a law that it has begun with.
        world.end_transfer()?;
        world.await_inventory("after the next start", differs)?;
        world.begin_transfer()?;
        if (nth / 2).is_multiple_of(2) {
            world.kill(&agent)?;
            end(world, expected)
        } else {
            world.stop(&agent)?;
            world.end_transfer()?;
            let differs = |found: &Inventory| expected.if_ended(found);
            world.await_inventory("after the next stop", differs)
        }
    }
}

/// Leaves what an agent leaves that is killed.
fn leave_tuning(world: &World<'_>) -> Result<()> {
    let agent = world.ready_agent(Build::This, &[])?;
    world.kill(&agent)
}

/// Waits until a start is over, or was killed.
fn started(world: &World<'_>, agent: Traced, others: Vec<Traced>) -> Result<Run> {
    let is_ready = world.is_ready(&agent)?;
    agent.count(false);
    let run = Run::of(&agent, others);
    ensure!(is_ready || run.killed_at.is_some(), "a start failed: {}", world.log());
    let mut running = run.running;
    if run.killed_at.is_none() {
        running.push(agent);
    }
    Ok(Run { running, ..run })
}

/// `wad cleanup` leaves the host as it was before.
fn end(world: &World<'_>, expected: &Expected) -> Result<()> {
    world.cleanup(false, None)?;
    world.end_transfer()?;
    let differs = |found: &Inventory| expected.if_ended(found);
    world.await_inventory("after a cleanup", differs)
}
