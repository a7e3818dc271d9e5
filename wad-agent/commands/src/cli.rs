//! The command line.

use clap::{Parser, Subcommand};
use wad_tuning::routes::GUARD;

use crate::{
    arguments::{Ask, ConfigFile},
    cleanup, diagnose, explain, flows, plan, plot, run, switch, top, trace,
};

/// Tunes chosen TCP flows on chosen paths, with no change to applications.
#[derive(Debug, Parser)]
#[command(name = "wad", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tune new flows as the configuration says, until stopped
    Run(run::Run),
    /// Check a configuration, and show what would be done
    Check(ConfigFile),
    /// Show what a path asks for: buffers, congestion control, streams, and the
    /// policy to paste
    Plan(plan::Arguments),
    /// Show what the running agent does
    Status(Ask),
    /// Show which path the connections to an address fall under, what they get, and
    /// why
    Explain(explain::Explain),
    /// Have the running agent read its configuration again, and say what changed
    Reload(Ask),
    /// Tune no flow of a path, or none at all, until it is enabled again
    Disable(switch::Switch),
    /// Tune again what was disabled
    Enable(switch::Switch),
    /// Show what is known of each path, from where, how old it is, and the policy
    /// that came of it
    Paths(Ask),
    /// Show every flow of the paths, and what TCP knows of it
    Flows(flows::Flows),
    /// Write chosen instruments of chosen flows to a file, at a steady beat
    Trace(trace::Trace),
    /// Draw what was traced: windows, rate, RTT and retransmissions over time
    Plot(plot::Plot),
    /// Say what limits a flow, how that is known, and what would help
    Diagnose(diagnose::Diagnose),
    /// Show flows and paths live, with their rates and what limits them
    #[command(after_help = format!("Keys:\n{}", top::KEYS))]
    Top(top::Top),
    /// Take the agent's routes out if it is killed; it starts this itself
    #[command(name = GUARD, hide = true)]
    GuardRoutes,
    /// Take everything of wad's out of the kernel, and undo what it changed
    Cleanup(cleanup::Cleanup),
}
