//! `cargo xtask verifier`: writes `tests/verifier.toml`, what the verifier processed of
//! each BPF program under each kernel. An end-to-end test holds every change against it.

use std::{collections::BTreeMap, fs, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{dist, exec, programs, setup, vm};

/// This text stands above the table.
const HEAD: &str = "\
# Instructions that the kernel's verifier processed of each BPF program, by kernels and the
# first 15 letters of programs' names. A change that takes above 10% more on one of these
# kernels fails, or above 700,000 of the verifier's million on any. `cargo xtask verifier`
# writes this anew.
";

/// The table is of instructions by kernel and program.
type Table = BTreeMap<String, BTreeMap<String, u32>>;

/// Asks this machine's kernel and those that are named, or all that may be given a
/// congestion control by BPF. What the table has of other kernels stays.
pub fn run(kernels: &[String]) -> Result<()> {
    ensure!(exec::is_root()?, "run it as root: it loads BPF programs");
    let mut said = vm::verifier(kernels)?;
    let target = setup::own_target()?;
    let wad = dist::ship(target)?;
    said.extend(here(exec::command(&programs::end_to_end(target)?).env("WAD_BIN", wad))?);

    let path = exec::root().join("tests/verifier.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut table: Table = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let seen = parse(&said)?;
    let series: Vec<&str> = seen.keys().map(String::as_str).collect();
    println!("{}: {}", path.display(), series.join(", "));
    table.extend(seen);
    fs::write(&path, written(&table)?).with_context(|| path.display().to_string())
}

/// Returns what the tests print of this kernel.
fn here(command: &mut Command) -> Result<Vec<String>> {
    let output = exec::output(command.arg("--verifier"));
    let output = output.context("the programs cannot be loaded on this machine")?;
    Ok(output.lines().map(str::to_owned).collect())
}

/// Reads lines `verifier KERNEL PROGRAM INSTRUCTIONS` among others.
fn parse(lines: &[String]) -> Result<Table> {
    let mut table = Table::new();
    for line in lines {
        let Some(line) = line.strip_prefix("verifier ") else { continue };
        let [kernel, program, cost] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let cost = cost.parse().with_context(|| line.to_owned())?;
        table.entry(kernel.to_owned()).or_default().insert(program.to_owned(), cost);
    }
    ensure!(!table.is_empty(), "no kernel said anything");
    Ok(table)
}

fn written(table: &Table) -> Result<String> {
    Ok(format!("{HEAD}\n{}", toml::to_string(table)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_what_is_written() {
        let lines = ["vm: begin", "verifier 6.1 wad_tuner 20", "verifier 6.18 aimd_ssthresh 30"];
        let table = parse(&lines.map(str::to_owned)).unwrap();
        let read: Table = toml::from_str(&written(&table).unwrap()).unwrap();
        assert_eq!(read, table);
        assert_eq!(read["6.1"]["wad_tuner"], 20);
        assert!(parse(&["verifier 6.1".to_owned()]).is_err());
    }
}
