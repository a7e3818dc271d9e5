//! The probe service alone, as a user that may nothing, and what commands say of it.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use wad_testbed::{
    netns::Netns,
    process::{Place, Process},
    stand::until,
    wad::{Home, program},
};

/// The number of no user of a system.
const USER: u32 = 60_126;
const STARTS_WITHIN: Duration = Duration::from_secs(15);
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The service, which ends when this is dropped.
pub struct Alone {
    process: Process,
    folder: TempDir,
}

impl Alone {
    /// Starts it with these tables: those of `[probe]` come first, as their header is there.
    pub fn start(netns: Option<&Netns>, probe: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let (wad, config) = (folder.path().join("wad"), folder.path().join("wad.toml"));
        fs::copy(program()?, &wad)?;
        let state = folder.path().join("state");
        fs::create_dir(&state)?;
        chown(&state, Some(USER), Some(USER))?;
        let text = format!("[agent]\nstate_dir = '{}'\n[probe]\n{probe}", state.display());
        fs::write(&config, text)?;
        let user = USER.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all"]);
        command.arg(&wad).args(["probe", "run", "--config"]).arg(&config);
        command.stderr(File::create(folder.path().join("log"))?).stdin(Stdio::null());
        let process = Place { netns, cgroup: None }.spawn(command)?;
        let alone = Self { process, folder };
        let look = || Ok::<_, anyhow::Error>(alone.log());
        until("the service is there", STARTS_WITHIN, look, |log| log.contains("probing"))?;
        Ok(alone)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("state/probes-default.sock")
    }

    /// The file that results are kept in.
    pub fn archive(&self) -> PathBuf {
        self.folder.path().join("state/probes-default.sqlite")
    }

    /// Asks it by `wad probe`, for JSON.
    pub fn ask(&self, command: &str, words: &[&str]) -> Result<Output> {
        let mut wad = Command::new(program()?);
        wad.args(["probe", command, "--json", "--socket"]).arg(self.socket());
        Ok(wad.args(words).output()?)
    }

    /// Asks it what a path or a host was like over time.
    pub fn history(&self, name: &str) -> Result<Value> {
        let mut wad = Command::new(program()?);
        wad.args(["paths", "--json", "--history", name, "--socket"]).arg(self.socket());
        let output = wad.output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Has tasks run, of which each has to measure, and returns what they found out by the
    /// name of each.
    pub fn measure(&self, tasks: &[&str]) -> Result<Vec<Value>> {
        let output = self.ask("now", tasks)?;
        ensure!(output.status.success(), "{output:?} {}", self.log());
        let runs = runs(&output)?;
        let of = |task: &&str| {
            let run = runs.iter().find(|run| run["task"] == **task);
            let measured = run.map(|run| run["measured"].clone());
            measured.with_context(|| format!("no run of {task}: {runs:?}"))
        };
        tasks.iter().map(of).collect()
    }

    /// Kills it, and leaves its files.
    pub fn kill(&mut self) -> Result<()> {
        self.process.signal(Signal::SIGKILL);
        self.process.wait(ENDS_WITHIN, || ())?;
        Ok(())
    }
}

/// Asks an agent by `wad probe`, for JSON.
pub fn ask_agent(home: &Home, command: &str, words: &[&str]) -> Result<Output> {
    let mut wad = Command::new(program()?);
    wad.args(["probe", command, "--json", "--instance", home.instance()]);
    Ok(wad.args(words).output()?)
}

/// Returns the runs that a command tells of.
pub fn runs(output: &Output) -> Result<Vec<Value>> {
    let told: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(told["schema"] == 1, "{told}");
    Ok(told["runs"].as_array().cloned().unwrap_or_default())
}
