//! `wad guard`: what guards over paths do is shown, and ended by hand.

mod release;
mod show;
pub mod words;

use anyhow::Result;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct Guard {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what guards do, and what of their paths is under suspicion
    Show(show::Arguments),
    /// Have a path's policy in force again that its guard holds back or tries
    Release(release::Arguments),
}

/// `wad guard`.
pub fn run(Guard { command }: &Guard) -> Result<()> {
    match command {
        Command::Show(args) => show::run(args),
        Command::Release(args) => release::run(args),
    }
}
