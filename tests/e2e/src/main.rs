//! `wad-e2e`: the end-to-end tests of `wad`, which need root. `cargo xtask test` runs
//! them on this host, `cargo xtask vm` under other kernels.

mod alone;
mod amount;
mod application;
mod book;
mod harness;
mod measured;
mod narrow;
mod pods;
mod said;
mod sizes;
mod tests;

use std::{
    env,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use nix::unistd::{Uid, pause, setuid};
use wad_lab::cli::{self, Peer};

use self::harness::{Choice, Places};

/// Tests of the whole of wad, with WAD_BIN as the program
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    choice: Choice,
    /// Say of each test where it is run, and run none
    #[arg(long)]
    list: bool,
    /// One test at a time, whatever each bears
    #[arg(long)]
    one_at_a_time: bool,
    /// Print what the verifier processed of each program under this kernel, and run none
    #[arg(long, conflicts_with = "list")]
    verifier: bool,
    /// Hold the metrics against what this OpenTelemetry Collector makes of them, and run none
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["list", "verifier"])]
    collector: Option<PathBuf>,
    /// Run the agent as its chart does on a real Kubernetes, whose programs are in this folder,
    /// and no other test
    #[arg(long, value_name = "FOLDER", requires_all = ["image", "chart"],
          conflicts_with_all = ["list", "verifier", "collector"])]
    kubernetes: Option<PathBuf>,
    /// The archive of the agent's image
    #[arg(long, value_name = "FILE", requires = "kubernetes")]
    image: Option<PathBuf>,
    /// The chart as one file
    #[arg(long, value_name = "FILE", requires = "kubernetes")]
    chart: Option<PathBuf>,
    /// Install, upgrade and remove a package in this root of a distribution, and run no other
    #[arg(long, value_name = "ROOT", requires_all = ["earlier", "package"])]
    #[arg(conflicts_with_all = ["list", "verifier", "collector", "kubernetes"])]
    distribution: Option<PathBuf>,
    /// The package that is upgraded from
    #[arg(long, value_name = "FILE", requires = "distribution")]
    earlier: Option<PathBuf>,
    /// The package, beside the other one
    #[arg(long, value_name = "FILE", requires = "distribution")]
    package: Option<PathBuf>,
    /// The test to be run in this process
    #[arg(long, hide = true, value_name = "NAME")]
    one: Option<String>,
}

/// The name under which the program is an end of connections.
const PEER: &str = "wad-e2e-peer";

#[derive(Parser)]
struct PeerArguments {
    #[command(subcommand)]
    command: PeerCommand,
}

#[derive(Subcommand)]
enum PeerCommand {
    /// An end of the lab's transfers
    #[command(flatten)]
    Lab(Peer),
    /// Sends back what comes
    Echo { at: SocketAddr },
    /// Connects there again and again
    Application { to: SocketAddr },
    /// Connects as a user so many times, and does nothing more
    KeepOpen { to: SocketAddr, connections: usize, user: u32 },
}

impl PeerCommand {
    fn run(self) -> Result<()> {
        match self {
            Self::Lab(peer) => peer.run(),
            Self::Echo { at } => application::echo(at),
            Self::Application { to } => application::connect(to),
            Self::KeepOpen { to, connections, user } => {
                setuid(Uid::from_raw(user))?;
                let _kept: Vec<TcpStream> =
                    (0..connections).map(|_| TcpStream::connect(to)).collect::<Result<_, _>>()?;
                pause();
                Ok(())
            }
        }
    }
}

fn main() -> ExitCode {
    let called = env::args_os().next().unwrap_or_default();
    if Path::new(&called).file_name().is_some_and(|name| name == PEER) {
        return cli::run(PEER, || PeerArguments::parse().command.run());
    }
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.one {
        return harness::run_one(name);
    }
    run(&arguments).unwrap_or_else(|error| {
        wad_testbed::say(&format!("wad-e2e: {error:#}"));
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        cli::print(harness::list(&arguments.choice.named()).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut tests = arguments.choice.tests();
    if arguments.verifier {
        cli::print(tests::verifier::show()?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(program) = &arguments.collector {
        tests::scrapers::through_collector(program)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(programs), Some(image), Some(chart)) =
        (&arguments.kubernetes, &arguments.image, &arguments.chart)
    {
        tests::kubernetes::on_a_node(programs, image, chart)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(root), Some(earlier), Some(package)) =
        (&arguments.distribution, &arguments.earlier, &arguments.package)
    {
        tests::packages::live(root, earlier, package)?;
        return Ok(ExitCode::SUCCESS);
    }
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let places = if arguments.one_at_a_time {
        Places { beside: 1, few: 1 }
    } else {
        // Those that bear any others wait most of the time.
        Places { beside: 4 * processors, few: 2 * processors }
    };
    let passed_over = Choice::default().named().len() - tests.len();
    // Where would a test be run that a virtual machine leaves to others?
    let left = if arguments.choice.is_of_machines() {
        Vec::new()
    } else {
        harness::leave_to_machines(&mut tests)?
    };
    harness::run(&tests, &left, places, passed_over)
}
