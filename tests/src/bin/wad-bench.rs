//! `wad-bench`: what wad costs. `cargo xtask bench` runs it.

use std::{env, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use nix::unistd::Uid;
use wad_tests::{
    bench::{Report, ack, connect},
    lab::bulk,
    say, signal,
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
    #[command(hide = true)]
    Send { to: SocketAddr, seconds: u64 },
    #[command(hide = true)]
    Receive { on: SocketAddr },
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
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("wad-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Ack(options) => measure(&options, ack::run),
        Command::Connect(options) => measure(&options, connect::run),
        Command::Send { to, seconds } => {
            let sent = bulk::send(to, 1, Duration::from_secs(seconds)).context("cannot send")?;
            print(&serde_json::to_string(&sent)?)
        }
        Command::Receive { on } => {
            let received = bulk::receive(on, 1).context("cannot receive")?;
            print(&serde_json::to_string(&received)?)
        }
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
    ensure!(Uid::effective().is_root(), "run it as root: it makes network namespaces");
    signal::catch()?;
    let me = env::current_exe().context("cannot tell this program's path")?;
    let report = bench(&me, &options.wad)?;
    if options.json {
        print(&serde_json::to_string(&report)?)
    } else {
        print(report.table().trim_end())
    }
}

fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
