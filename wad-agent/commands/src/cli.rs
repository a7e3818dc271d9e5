//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use wad_observing::{
    diagnose::Target,
    reading::{self, Filter, Remote},
    trace::Format,
};
use wad_policy::config;
use wad_tuning::{explain::End, instance::Instance, routes::GUARD};

use crate::{run, top};

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
    Plan(Plan),
    /// Show what the running agent does
    Status(Ask),
    /// Show which path the connections to an address fall under, what they get, and
    /// why
    Explain(Explain),
    /// Have the running agent read its configuration again, and say what changed
    Reload(Ask),
    /// Tune no flow of a path, or none at all, until it is enabled again
    Disable(Switch),
    /// Tune again what was disabled
    Enable(Switch),
    /// Show what is known of each path, from where, how old it is, and the policy
    /// that came of it
    Paths(Ask),
    /// Show every flow of the paths, and what TCP knows of it
    Flows(Flows),
    /// Write chosen instruments of chosen flows to a file, at a steady beat
    Trace(Trace),
    /// Draw what was traced: windows, rate, RTT and retransmissions over time
    Plot(Plot),
    /// Say what limits a flow, how that is known, and what would help
    Diagnose(Diagnose),
    /// Show flows and paths live, with their rates and what limits them
    #[command(after_help = format!("Keys:\n{}", top::KEYS))]
    Top(Top),
    /// What the agent starts to take its routes out if it is killed
    #[command(name = GUARD, hide = true)]
    GuardRoutes,
    /// Take everything of wad's out of the kernel, and undo what it changed
    Cleanup(Cleanup),
}

#[derive(Debug, Args)]
pub struct Plan {
    /// What the path carries: "10Gbit", "1.25GB/s"
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    pub rate: Rate,
    /// Round trip time without queues: "70ms"
    #[arg(long, value_name = "TIME", value_parser = Rtt::parse)]
    pub rtt: Rtt,
    /// Fraction of packets that the path loses by itself: 1e-5
    #[arg(long, value_name = "FRACTION", value_parser = parse_loss)]
    pub loss: Option<f64>,
    /// Largest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A rate as it was written, for the policy, and in bit/s.
#[derive(Clone, Debug)]
pub struct Rate {
    pub text: String,
    pub bits_per_second: f64,
}

impl Rate {
    pub fn parse(text: &str) -> Result<Self, String> {
        let bits_per_second = config::bits_per_second(text).map_err(|fault| fault.to_string())?;
        Ok(Self { text: text.trim().to_owned(), bits_per_second })
    }
}

/// A round trip time as it was written, and in seconds.
#[derive(Clone, Debug)]
pub struct Rtt {
    pub text: String,
    pub seconds: f64,
}

impl Rtt {
    pub fn parse(text: &str) -> Result<Self, String> {
        let seconds = config::rtt_seconds(text).map_err(|fault| fault.to_string())?;
        Ok(Self { text: text.trim().to_owned(), seconds })
    }
}

fn parse_loss(text: &str) -> Result<f64, String> {
    let expected = || "it takes a fraction such as 1e-5, from 1e-10 to 0.5".to_owned();
    let loss: f64 = text.trim().parse().map_err(|_| expected())?;
    if (1e-10..=0.5).contains(&loss) { Ok(loss) } else { Err(expected()) }
}

/// What is asked of a running agent.
#[derive(Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The other end; without a port, paths for one are shown as conditions
    #[arg(value_name = "ADDRESS[:PORT]")]
    pub remote: End,
    /// This host's end, where paths depend on it
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub local: Option<End>,
    /// Answer from the configuration, even if an agent runs
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub ask: Ask,
}

#[derive(Debug, Args)]
pub struct Flows {
    #[command(flatten)]
    pub filter: FlowFilter,
    /// Show this instrument, or member of the kernel's `struct tcp_sock`, too; may be
    /// given several times
    #[arg(long = "field", value_name = "NAME")]
    pub fields: Vec<String>,
    /// Put the flows with most of this instrument, or field, first
    #[arg(long, value_name = "NAME")]
    pub sort: Option<String>,
    /// Show them again and again, with what they did meanwhile
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = parse_interval)]
    pub watch: Option<Duration>,
    /// List the instruments, and what RFC 4898 has that Linux has not
    #[arg(long)]
    pub instruments: bool,
    #[command(flatten)]
    pub ask: Ask,
}

