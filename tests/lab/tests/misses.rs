//! A missed target is seen by whoever runs the lab's program: by its exit code.

use std::process::{Command, Output};

/// Returns what `lab report --stored` says of a scenario, with a folder of results.
fn report(folder: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wad-lab"));
    command.args(["report", "datatag", "--stored", "--wad", "none", "--out"]).arg(folder);
    command.output().expect("the program runs")
}

#[test]
fn a_scenario_that_nobody_ran_misses_its_targets() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = report(folder.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("datatag: tuned: segments sent again: no figures"), "{said}");
    // The page is there, and says the same.
    let page = std::fs::read_to_string(folder.path().join("report/report.md")).expect("a page");
    assert!(page.contains("Targets: 0 met, 4 missed."), "{page}");
    assert!(page.contains("Nobody has measured it yet, and so it misses 4 targets."), "{page}");
}
