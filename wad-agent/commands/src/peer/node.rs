//! Arguments that say whose certificate is meant, and where it is.

use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;
use wad_peers::{
    identity::{MAX_PREFIXES, NodeUri, parse_prefix},
    make::{DAYS, Folder, Wanted},
};
use wad_policy::config::is_node_name;

/// Where keys and certificates are.
#[derive(Debug, Args)]
pub struct In {
    /// The folder of keys and certificates
    #[arg(long, value_name = "FOLDER", default_value = "/etc/wad/peer")]
    pub folder: PathBuf,
}

impl In {
    pub fn folder(&self) -> Folder {
        Folder::new(self.folder.clone())
    }
}

/// Whose certificate is to be made.
#[derive(Debug, Args)]
pub struct Node {
    /// The name by which peers know the host, best its whole name in DNS
    #[arg(value_name = "NAME", value_parser = parse_name)]
    pub name: String,
    /// A network that it speaks for; may be given several times
    #[arg(long = "prefix", value_name = "PREFIX", required = true, num_args = 1,
          value_parser = parse_network)]
    pub prefixes: Vec<IpNet>,
    #[command(flatten)]
    pub valid: Valid,
}

/// For how long.
#[derive(Debug, Args)]
pub struct Valid {
    /// Days until the certificate ends
    #[arg(long, value_name = "N", default_value = "365", value_parser = parse_days)]
    pub days: u32,
}

impl Node {
    /// Returns what is wanted; an error where there are too many prefixes.
    pub fn wanted(&self) -> anyhow::Result<Wanted> {
        let (name, prefixes) = (self.name.clone(), self.prefixes.clone());
        anyhow::ensure!(
            prefixes.len() <= MAX_PREFIXES,
            "a certificate speaks for {MAX_PREFIXES} prefixes at most"
        );
        Ok(Wanted { node: NodeUri { name, prefixes }, days: self.valid.days })
    }
}

fn parse_name(name: &str) -> Result<String, String> {
    if is_node_name(name) {
        return Ok(name.to_owned());
    }
    Err("it takes the name of a host, in small letters, such as dtn.example.org".to_owned())
}

fn parse_network(prefix: &str) -> Result<IpNet, String> {
    let wrong = || "it takes a network such as 192.0.2.0/24 or 2001:db8::/48, /32 for one host";
    parse_prefix(prefix).ok_or_else(wrong).map_err(str::to_owned)
}

fn parse_days(days: &str) -> Result<u32, String> {
    let days = days.parse().ok().filter(|days| DAYS.contains(days));
    days.ok_or_else(|| format!("it takes {} to {}", DAYS.start(), DAYS.end()))
}
