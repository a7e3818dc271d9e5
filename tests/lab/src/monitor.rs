//! A monitor has measured a path beforehand, for agents that are not told what it carries:
//! an exporter of it and a real Prometheus that scrapes that, or another host that probes.

mod prober;

use std::{io, path, time::Duration};

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

use self::prober::Prober;
use crate::scenario::Monitored;

/// The policy follows within this time after the start of the monitor.
const LIMIT: Duration = Duration::from_secs(60);

/// Tells what went wrong with a monitor.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error("cannot prepare the monitor of the path")]
    Prepare(#[from] io::Error),
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    #[error("the path cannot be probed: {0:#}")]
    Probe(anyhow::Error),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// A monitor ends when dropped.
pub enum Monitor {
    Prometheus {
        // Scrapes the exporter, and is dropped before it.
        prometheus: Prometheus,
        _exporter: Answers,
        _folder: TempDir,
    },
    Probe(Prober),
}

impl Monitor {
    /// Starts a monitor of the receiver, which tells the rate that a test of throughput
    /// gets at best, which is that of the payload, and the RTT without queues; or one that
    /// finds both out, by this `wad`.
    ///
    /// # Errors
    /// When Prometheus or `wad` cannot be run, or nothing is found out.
    pub fn start(by: Monitored, path: &Path, wad: &path::Path) -> Result<Self, MonitorError> {
        if by == Monitored::Probe {
            return Prober::start(path, wad).map(Self::Probe).map_err(MonitorError::Probe);
        }
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
        Ok(Self::Prometheus { prometheus, _exporter: exporter, _folder: folder })
    }

    /// Returns the agent's configuration of the monitor.
    #[must_use]
    pub fn source(&self) -> String {
        match self {
            Self::Prometheus { prometheus, .. } => source(Monitored::Prometheus, prometheus.port()),
            Self::Probe(prober) => source(Monitored::Probe, prober.port()),
        }
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

/// Returns the configuration for a monitor on this port of the loopback.
#[must_use]
pub fn source(by: Monitored, port: u16) -> String {
    let own = match by {
        Monitored::Prometheus => {
            "kind = \"prometheus\"\nbandwidth = \"wan_bandwidth_bytes_per_second\"\n\
             bandwidth_unit = \"B/s\"\nrtt = \"wan_rtt_seconds\"\n"
        }
        Monitored::Probe => "kind = \"probe\"\n",
    };
    format!(
        "[[source]]\nname = \"monitor\"\nurl = \"http://127.0.0.1:{port}\"\ninterval = \"1s\"\n\
         {own}\n"
    )
}
