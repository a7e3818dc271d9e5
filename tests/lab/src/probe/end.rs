//! An end of a path with `wad probe run`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use wad_testbed::{
    netns::Netns,
    process::{Place, Process},
    signal,
};

const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// The service, which ends when this is dropped.
pub struct End {
    wad: PathBuf,
    folder: TempDir,
    _process: Process,
}

impl End {
    /// Starts it with this in `[probe]`, there or in the namespace of this process.
    pub fn start(wad: &Path, netns: Option<&Netns>, probe: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("wad.toml");
        let state = folder.path().join("state");
        fs::write(
            &config,
            format!("[agent]\nstate_dir = '{}'\n[probe]\n{probe}", state.display()),
        )?;
        let mut command = Command::new(wad);
        command.args(["probe", "run", "--config"]).arg(&config);
        command.stdin(Stdio::null()).stderr(fs::File::create(folder.path().join("log"))?);
        let process = Place { netns, cgroup: None }.spawn(command)?;
        let end = Self { wad: wad.to_owned(), folder, _process: process };
        let begun = Instant::now();
        while !end.socket().exists() {
            ensure!(begun.elapsed() < STARTS_WITHIN, "wad probe run is not there: {}", end.log());
            signal::sleep(Duration::from_millis(20))?;
        }
        Ok(end)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("state/probes-default.sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Has a task run, and returns what it found out.
    pub fn measure(&self, task: &str) -> Result<Value> {
        let mut command = Command::new(&self.wad);
        command.args(["probe", "now", task, "--json", "--socket"]).arg(self.socket());
        let output = command.output().context("cannot start wad")?;
        let said =
            || String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
        ensure!(output.status.success(), "{task} measures nothing: {}", said());
        let told: Value = serde_json::from_slice(&output.stdout).with_context(said)?;
        Ok(told["runs"][0]["measured"].clone())
    }
}
