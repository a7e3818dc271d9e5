//! One test is run here, in the process that was started for it.

use std::process::ExitCode;

use super::Test;

/// Runs the test of that name here.
pub fn run_one(name: &str) -> ExitCode {
    let Some(test) = inventory::iter::<Test>.into_iter().find(|test| test.name() == name) else {
        wad_testbed::say(&format!("no test is called {name}"));
        return ExitCode::FAILURE;
    };
    match (test.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            wad_testbed::say(&format!("Error: {error:?}"));
            ExitCode::FAILURE
        }
    }
}