/// Which flows.
#[derive(Debug, Args)]
pub struct FlowFilter {
    /// Only flows of this path; may be given several times, as the next two
    #[arg(long = "path", value_name = "NAME")]
    pub paths: Vec<String>,
    /// Only flows to or from here
    #[arg(long = "remote", value_name = "PREFIX")]
    pub remotes: Vec<Remote>,
    /// Only the flow whose socket has this cookie; 0x before what `ss -e` shows
    #[arg(long = "cookie", value_name = "N", value_parser = reading::parse_cookie)]
    pub cookies: Vec<u64>,
}

impl FlowFilter {
    pub fn to_filter(&self) -> Filter {
        Filter {
            paths: self.paths.clone(),
            remotes: self.remotes.clone(),
            cookies: self.cookies.clone(),
            fields: Vec::new(),
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "it takes seconds, from 0.1 to 3600".to_owned())
}

#[derive(Debug, Args)]
pub struct Diagnose {
    /// The flows to an address, or one by its cookie, which `wad flows` has; 0x before
    /// what `ss -e` shows [default: all flows of all paths]
    #[arg(value_name = "ADDRESS[:PORT]|COOKIE")]
    pub target: Option<Target>,
    /// How long to watch
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_interval,
          conflicts_with = "life")]
    pub seconds: Duration,
    /// Judge by a flow's whole life, at once
    #[arg(long)]
    pub life: bool,
    #[command(flatten)]
    pub ask: Ask,
}

#[derive(Debug, Args)]
pub struct Top {
    /// From one reading to the next
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
}

#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    pub filter: FlowFilter,
    /// These instead of the usual ones, by the names that `wad flows --instruments`
    /// lists
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub instruments: Vec<String>,
    /// This member of the kernel's `struct tcp_sock` too; may be given several times
    #[arg(long = "field", value_name = "NAME")]
    pub fields: Vec<String>,
    /// Between two readings: 10ms to 1h
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_beat)]
    pub interval: Duration,
    /// End after this time [default: at SIGINT or SIGTERM]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// How lines are written
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub format: Format,
    /// Pack them with zstd
    #[arg(long)]
    pub zstd: bool,
    /// Write to this file; an older trace there is kept as FILE.1 [default: standard
    /// output, without bound]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Begin another file when this one would be larger
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_file_size)]
    pub max_bytes: u64,
    /// Files that are kept: FILE and the older FILE.1, FILE.2, ...
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub keep: u32,
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
}

fn parse_beat(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(10)..=Duration::from_secs(3600);
    config::duration(text, range, "10ms to 1h").map_err(|fault| fault.to_string())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(10)..=Duration::from_secs(365 * 86_400);
    config::duration(text, range, "10ms to 365d").map_err(|fault| fault.to_string())
}

/// What a file needs for its first line and one more.
fn parse_file_size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 64 << 10;
    let bytes = config::bytes(text).map_err(|fault| fault.to_string())?;
    if bytes < LEAST { Err("it takes 64KiB or more".to_owned()) } else { Ok(bytes) }
}

#[derive(Debug, Args)]
pub struct Plot {
    /// What `wad trace` wrote, in either format, packed or not; FILE, FILE.1, ... are
    /// one trace, others are set beside it
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The picture (SVG) [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Switch {
    /// The path's name [default: all paths]
    pub path: Option<String>,
    #[command(flatten)]
    pub ask: Ask,
}

#[derive(Debug, Args)]
pub struct Cleanup {
    /// Only rules and routes, which lead astray once nobody follows the host's own;
    /// tuning goes on
    #[arg(long)]
    pub routes: bool,
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
}

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Configuration file
    #[arg(
        id = "config",
        long = "config",
        value_name = "FILE",
        default_value = "/etc/wad/wad.toml"
    )]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct InstanceName {
    /// Keep pins, algorithm names and journal apart from those of other agents
    #[arg(id = "instance", long = "instance", value_name = "NAME", default_value = "default",
          value_parser = parse_instance)]
    pub name: Instance,
}

fn parse_instance(name: &str) -> Result<Instance, String> {
    Instance::try_new(name).map_err(|error| error.to_string())
}
