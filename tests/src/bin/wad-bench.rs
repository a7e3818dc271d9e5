//! `wad-bench`: what wad costs. `cargo xtask bench` runs it.

use std::{env, net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use wad_tests::{
    bench::{Report, ack, connect, reload},
    cli::{self, Peer, print},
};

/// Costs, measured by ratio in alternated runs.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Per ACK: BPF run time, and processor time against the kernel's reno
    Ack(Options),
    /// Per connection, by the number of paths; memory; time to the first tuned flow
    Connect(Options),
    /// A changed configuration of 100,000 paths, until it is in force
    Reload(Options),
    #[command(flatten)]
    Peer(Peer),
    #[command(hide = true, name = "connect-to")]
    ConnectTo { to: SocketAddr },
    #[command(hide = true)]
    Accept { on: SocketAddr },
    #[command(hide = true)]
    FirstTuned { to: SocketAddr },
}

#[derive(clap::Args)]
struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The `wad` binary
    #[arg(long)]
    wad: PathBuf,
}

fn main() -> ExitCode {
    cli::run("wad-bench", || run(Arguments::parse().command))
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Ack(options) => measure(&options, ack::run),
        Command::Connect(options) => measure(&options, connect::run),
        Command::Reload(options) => measure(&options, reload::run),
        Command::Peer(peer) => peer.run(),
        Command::ConnectTo { to } => {
            let rate = connect::connect(to).context("cannot connect")?;
            print(&rate.to_string())
        }
        Command::Accept { on } => Ok(connect::accept(on)?),
        Command::FirstTuned { to } => Ok(connect::first_tuned(to)?),
    }
}

type Bench = fn(&std::path::Path, &std::path::Path) -> Result<Report>;

fn measure(options: &Options, bench: Bench) -> Result<()> {
    cli::prepare(&options.wad)?;
    let me = env::current_exe().context("cannot tell this program's path")?;
    let report = bench(&me, &options.wad)?;
    if options.json {
        print(&serde_json::to_string(&report)?)
    } else {
        print(report.table().trim_end())
    }
}
