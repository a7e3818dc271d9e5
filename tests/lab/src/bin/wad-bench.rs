//! `wad-bench` measures what wad costs. `cargo xtask bench` runs it.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use wad_lab::{
    bench::{Report, ack, connect, containers, instruments, page, reload, scan},
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
    /// Per ACK: BPF run time, and processor time beside the kernel's cubic
    Ack(Options),
    /// Per connection, by the number of paths; memory; time to the first tuned flow
    Connect(Options),
    /// A changed configuration of 100,000 paths, until it is in force; a scrape of them
    Reload(Options),
    /// Reading every flow of 10,000, and events of 20,000 connections per second
    Instruments {
        #[command(flatten)]
        options: Options,
        #[arg(long, default_value_t = instruments::Load::default().flows)]
        flows: usize,
        #[arg(long, value_name = "N", default_value_t = instruments::Load::default().connections_per_second)]
        connections_per_second: u32,
    },
    /// Scanning 10,000 and 100,000 flows: BPF run time
    Scan(Options),
    /// The page of 10,000 flows beside 1,000 slow clients; with --look, in Chromium, too
    Page {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        look: page::Look,
    },
    /// A host with 500 containers, each with flows of several paths, beside one with none
    Containers {
        #[command(flatten)]
        options: Options,
        #[arg(long, value_name = "N", default_value_t = containers::Load::default().containers)]
        containers: usize,
    },
    #[command(flatten)]
    Peer(Peer),
    #[command(hide = true)]
    Drain { on: SocketAddr },
    #[command(hide = true, name = "connect-to")]
    ConnectTo { to: SocketAddr },
    #[command(hide = true)]
    Accept { on: SocketAddr },
    #[command(hide = true)]
    FirstTuned { to: SocketAddr },
    #[command(hide = true)]
    HoldOpen { count: usize, on: Vec<SocketAddr> },
    #[command(hide = true)]
    ComeAndGo { to: SocketAddr, per_second: u32 },
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
        Command::Instruments { options, flows, connections_per_second } => {
            let load = instruments::Load { flows, connections_per_second };
            measure(&options, |me, wad| instruments::run(me, wad, load))
        }
        Command::Scan(options) => measure(&options, scan::run),
        Command::Page { options, look } => measure(&options, |me, wad| page::run(me, wad, &look)),
        Command::Containers { options, containers } => {
            let load = containers::Load { containers };
            measure(&options, |me, wad| containers::run(me, wad, load))
        }
        Command::Peer(peer) => peer.run(),
        Command::Drain { on } => print(&ack::drain(on).context("cannot receive")?.to_string()),
        Command::ConnectTo { to } => {
            let rate = connect::connect(to).context("cannot connect")?;
            print(&rate.to_string())
        }
        Command::Accept { on } => Ok(connect::accept(on)?),
        Command::FirstTuned { to } => Ok(connect::first_tuned(to)?),
        Command::HoldOpen { count, on } => instruments::hold_open(count, &on),
        Command::ComeAndGo { to, per_second } => {
            print(&instruments::come_and_go(to, per_second)?.to_string())
        }
    }
}

fn measure(options: &Options, bench: impl FnOnce(&Path, &Path) -> Result<Report>) -> Result<()> {
    cli::prepare(&options.wad)?;
    let me = env::current_exe().context("cannot tell this program's path")?;
    let report = bench(&me, &options.wad)?;
    if options.json {
        print(&serde_json::to_string(&report)?)?;
    } else {
        print(report.table().trim_end())?;
    }
    report.ensure_met()
}
