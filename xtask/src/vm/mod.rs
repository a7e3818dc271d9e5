//! `cargo xtask vm`: the tests of the whole under other kernels than this
//! machine's. Each is booted by QEMU with the static `wad`, as it is shipped, and
//! with the tests as static programs.

pub mod apt;
mod bpftune;
mod cpio;
mod guest;
mod kernel;
pub mod lab;
mod machine;
mod verdict;

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::builder::PossibleValuesParser;

use self::{
    guest::Run,
    kernel::{Kernel, Wanted},
    machine::{Console, Instruction, Limits, Manner},
    verdict::Verdict,
};
use crate::{
    dist, exec,
    parallel::in_parallel,
    programs,
    setup::{self, For, SHIPPED},
};

/// The kernels and the tools are for this target.
const TARGET: &str = SHIPPED[0];

/// These limits are for the tests on one kernel. Their longest is silent while it runs.
const TESTS: Limits =
    Limits { silence: Duration::from_secs(15 * 60), whole: Duration::from_secs(40 * 60) };
/// These limits are for all tests on one kernel.
const LONG: Limits = Limits { whole: Duration::from_secs(3 * 3600), ..TESTS };
/// These limits are for what is measured.
const MEASURING: Limits =
    Limits { silence: Duration::from_secs(20 * 60), whole: Duration::from_secs(3 * 3600) };

/// A machine for tests has this memory, of which TCP may hold as much as on a host with
/// more: enough for all their flows, in pages.
const MEMORY_MIB: u32 = 2048;
const MORE_TCP_MEM: &str = "TCP_MEM=786432,1048576,1572864";
/// The programs that kernels refuse to all tests, if it is set (`refusing_kernel` of the testbed).
const REFUSED: &str = "WAD_E2E_REFUSE";
/// The mitigations of processors' flaws, which cost all alike, are not emulated where
/// something is measured.
const UNMITIGATED: &str = "mitigations=off";

/// The kernel has netem, and all congestion controls that ours are compared with.
pub const FOR_MEASURING: &str = "6.12";

/// Returns the names of the kernels, as the command line takes them.
pub fn names() -> PossibleValuesParser {
    kernel::ALL.iter().map(|wanted| wanted.name).collect::<Vec<_>>().into()
}

