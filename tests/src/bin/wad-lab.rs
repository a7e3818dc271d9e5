//! `wad-lab`: experiments on an emulated long path. `cargo xtask lab` and
//! `cargo xtask demo` run it.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand, ValueEnum};
use nix::unistd::Uid;
use wad_tests::{
    lab::{
        bulk, demo, progress,
        run::{Client, Lab},
        scenario::Scenario,
        table,
    },
    say, signal,
};

/// Real TCP over an emulated long path, with and without `wad`.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The scenarios and what they are about.
    List,
    /// Runs one scenario.
    Run {
        scenario: String,
        /// Runs of each variant, alternated; the medians are shown.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        repeat: u32,
        /// Prints everything measured as JSON.
        #[arg(long)]
        json: bool,
        /// Who sends and receives.
        #[arg(long, value_enum, default_value_t = ClientName::Own)]
        client: ClientName,
        /// The `wad` binary.
        #[arg(long)]
        wad: PathBuf,
    },
    /// What tuning gains on two paths, in about a minute: a table and a picture.
    Demo {
        /// The `wad` binary.
        #[arg(long)]
        wad: PathBuf,
        /// The folder that the picture goes to.
        #[arg(long, default_value = "target")]
        out: PathBuf,
    },
    /// The bulk sender.
    #[command(hide = true)]
    Send { to: SocketAddr, streams: u32, seconds: u64 },
    /// The bulk receiver.
    #[command(hide = true)]
    Receive { on: SocketAddr, streams: u32 },
}

#[derive(Clone, Copy, ValueEnum)]
enum ClientName {
    Own,
    Iperf3,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("wad-lab: {error:#}"));
            // As a shell has it for a command that SIGINT ended.
            if signal::check().is_err() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => list(),
        Command::Run { scenario, repeat, json, client, wad } => {
            let lab = lab(wad, client)?;
            let scenario = Scenario::load(&scenario)?;
            let report = lab.run(&scenario, repeat, &progress::Line::new(&scenario, repeat))?;
            if json {
                print(&serde_json::to_string(&report)?)
            } else {
                print(table::render(&[report]).trim_end())
            }
        }
        Command::Demo { wad, out } => {
            let text = demo::run(&lab(wad, ClientName::Own)?, &out)?;
            print(text.trim_end())
        }
        Command::Send { to, streams, seconds } => {
            let sent = bulk::send(to, streams, Duration::from_secs(seconds));
            print(&serde_json::to_string(&sent.context("cannot send")?)?)
        }
        Command::Receive { on, streams } => {
            let received = bulk::receive(on, streams).context("cannot receive")?;
            print(&serde_json::to_string(&received)?)
        }
    }
}

fn list() -> anyhow::Result<()> {
    for name in Scenario::names()? {
        print(&format!("{name:<16} {}", Scenario::load(&name)?.description))?;
    }
    Ok(())
}

fn lab(wad: PathBuf, client: ClientName) -> anyhow::Result<Lab> {
    if !Uid::effective().is_root() {
        bail!("the lab makes network namespaces and devices: run it as root");
    }
    if !wad.is_file() {
        bail!("no wad binary at {}: build it first", wad.display());
    }
    signal::catch().context("cannot handle signals")?;
    let client = match client {
        ClientName::Own => Client::Own,
        ClientName::Iperf3 => Client::Iperf3,
    };
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(Lab { own, wad, client })
}

/// Unlike `println!`, without a panic where the reader has gone.
fn print(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to stdout")
}
