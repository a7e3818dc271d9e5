//! Arguments that several commands take.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use wad_observing::reading::{self, Filter, Remote};
use wad_tuning::instance::Instance;

/// A running agent is asked this.
#[derive(Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub instance: InstanceName,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The configuration that is read where none is named.
pub const DEFAULT_CONFIG: &str = "/etc/wad/wad.toml";

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Configuration file
    #[arg(id = "config", long = "config", value_name = "FILE", default_value = DEFAULT_CONFIG)]
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

pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "it takes seconds, from 0.1 to 3600".to_owned())
}
