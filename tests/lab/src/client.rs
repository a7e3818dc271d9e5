//! A client moves the data of an experiment.

use std::io;

use serde::Deserialize;
use wad_testbed::process::{ProcessError, run};

/// Tells what keeps a client from being used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{program} is missing: `apt-get install {package}` brings it")]
    Missing { program: &'static str, package: &'static str },
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Tells who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// The lab's own bulk sender and receiver.
    Own,
    Iperf3,
    /// curl gets an object from nginx: the receiver connects.
    Curl,
}

impl Client {
    /// Returns the name as reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Iperf3 => "iperf3",
            Self::Curl => "curl",
        }
    }

    /// Makes sure that the programs of others are there.
    ///
    /// # Errors
    /// When one is not: then with the package that brings it.
    pub fn ensure_there(self) -> Result<(), ClientError> {
        let programs: &[(&'static str, &str, &'static str)] = match self {
            Self::Own => &[],
            Self::Iperf3 => &[("iperf3", "--version", "iperf3")],
            Self::Curl => &[("nginx", "-v", "nginx-light"), ("curl", "--version", "curl")],
        };
        programs.iter().try_for_each(|&(program, argument, package)| {
            match run(program, &[argument]) {
                Err(ProcessError::Spawn { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    Err(ClientError::Missing { program, package })
                }
                found => Ok(found.map(drop)?),
            }
        })
    }
}
