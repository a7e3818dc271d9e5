//! What a configuration has to fit on this host.

use std::{fs, path::Path};

use super::ConfigError;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// What the host offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Congestion controls that the kernel has loaded.
    pub congestion_controls: Vec<String>,
}

impl Host {
    /// Asks the running kernel.
    pub fn read() -> Result<Self, ConfigError> {
        let names = fs::read_to_string(AVAILABLE).map_err(|source| ConfigError::Read {
            file: Path::new(AVAILABLE).to_owned(),
            source,
        })?;
        Ok(Self { congestion_controls: names.split_whitespace().map(str::to_owned).collect() })
    }
}
