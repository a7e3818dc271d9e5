//! A monitor measures a path beforehand, for agents that are not told what it carries:
//! an exporter of it, and a real Prometheus that scrapes that.

use std::{io, time::Duration};

use tempfile::TempDir;
use wad_testbed::{
    answers::{Answer, Answers},
    emulated::{path::Path, wan::ADDRESSES_V4},
    metrics::MetricsError,
    prometheus::{Prometheus, PrometheusError},
    signal::Interrupted,
    stand::{Late, until},
    wad::Home,
};

/// The policy follows within this time after the start of Prometheus.
const LIMIT: Duration = Duration::from_secs(60);

/// Tells what went wrong with a monitor.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error("cannot prepare the monitor of the path")]
    Prepare(#[from] io::Error),
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// A monitor ends when dropped.
pub struct Monitor {
    // Scrapes the exporter, and is dropped before it.
    prometheus: Prometheus,
    _exporter: Answers,
    _folder: TempDir,
}

impl Monitor {
    /// Starts a monitor of the receiver, which tells the rate that a test of throughput
    /// gets at best, which is that of the payload, and the RTT without queues.
    ///
    /// # Errors
    /// When Prometheus cannot be run.
    pub fn start(path: &Path) -> Result<Self, MonitorError> {
        let labels = format!("{{path=\"{}\"}}", ADDRESSES_V4[1]);
        let bytes_per_second = path.carries_bits_per_second() / 8.0;
        let rtt_seconds = path.rtt.0.as_secs_f64();
        let text = format!(
            "wan_bandwidth_bytes_per_second{labels} {bytes_per_second}\n\
             wan_rtt_seconds{labels} {rtt_seconds}\n"
        );
        let exporter = Answers::start(move |_| Answer::text(text.as_str()))?;
        let folder = tempfile::tempdir()?;
        let prometheus = Prometheus::start(folder.path(), exporter.address())?;
        Ok(Self { prometheus, _exporter: exporter, _folder: folder })
    }

    /// Returns the agent's configuration of the monitor.
    #[must_use]
    pub fn source(&self) -> String {
        source(self.prometheus.port())
    }

    /// Waits until an agent has heard of the path.
    ///
    /// # Errors
    /// When it does not, or cannot be asked.
    pub fn wait_heard(&self, home: &Home) -> Result<(), MonitorError> {
        let measured = || -> Result<f64, MonitorError> {
            Ok(home.metrics()?.value("wad_paths_measured", &[])?)
        };
        until("the path is measured", LIMIT, measured, |paths| *paths >= 1.0)?;
        Ok(())
    }
}

/// Returns the configuration for a Prometheus on this port of the loopback.
#[must_use]
pub fn source(port: u16) -> String {
    format!(
        "[[source]]\nname = \"monitor\"\nkind = \"prometheus\"\n\
         url = \"http://127.0.0.1:{port}\"\ninterval = \"1s\"\n\
         bandwidth = \"wan_bandwidth_bytes_per_second\"\nbandwidth_unit = \"B/s\"\n\
         rtt = \"wan_rtt_seconds\"\n\n"
    )
}
