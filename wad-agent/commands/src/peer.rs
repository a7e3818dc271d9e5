//! `wad peer`: agents at other ends of paths, and the keys and certificates by which they know
//! each other.

mod init;
mod issue;
mod node;
mod rotate;
mod show;
mod status;

use anyhow::Result;
use clap::{Args, Subcommand};

pub use self::show::Shown;

#[derive(Debug, Args)]
pub struct Peer {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an authority in a folder, and a key and certificate of this host
    Init(init::Init),
    /// Make a key and certificate of another host, and say what belongs where
    Issue(issue::Issue),
    /// Renew this host's key and certificate, both at once; a running agent takes them by itself
    Rotate(rotate::Rotate),
    /// Show what a certificate says, and what the other end writes into its file
    Show(show::Show),
    /// Show what the running agent hears of its peers, and which it does not hear, and why
    Status(status::Status),
}

/// `wad peer`.
pub fn run(Peer { command }: &Peer) -> Result<()> {
    match command {
        Command::Init(args) => init::run(args),
        Command::Issue(args) => issue::run(args),
        Command::Rotate(args) => rotate::run(args),
        Command::Show(args) => show::run(args),
        Command::Status(args) => status::run(args),
    }
}