/// Runs the tests of every change, or in the long run all that can be run there, under
/// the named kernels, or all; or only those with a name. Each kernel gets a line at the
/// end.
pub fn run(names: &[String], only: &[String], long: bool) -> Result<()> {
    let wad = prepare()?;
    let program = programs::end_to_end(TARGET)?;
    let wanted = wanted(names);

    // A machine uses one processor.
    let outcomes = in_parallel(&wanted, |wanted| {
        let begun = Instant::now();
        let limits = if long { LONG } else { TESTS };
        // Paths of the tests are as fast as in the lab.
        let mut parameters = format!("{MORE_TCP_MEM} {}", wanted.parameters);
        if let Ok(refused) = env::var(REFUSED) {
            parameters += &format!(" {REFUSED}={refused}");
        }
        let manner = manner(&parameters, Instruction::OneNs, limits);
        let run = tests(wanted, &program, only, long);
        let outcome = boot(wanted, &manner, &wad, &run)
            .map(|(kernel, console)| (kernel.release, verdict::judge(&console, &run.name)));
        (outcome, begun.elapsed().as_secs())
    });

    let mut failures = Vec::new();
    for (wanted, (outcome, _)) in wanted.iter().zip(&outcomes) {
        let fails = match outcome {
            Ok((_, Verdict::Passed { .. })) => false,
            Ok((_, Verdict::Failed { console, .. })) => {
                console.iter().for_each(|line| eprintln!("{} | {line}", wanted.name));
                wanted.gates
            }
            // A kernel that was never seen is no verdict on it.
            Err(_) => true,
        };
        if fails {
            failures.push(wanted.name);
        }
    }
    for (wanted, (outcome, seconds)) in wanted.iter().zip(&outcomes) {
        match outcome {
            Ok((release, verdict)) => {
                println!("vm {} ({release}): {verdict} ({seconds} s)", wanted.name);
            }
            Err(error) => println!("vm {}: NOT RUN: {error:#}", wanted.name),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    bail!("not passed under {}", failures.join(", "))
}

/// Returns the named kernels, or all.
fn wanted(names: &[String]) -> Vec<&'static Wanted> {
    let is_named =
        |wanted: &&Wanted| names.is_empty() || names.iter().any(|name| name == wanted.name);
    kernel::ALL.iter().filter(is_named).collect()
}

/// Returns the end-to-end tests for a kernel.
fn tests(wanted: &Wanted, program: &Path, only: &[String], long: bool) -> Run {
    // One at a time: there is one processor, and time in which nothing goes on passes
    // at once.
    let tier = if long { "--machines=long" } else { "--machines=every-change" };
    let mut arguments = vec!["--one-at-a-time".to_owned(), tier.to_owned()];
    if !wanted.has_struct_ops {
        arguments.push("--any-kernel".to_owned());
    }
    arguments.extend_from_slice(only);
    Run {
        name: "wad-e2e".to_owned(),
        program: program.to_owned(),
        arguments,
        reads: None,
        beside: None,
    }
}

/// Returns what the end-to-end tests print of the verifier under the named kernels, or
/// all.
pub fn verifier(names: &[String]) -> Result<Vec<String>> {
    let wad = prepare()?;
    let program = programs::end_to_end(TARGET)?;
    let run = Run {
        name: "wad-e2e".to_owned(),
        program,
        arguments: vec!["--verifier".to_owned()],
        reads: None,
        beside: None,
    };
    let wanted: Vec<&Wanted> =
        wanted(names).into_iter().filter(|wanted| wanted.has_struct_ops).collect();
    let consoles = in_parallel(&wanted, |wanted| {
        let manner = manner(wanted.parameters, Instruction::TwoNs, TESTS);
        let (_, console) = boot(wanted, &manner, &wad, &run)?;
        let ended = console.lines.iter().any(|line| line == "vm: end wad-e2e 0");
        ensure!(ended, "the programs cannot be loaded under {}", wanted.name);
        Ok(console.lines)
    });
    Ok(consoles.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Compares laws of ours, all or the named one, with the kernel's.
pub fn compare(law: Option<&str>) -> Result<()> {
    let wad = prepare()?;
    let run = Run {
        name: "wad-compare".to_owned(),
        program: programs::of_lab("wad-compare", TARGET)?,
        arguments: law.map(str::to_owned).into_iter().collect(),
        reads: None,
        beside: None,
    };
    let wanted = kernel::named(FOR_MEASURING)?;
    let parameters = format!("{UNMITIGATED} {MORE_TCP_MEM} {}", wanted.parameters);
    let manner = manner(&parameters, Instruction::TwoNs, MEASURING);
    let (_, console) = boot(wanted, &manner, &wad, &run)?;
    for line in console.lines.iter().filter(|line| line.contains(" ratio ")) {
        println!("{line}");
    }
    ensure!(
        console.lines.iter().any(|line| line == "vm: end wad-compare 0"),
        "not all laws of ours are close to the kernel's, or not all were compared"
    );
    Ok(())
}

/// Tells how a kernel is run for tests, or to compare.
const fn manner(parameters: &str, instruction: Instruction, limits: Limits) -> Manner<'_> {
    Manner { parameters, memory_mib: MEMORY_MIB, results: None, instruction, limits }
}

/// Gets what is needed, and builds the static `wad`.
fn prepare() -> Result<PathBuf> {
    ensure!(cfg!(target_arch = "x86_64"), "the kernels, and the tools beside them, are for x86_64");
    setup::run(For::Machines)?;
    dist::ship(TARGET)
}

fn boot(wanted: &Wanted, manner: &Manner<'_>, wad: &Path, run: &Run) -> Result<(Kernel, Console)> {
    let kernel = Kernel::fetch(wanted, &exec::target().join("vm"))?;
    let console = start(&kernel, wanted.name, manner, (wad, run))?;
    Ok((kernel, console))
}

/// Boots a kernel under a name that no other machine of this process has.
fn start(
    kernel: &Kernel,
    name: &str,
    manner: &Manner<'_>,
    (wad, run): (&Path, &Run),
) -> Result<Console> {
    // Removed at the end. Others may be at work in the same folder.
    let own = exec::target().join("vm").join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&own).with_context(|| own.display().to_string())?;
    let files = own.join("initramfs");
    let console = guest::archive(kernel, &own, wad, run)
        .and_then(|archive| fs::write(&files, archive).context("cannot write the first files"))
        .and_then(|()| machine::run(&kernel.image, &files, name, manner));
    fs::remove_dir_all(&own).with_context(|| own.display().to_string())?;
    console
}
