//! The programs of this crate have this in common: they need root, unwind when
//! interrupted, and are the senders and receivers of their own experiments.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use nix::unistd::Uid;
use wad_testbed::{leftovers, monotonic_ns, say, signal};

use crate::{
    again,
    bulk::{self, Amount},
    unread,
};

/// Runs a program; what went wrong goes to standard error.
pub fn run(name: &str, program: impl FnOnce() -> Result<()>) -> ExitCode {
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{name}: {error:#}"));
            // As a shell has it for a command that SIGINT ended.
            if signal::check().is_err() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

/// Prepares for an experiment: what is needed is there, and what one that was killed
/// has left behind is not.
///
/// # Errors
/// Without root, or without `wad`.
pub fn prepare(wad: &Path) -> Result<()> {
    ensure!(Uid::effective().is_root(), "run it as root: it makes network namespaces");
    ensure!(wad.is_file(), "no wad binary at {}: build it first", wad.display());
    signal::catch().context("cannot handle signals")?;
    leftovers::remove();
    Ok(())
}

/// Prints to standard output; unlike `println!`, without a panic where the reader has
/// gone.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str) -> Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}

/// An end of a transfer. That of a bulk transfer prints at its own end what it did, as
/// JSON.
#[derive(Debug, Subcommand)]
pub enum Peer {
    #[command(hide = true)]
    Send(Load),
    #[command(hide = true)]
    Receive { on: SocketAddr, streams: u32 },
    /// Writes whatever is taken, to receivers that never read.
    #[command(hide = true)]
    Fill { to: SocketAddr, streams: u32, milliseconds: u64 },
    /// Accepts, and never reads.
    #[command(hide = true)]
    Hold { on: SocketAddr },
    /// Sends so much by each connection, one after the other.
    #[command(hide = true)]
    SendAgain { to: SocketAddr, streams: u32, bytes: u64 },
    /// Accepts, and reads all.
    #[command(hide = true)]
    ReceiveAgain { on: SocketAddr },
}

/// The sender is told this of what it is to send.
#[derive(Debug, clap::Args)]
pub struct Load {
    to: SocketAddr,
    #[arg(long, default_value_t = 1)]
    streams: u32,
    /// When to start, CLOCK_MONOTONIC.
    #[arg(long, default_value_t = 0)]
    start_ns: u64,
    #[arg(long, required_unless_present = "bytes")]
    milliseconds: Option<u64>,
    #[arg(long, conflicts_with = "milliseconds")]
    bytes: Option<u64>,
}

impl Peer {
    /// # Errors
    /// When a connection fails.
    pub fn run(self) -> Result<()> {
        match self {
            Self::Send(load) => {
                let wait = Duration::from_nanos(load.start_ns.saturating_sub(monotonic_ns()));
                thread::sleep(wait);
                let span = Duration::from_millis(load.milliseconds.unwrap_or(0));
                let amount = load.bytes.map_or(Amount::Time(span), Amount::Bytes);
                let sent = bulk::send(load.to, load.streams, amount).context("cannot send")?;
                print(&serde_json::to_string(&sent)?)
            }
            Self::Receive { on, streams } => {
                let received = bulk::receive(on, streams).context("cannot receive")?;
                print(&serde_json::to_string(&received)?)
            }
            Self::Fill { to, streams, milliseconds } => {
                let over = Duration::from_millis(milliseconds);
                Err(unread::fill(to, streams, over)).context("cannot fill")
            }
            Self::Hold { on } => Err(unread::hold(on)).context("cannot hold"),
            Self::SendAgain { to, streams, bytes } => {
                Err(again::send(to, streams, bytes)).context("cannot send again")
            }
            Self::ReceiveAgain { on } => Err(again::receive(on)).context("cannot receive again"),
        }
    }
}

/// Returns the command for a sender; `program` has [`Peer`] among its subcommands.
#[must_use]
pub fn sender(program: &Path, to: SocketAddr, streams: u32, amount: Amount) -> Command {
    let mut command = Command::new(program);
    command.arg("send").arg(to.to_string()).arg(format!("--streams={streams}"));
    command.arg(match amount {
        Amount::Time(span) => format!("--milliseconds={}", span.as_millis()),
        Amount::Bytes(bytes) => format!("--bytes={bytes}"),
    });
    command
}

/// Returns the command for a receiver.
#[must_use]
pub fn receiver(program: &Path, on: SocketAddr, streams: u32) -> Command {
    let mut command = Command::new(program);
    command.arg("receive").arg(on.to_string()).arg(streams.to_string());
    command
}

/// Returns the command for who writes to receivers that never read.
#[must_use]
pub fn filler(program: &Path, to: SocketAddr, streams: u32, over: Duration) -> Command {
    let mut command = Command::new(program);
    command.arg("fill").arg(to.to_string()).arg(streams.to_string());
    command.arg(over.as_millis().to_string());
    command
}

/// Returns the command for receivers that never read.
#[must_use]
pub fn holder(program: &Path, on: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.arg("hold").arg(on.to_string());
    command
}

/// Returns the command for who sends so much by each connection, one after the other.
#[must_use]
pub fn again_sender(program: &Path, to: SocketAddr, streams: u32, bytes: u64) -> Command {
    let mut command = Command::new(program);
    command.arg("send-again").arg(to.to_string());
    command.arg(streams.to_string()).arg(bytes.to_string());
    command
}

/// Returns the command for who receives that.
#[must_use]
pub fn again_receiver(program: &Path, on: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.arg("receive-again").arg(on.to_string());
    command
}
