//! The cost of wad's BPF programs to the kernel's verifier, which gives up after a
//! million instructions, is held against a table, `tests/verifier.toml`, of what it
//! processed of each program under each kernel. `cargo xtask verifier` writes it anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    bpf, kernel,
    policy::path_to,
    stand::{Stand, until},
    wad::{Home, program},
};

use super::laws;

const TABLE: &str = include_str!("../../../verifier.toml");
/// The policy has every law in it.
const EVERY_LAW: &str = include_str!("../../../config/valid/laws.toml");

const SOON: Duration = Duration::from_secs(20);

/// A program may take so much of the verifier's million on any kernel.
const MOST: u32 = 700_000;
/// A program may take so much more than in the table on a kernel that it has, in percent.
const MOST_GROWTH_PERCENT: u32 = 10;

/// The policy has a path that is measured by its own flows, which an iterator reads, and so is
/// guarded, for which another one does.
const PASSIVE: &str = "[guard]\nevery = '100ms'\n\n\
                       [[source]]\nname = 'flows'\nkind = 'passive'\n\n\
                       [[path]]\nname = 'measured'\nremote = '192.0.2.1'\nmode = 'measured'\n\
                       sndbuf = 'auto'\nrcvbuf = 'auto'\n\n";

/// Costs are the instructions that the verifier processed, by programs' names.
type Costs = BTreeMap<String, u32>;

#[e2e(every_change, alone)]
fn no_program_has_become_much_harder_to_verify() -> Result<()> {
    let series = series()?;
    let table: BTreeMap<String, Costs> = toml::from_str(TABLE)?;
    let wrong = wrong(&series, table.get(&series), &measure()?);
    ensure!(
        wrong.is_empty(),
        "{wrong}If it has to be so, `cargo xtask verifier` writes tests/verifier.toml anew"
    );
    Ok(())
}

/// Says what is wrong under a kernel, in lines.
fn wrong(series: &str, expected: Option<&Costs>, seen: &Costs) -> String {
    let mut lines = String::new();
    for (name, is) in seen {
        if *is > MOST {
            let _ = writeln!(lines, "{series}: {name} takes {is} instructions, {MOST} at most");
        }
    }
    let Some(expected) = expected else { return lines };
    let names: BTreeSet<&String> = expected.keys().chain(seen.keys()).collect();
    for name in names {
        let _ = match (expected.get(name), seen.get(name)) {
            (Some(was), Some(is)) if u64::from(*is) * 100 > most_of(*was) => {
                writeln!(lines, "{series}: {name} took {was} instructions, takes {is}")
            }
            (Some(was), None) => writeln!(lines, "{series}: {name}, which took {was}, is missing"),
            (None, Some(is)) => writeln!(lines, "{series}: {name}, which takes {is}, is new"),
            _ => continue,
        };
    }
    lines
}

/// Returns what a program may take, in hundredths.
fn most_of(was: u32) -> u64 {
    u64::from(was) * u64::from(100 + MOST_GROWTH_PERCENT)
}

/// Prints what is seen under this kernel, a line `verifier SERIES PROGRAM INSTRUCTIONS`
/// for each program.
pub fn show() -> Result<String> {
    let series = series()?;
    let lines = measure()?.into_iter();
    Ok(lines.map(|(name, cost)| format!("verifier {series} {name} {cost}\n")).collect())
}

/// Returns the first two numbers of the kernel's release.
fn series() -> Result<String> {
    let (major, minor) = kernel::running()?;
    Ok(format!("{major}.{minor}"))
}

/// Has an agent load all that it ever loads, and asks the kernel.
fn measure() -> Result<Costs> {
    let stand = Stand::set_up("verifier")?;
    let is_law = |word: &&str| word.starts_with("wad_");
    for law in EVERY_LAW.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_law) {
        ensure!(laws::LAWS.iter().any(|(name, _)| *name == law), "{law} is not looked at");
    }
    let paths: String = (7001..)
        .zip(laws::LAWS)
        .map(|(port, (_, keys))| path_to(port, &format!("override_setsockopt = true; {keys}")))
        .collect();
    let policy = format!("{PASSIVE}{paths}");
    let before: BTreeSet<u32> = bpf::loaded()?.into_iter().map(|program| program.id).collect();
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let is_guards = |all: &Vec<bpf::Loaded>| all.iter().any(|one| one.name == "wad_health");
    let look = || Ok::<_, anyhow::Error>(bpf::loaded()?);
    until("guards look at flows", SOON, look, is_guards)?;
    // What the kernel refuses is not the agent's end, and the log has its verifier's words.
    let log = home.log();
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    ensure!(refused.is_empty(), "this kernel refuses programs:\n{}", refused.join("\n"));
    let mut costs = Costs::new();
    for program in bpf::loaded()?.into_iter().filter(|program| !before.contains(&program.id)) {
        let Some(cost) = program.verified_instructions else {
            bail!("this kernel does not say what {} took", program.name);
        };
        // Laws share some, each with a copy.
        let most = costs.entry(program.name).or_default();
        *most = cost.max(*most);
    }
    agent.stop()?;
    ensure!(costs.len() > laws::LAWS.len(), "too few programs were loaded: {costs:?}");
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs<const N: usize>(all: [(&str, u32); N]) -> Costs {
        all.map(|(name, cost)| (name.to_owned(), cost)).into()
    }

    #[test]
    fn a_failure_names_program_was_and_is() {
        let was = costs([("tuner", 1000), ("law", 500_000)]);
        let wrong = |seen| wrong("6.1", Some(&was), &seen);
        assert_eq!(wrong(costs([("tuner", 1100), ("law", 9)])), "");
        assert_eq!(
            wrong(costs([("tuner", 1101), ("law", 9)])),
            "6.1: tuner took 1000 instructions, takes 1101\n"
        );
    }

    #[test]
    fn what_is_missing_or_new_is_said() {
        let wrong = wrong("6.1", Some(&costs([("a", 1)])), &costs([("b", 2)]));
        assert_eq!(wrong, "6.1: a, which took 1, is missing\n6.1: b, which takes 2, is new\n");
    }

    #[test]
    fn a_kernel_that_is_not_in_the_table_has_a_bound_as_well() {
        assert_eq!(wrong("9.9", None, &costs([("law", MOST)])), "");
        let over = wrong("9.9", None, &costs([("law", MOST + 1)]));
        assert!(over.contains("law takes 700001 instructions"), "{over}");
    }
}
