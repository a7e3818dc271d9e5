//! The tests of measured paths have this in common: a path, and how it is seen from
//! outside what an agent makes of it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use wad_testbed::{
    stand::until,
    tcp::{Connection, at},
    veth::{self, Wire},
    wad::Home,
};

/// Anything that is awaited comes within this time.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The path has 400 Mbit/s and 40 ms, until it is measured.
pub const PATH: &str = "[[path]]\nname = 'wire'\nremote = '10.81.0.2'\nmode = 'measured'\n\
                        bandwidth = '400Mbit'\nrtt = '40ms'\nsndbuf = 'auto'\n";

/// Returns the sk_sndbuf of an "auto" buffer: 1.25 times bandwidth times RTT, doubled.
#[must_use]
pub const fn sndbuf(mbit: u64, rtt_ms: u64) -> u64 {
    mbit * 1_000_000 / 8 * rtt_ms / 1_000 / 4 * 5 * 2
}

/// An agent at the end of a wire that is the path.
pub struct Bench<'a> {
    pub wire: &'a Wire,
    pub home: &'a Home,
}

impl Bench<'_> {
    /// Returns what the send buffer of a connection may come to, as the kernel has it; 0
    /// where it is left to the kernel. The connection itself has been matched.
    ///
    /// # Errors
    /// When there is none.
    pub fn sndbuf(&self) -> Result<u64> {
        let to = at(veth::ADDRESSES_V4[1], 7000);
        let matched = || -> Result<f64> {
            Ok(self.home.metrics()?.of_path("wad_connections_matched_total", "wire")?)
        };
        let before = matched()?;
        Connection::open(self.wire.a(), self.wire.b(), to)?;
        ensure!(matched()? == before + 1.0, "the connection is not of the path");
        let paths = self.paths()?;
        Ok(2 * paths["paths"][0]["policy"]["sndbuf_bytes"].as_u64().unwrap_or(0))
    }

    /// Returns how long it takes until the buffers of connections may come to this.
    ///
    /// # Errors
    /// When they do not.
    pub fn until_sndbuf(&self, what: &'static str, bytes: u64) -> Result<Duration> {
        let begun = Instant::now();
        until(what, LIMIT, || self.sndbuf(), |seen| *seen == bytes)
            .with_context(|| format!("{bytes} bytes expected; log: {}", self.home.log()))?;
        Ok(begun.elapsed())
    }

    /// Returns the paths as `wad paths --json` has them.
    ///
    /// # Errors
    /// When it fails.
    pub fn paths(&self) -> Result<Value> {
        let output = self.home.command("paths").arg("--json").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Returns how often a source had an error of this kind.
    ///
    /// # Errors
    /// When there are no such metrics.
    pub fn errors(&self, source: &str, kind: &str) -> Result<f64> {
        let labels = [format!("source=\"{source}\""), format!("kind=\"{kind}\"")];
        Ok(self.home.metrics()?.value("wad_source_errors_total", &[&labels[0], &labels[1]])?)
    }

    /// Waits until a source's error is counted.
    ///
    /// # Errors
    /// When it is not.
    pub fn until_error(&self, source: &str, kind: &str) -> Result<()> {
        let count = || self.errors(source, kind);
        let counted = until("the error is counted", LIMIT, count, |count| *count > 0.0)
            .with_context(|| format!("{source}: {kind}; log: {}", self.home.log()))?;
        println!("{source}: {counted} times {kind}");
        Ok(())
    }

    /// Returns how many sets of policies were put in force.
    ///
    /// # Errors
    /// When there is no such metric.
    pub fn policy_sets(&self) -> Result<u64> {
        Ok(self.home.metrics()?.value("wad_policy_generation", &[])? as u64)
    }
}

/// Returns the time since 1970.
#[must_use]
pub fn now_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}
