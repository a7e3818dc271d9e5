//! `cargo test` runs the test programs of the packages one after the other, and most of their time they
//! sleep or wait. Here as many programs run at a time as there are processors.

use std::{
    env,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{exec, parallel::in_parallel, programs};

/// The variable by which libtest is told how many tests of a program run at a time.
const THREADS: &str = "RUST_TEST_THREADS";
/// The number of tests at a time, unless the user has set the variable.
const THREADS_OF_PROGRAM: &str = "8";

/// A test program, as cargo builds one for each library, binary and file in `tests/`.
struct Program {
    path: PathBuf,
    /// The folder of its package, in which cargo runs it.
    folder: PathBuf,
}

/// Builds the test programs of all packages.
pub fn build() -> Result<()> {
    test_programs().map(drop)
}

/// Runs the tests that need no root, or those of them with the filter in their names.
///
/// # Errors
/// If a test fails. The other programs run to their ends before.
pub fn run(filter: Option<&str>) -> Result<()> {
    let results = in_parallel(&test_programs()?, |program| {
        let (passed, output) = program.run(filter)?;
        let path = exec::from_root(&program.path).display();
        print(&format!("\n     Running {path}\n"), &output);
        ensure!(passed, "tests of {path} failed; its output is above");
        Ok(())
    });
    let errors: Vec<String> =
        results.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    exec::run(exec::cargo(["test", "--quiet", "--workspace", "--doc"]).args(filter))
}

impl Program {
    /// Returns whether its tests passed, and its output.
    fn run(&self, filter: Option<&str>) -> Result<(bool, Vec<u8>)> {
        let mut command = exec::command(&self.path);
        command.args(filter).current_dir(&self.folder).stdin(Stdio::null());
        if env::var_os(THREADS).is_none() {
            command.env(THREADS, THREADS_OF_PROGRAM);
        }
        let path = self.path.display();
        let output = command.output().with_context(|| format!("cannot start {path}"))?;
        Ok((output.status.success(), [output.stdout, output.stderr].concat()))
    }
}

/// Prints the output of one program in one piece.
fn print(header: &str, output: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(header.as_bytes()).and_then(|()| out.write_all(output));
}

fn test_programs() -> Result<Vec<Program>> {
    let messages = programs::messages(&mut exec::cargo(["test", "--workspace", "--no-run"]))?;
    let programs: Vec<Program> = messages.iter().filter_map(of_message).collect();
    ensure!(!programs.is_empty(), "cargo names no test program");
    Ok(programs)
}

/// Returns the test program that a message of cargo is about, if it is about one.
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
    fn a_test_program_runs_in_the_folder_of_its_package() {
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
    fn a_program_passes_if_it_exits_with_0() {
        let run = |name: &str, filter| {
            let program = Program { path: exec::find_program(name).unwrap(), folder: "/".into() };
            program.run(filter).unwrap()
        };
        assert_eq!(run("echo", Some("said")), (true, b"said\n".to_vec()));
        assert!(!run("false", None).0);
    }
}
