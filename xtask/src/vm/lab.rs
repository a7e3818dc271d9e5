//! `cargo xtask vm lab`: a scenario of the lab in virtual machines, one of each size that
//! it is for, as they are without any setting. What they find is kept and judged here.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use toml::Table;

use super::{
    MEASURING, TARGET, UNMITIGATED, bpftune,
    guest::Run,
    kernel::{self, Kernel, Wanted},
    machine::{Instruction, Limits, Manner},
    prepare, start,
};
use crate::{exec, parallel::in_parallel, programs};

/// Ten runs of each variant take half an hour on a machine with nothing else to do, and
/// hours on one that is busy.
const LIMITS: Limits = Limits { whole: Duration::from_secs(8 * 3600), ..MEASURING };
/// A machine has so much memory where the scenario says nothing of it.
const MEMORY_GIB: u32 = 4;

/// Runs a scenario under a kernel, as `lab run` does under this one.
pub fn run(kernel: &str, arguments: &[String]) -> Result<()> {
    let name = arguments.first().context("no scenario is named")?;
    let wanted = kernel::named(kernel)?;
    let sizes = sizes(name)?;
    let folder = exec::target().join("vm");
    let beside = has_bpftune(name)?.then(|| bpftune::fetch(&folder)).transpose()?;
    let wad = prepare()?;
    let program = programs::of_lab("wad-lab", TARGET)?;
    let own = ["--wad=/usr/sbin/wad", "--out=/tmp/results"].map(str::to_owned);
    let run = Run {
        name: "wad-lab".to_owned(),
        program: program.clone(),
        arguments: [&["run".to_owned()], arguments, &own].concat(),
        reads: Some(scenarios()),
        beside,
    };
    let kernel = Kernel::fetch(wanted, &folder)?;
    let files: Vec<PathBuf> = sizes
        .iter()
        .map(|gib| folder.join(format!("results-{}-{gib}", std::process::id())))
        .collect();
    let machines: Vec<_> = sizes.iter().zip(&files).collect();
    let ended = in_parallel(&machines, |(gib, file)| {
        fs::write(file, "").with_context(|| file.display().to_string())?;
        boot((wanted, &kernel), **gib, file, (&wad, &run))
    });
    let judged = ended.into_iter().collect::<Result<()>>().and_then(|()| {
        let out = exec::target().join("lab");
        exec::run(exec::command(&program).arg("keep").args(&files).arg("--out").arg(out))
    });
    for file in &files {
        // One that was never written is none to be removed.
        let _ = fs::remove_file(file);
    }
    judged
}

/// Runs the lab in one machine. Missed targets are not its failure: what it found is.
fn boot(
    (wanted, kernel): (&Wanted, &Kernel),
    gib: u32,
    results: &Path,
    (wad, run): (&Path, &Run),
) -> Result<()> {
    let parameters = format!("{UNMITIGATED} {}", wanted.parameters);
    let manner = Manner {
        parameters: &parameters,
        memory_mib: gib * 1024,
        results: Some(results),
        // Its paths are faster than those of tests.
        instruction: Instruction::OneNs,
        limits: LIMITS,
    };
    let name = format!("{}-{gib}GiB", wanted.name);
    start(kernel, &name, &manner, (wad, run))?;
    let found = fs::metadata(results).with_context(|| results.display().to_string())?.len();
    ensure!(found > 0, "the lab failed under {name}");
    Ok(())
}

fn scenarios() -> PathBuf {
    exec::root().join("tests/lab/scenarios")
}

/// Returns the sizes of the machines that a scenario is for, in GiB of memory. What is
/// wrong with a scenario the lab says.
fn sizes(scenario: &str) -> Result<Vec<u32>> {
    Ok(stated(&text(scenario)?).unwrap_or_else(|| vec![MEMORY_GIB]))
}

/// Whether a variant of a scenario is about bpftune.
fn has_bpftune(scenario: &str) -> Result<bool> {
    Ok(text(scenario)?.lines().any(|line| line == "bpftune = true"))
}

fn text(scenario: &str) -> Result<String> {
    let path = scenarios().join(format!("{scenario}.toml"));
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Returns the names of the scenarios that are for virtual machines: of some size, or with
/// a kernel before some version.
pub fn for_machines() -> Result<Vec<String>> {
    let mut names = Vec::new();
    let folder = scenarios();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let table: Option<Table> = text.parse().ok();
        let is_old = table.is_some_and(|table| table.contains_key("before"));
        if is_old || stated(&text).is_some() {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn stated(scenario: &str) -> Option<Vec<u32>> {
    let table: Table = scenario.parse().ok()?;
    let sizes = table.get("grid")?.get("memory_gib")?.as_array()?;
    sizes.iter().map(|size| size.as_integer().and_then(|gib| gib.try_into().ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_as_large_as_the_scenario_says() {
        assert_eq!(sizes("small-host").unwrap(), [1, 4]);
        assert_eq!(sizes("datatag").unwrap(), [MEMORY_GIB]);
        assert!(has_bpftune("bpftune").unwrap() && !has_bpftune("datatag").unwrap());
        let error = format!("{:#}", sizes("no-such").unwrap_err());
        assert!(error.contains("no-such.toml"), "{error}");
    }

    #[test]
    fn a_long_report_is_of_machines_too() {
        assert_eq!(for_machines().unwrap(), ["bpftune", "reordering", "small-host"]);
    }
}
