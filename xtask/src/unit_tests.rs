//! The tests that need no root. Cargo runs their programs one after the other, and much of the time each
//! waits for what it has begun. Here as many programs run at a time as there are processors.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::exec;

/// Tests of one program that run at a time, if nobody says otherwise.
const THREADS: &str = "RUST_TEST_THREADS";
const THREADS_OF_PROGRAM: &str = "8";

/// A program of tests.
struct Program {
    path: PathBuf,
    /// The folder of its package, in which Cargo runs it.
    folder: PathBuf,
}

/// Builds the programs.
pub fn build() -> Result<()> {
    programs().map(drop)
}

/// Runs the tests with the filter in their names, or all.
///
/// # Errors
/// If one fails: once all have run.
pub fn run(filter: Option<&str>) -> Result<()> {
    let programs = programs()?;
    let (next, failed) = (Mutex::new(programs.iter()), Mutex::new(Vec::new()));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let run_those_left = || {
            loop {
                let Some(program) = next.lock().expect("no panic").next() else { break };
                let name = exec::from_root(&program.path);
                match program.run(filter) {
                    Ok((true, output)) => print(name, &output),
                    Ok((false, output)) => {
                        print(name, &output);
                        failed.lock().expect("no panic").push(name.display().to_string());
                    }
                    Err(error) => {
                        failed.lock().expect("no panic").push(format!("{error:#}"));
                    }
                }
            }
        };
        for _ in 0..processors {
            scope.spawn(run_those_left);
        }
    });
    let mut why = String::new();
    for program in failed.into_inner().expect("no panic") {
        let _ = write!(why, "\n    {program}");
    }
    if !why.is_empty() {
        bail!("tests failed; their output is above:{why}");
    }
    exec::run(exec::cargo(["test", "--quiet", "--workspace", "--doc"]).args(filter))
}

impl Program {
    /// Returns whether its tests passed, and what they wrote.
    fn run(&self, filter: Option<&str>) -> Result<(bool, Vec<u8>)> {
        let mut command = Command::new(&self.path);
        command.args(filter).current_dir(&self.folder).stdin(Stdio::null());
        if std::env::var_os(THREADS).is_none() {
            command.env(THREADS, THREADS_OF_PROGRAM);
        }
        let path = self.path.display();
        let output = command.output().with_context(|| format!("cannot start {path}"))?;
        Ok((output.status.success(), [output.stdout, output.stderr].concat()))
    }
}

fn print(name: &Path, output: &[u8]) {
    let mut out = io::stdout().lock();
    let header = format!("\n     Running {}\n", name.display());
    let _ = out.write_all(header.as_bytes()).and_then(|()| out.write_all(output));
}

fn programs() -> Result<Vec<Program>> {
    let mut cargo = exec::cargo(["test", "--workspace", "--no-run"]);
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the tests do not build");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs = Vec::new();
    for line in text.lines() {
        programs.extend(of_message(&serde_json::from_str(line).context("cargo's messages")?));
    }
    ensure!(!programs.is_empty(), "cargo names no program of tests");
    Ok(programs)
}

fn of_message(message: &Value) -> Option<Program> {
    let is_of_tests = message["profile"]["test"] == true;
    let path = message["executable"].as_str().filter(|_| is_of_tests)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program { path: path.into(), folder: folder.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_of_tests_run_in_the_folders_of_their_packages() {
        let message = |is_test: bool, executable: Value| {
            of_message(&json!({
                "reason": "compiler-artifact",
                "manifest_path": "/src/wad-common/Cargo.toml",
                "profile": { "test": is_test },
                "executable": executable,
            }))
        };
        let program = message(true, json!("/target/debug/deps/laws-1")).unwrap();
        assert_eq!(program.path, Path::new("/target/debug/deps/laws-1"));
        assert_eq!(program.folder, Path::new("/src/wad-common"));
        // A program under test, and a library.
        assert!(message(false, json!("/target/debug/wad")).is_none());
        assert!(message(true, Value::Null).is_none());
        assert!(of_message(&json!({ "reason": "build-finished", "success": true })).is_none());
    }

    #[test]
    fn what_failed_is_told_from_what_passed() {
        let run = |name: &str, filter| {
            let program = Program { path: exec::find_program(name).unwrap(), folder: "/".into() };
            program.run(filter).unwrap()
        };
        assert_eq!(run("echo", Some("said")), (true, b"said\n".to_vec()));
        assert!(!run("false", None).0);
    }
}
