//! `wad-lab` runs experiments on an emulated long path. `cargo xtask lab` and `cargo
//! xtask demo` run it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use wad_lab::{
    cli::{self, Peer, print},
    client::Client,
    demo, experiment, guard,
    lab::Lab,
    page, probe, progress,
    report::Report,
    scenario::{Machine, Scenario, ScenarioError},
    simulated, store, table, targets,
};
use wad_testbed::say;

/// Real TCP over an emulated long path, with and without `wad`.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The scenarios and what they are about.
    List,
    /// Runs one scenario, and fails if a target of it is missed.
    Run {
        scenario: String,
        #[command(flatten)]
        how: How,
        /// Only this variant; may be given more than once. Without a path's part
        /// of the name it is meant on all paths of the grid.
        #[arg(long = "variant", value_name = "NAME")]
        variants: Vec<String>,
        /// Prints everything measured as JSON.
        #[arg(long)]
        json: bool,
        /// Who sends and receives.
        #[arg(long, value_enum, default_value_t = ClientName::Own)]
        client: ClientName,
        /// Has `wad trace` look at the senders, too, as often as the scenario does: a
        /// file for each variant in this folder, for `wad plot`.
        #[arg(long, value_name = "DIR")]
        trace: Option<PathBuf>,
        /// Sets beside what was measured what `wad simulate` says of the same.
        #[arg(long, conflicts_with = "json")]
        simulated: bool,
    },
    /// Runs scenarios, all of them if none is named, makes a page of it, and fails if a
    /// target is missed, or nobody has measured it.
    Report {
        scenarios: Vec<String>,
        #[command(flatten)]
        how: How,
        /// Runs nothing: the page is made of what was found before.
        #[arg(long)]
        stored: bool,
    },
    /// Keeps results of a scenario that were found elsewhere, as in virtual machines, and
    /// fails if a target of it is missed.
    #[command(hide = true)]
    Keep {
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[arg(long, default_value = "target/lab")]
        out: PathBuf,
    },
    /// Shows what tuning gains on two paths, in about a minute: a table and a picture.
    Demo {
        /// The `wad` binary.
        #[arg(long)]
        wad: PathBuf,
        /// The folder that the picture goes to.
        #[arg(long, default_value = "target")]
        out: PathBuf,
    },
    #[command(flatten)]
    Peer(Peer),
}

/// These are no transfers under `wad`, and have their own paths and figures.
const PROBE: &str = "probe";
const EXPERIMENT: &str = "experiment";
const GUARD: &str = "guard";

#[derive(clap::Args)]
struct How {
    /// Runs of each variant, alternated; the medians are shown [default: the
    /// scenario's own, mostly 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// The `wad` binary.
    #[arg(long)]
    wad: PathBuf,
    /// The folder that results are kept in, and the report.
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum ClientName {
    Own,
    Iperf3,
}

fn main() -> ExitCode {
    cli::run("wad-lab", || run(Arguments::parse().command))
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => list(),
        Command::Run { scenario, how, variants, json, .. } if scenario == PROBE => {
            cli::prepare(&how.wad)?;
            print(probe::run(&how.wad, &variants, json)?.trim_end())
        }
        Command::Run { scenario, how, variants, json, .. } if scenario == EXPERIMENT => {
            cli::prepare(&how.wad)?;
            let text = experiment::run(&own()?, &how.wad, &variants, json)?;
            print(text.trim_end())
        }
        Command::Run { scenario, how, variants, json, .. } if scenario == GUARD => {
            cli::prepare(&how.wad)?;
            print(guard::run(&own()?, &how.wad, &variants, json)?.trim_end())
        }
        Command::Run { scenario, how, variants, json, client, trace, simulated } => {
            if let Some(folder) = &trace {
                let failed = || format!("cannot make the folder {}", folder.display());
                fs::create_dir_all(folder).with_context(failed)?;
            }
            let lab = Lab { traces: trace, ..lab(how.wad.clone(), client)? };
            let scenario = Scenario::load(&scenario)?.only(&variants)?;
            let scenario = scenario.for_machine(&Machine::this()?)?;
            let report = measure(&lab, &scenario, how.repeat)?;
            if simulated {
                print(simulated::beside(&how.wad, &scenario, &report)?.trim_end())?;
            }
            conclude(&scenario, report, &how.out, json)
        }
        Command::Keep { files, out } => {
            let mut reports = files.iter().map(|file| store::read(file));
            let mut report = reports.next().context("no results")??;
            for other in reports {
                report.variants.extend(other?.variants);
            }
            let names: Vec<_> = report.variants.iter().map(|one| one.name.clone()).collect();
            let scenario = Scenario::load(&report.scenario)?.only(&names)?;
            conclude(&scenario, report, &out, false)
        }
        Command::Report { scenarios, how, stored } => {
            let results = report(scenarios, how, stored)?;
            let missed =
                results.iter().flat_map(|(scenario, report)| targets::missed(scenario, report));
            all_met(&missed.collect::<Vec<_>>())
        }
        Command::Demo { wad, out } => {
            let text = demo::run(&lab(wad, ClientName::Own)?, &out)?;
            print(text.trim_end())
        }
        Command::Peer(peer) => peer.run(),
    }
}

fn list() -> anyhow::Result<()> {
    for name in Scenario::names()? {
        print(&format!("{name:<20} {}", Scenario::load(&name)?.description))?;
    }
    print(&format!("{EXPERIMENT:<20} {}", experiment::DESCRIPTION))?;
    print(&format!("{GUARD:<20} {}", guard::DESCRIPTION))?;
    print(&format!("{PROBE:<20} {}", probe::DESCRIPTION))
}

/// Scenarios, each with what was found.
type Results = Vec<(Scenario, Report)>;

fn report(mut names: Vec<String>, how: How, stored: bool) -> anyhow::Result<Results> {
    if names.is_empty() {
        names = Scenario::names()?;
    }
    let scenarios: Vec<Scenario> =
        names.iter().map(|name| Scenario::load(name)).collect::<Result<_, _>>()?;
    if !stored {
        let lab = lab(how.wad, ClientName::Own)?;
        for scenario in &scenarios {
            let scenario = match scenario.clone().for_machine(&Machine::this()?) {
                Err(error @ ScenarioError::OtherMachine { .. }) => {
                    say(&error.to_string());
                    continue;
                }
                scenario => &scenario?,
            };
            // Kept one by one: the next may be interrupted.
            store::keep(&how.out, measure(&lab, scenario, how.repeat)?)?;
        }
    }
    let results = scenarios.into_iter().map(|scenario| {
        // What was never run is a page without figures, and its targets are missed.
        let found = store::find(&how.out, &scenario.name)?;
        let found = found.unwrap_or_else(|| Report::of(&scenario, Client::Own));
        Ok((scenario, found))
    });
    let results = results.collect::<Result<Vec<_>, store::StoreError>>()?;
    let page = page::write(&how.out.join("report"), &results)?;
    print(&format!("{}", page.display()))?;
    Ok(results)
}

/// Keeps and shows what was found, and fails if a target is missed.
fn conclude(scenario: &Scenario, report: Report, out: &Path, json: bool) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string(&report)?
    } else {
        let table = table::render(std::slice::from_ref(&report));
        format!("{}\n{}", table.trim_end(), judged(scenario, &report))
    };
    let missed = targets::missed(scenario, &report);
    // Before someone who reads only the beginning ends this.
    store::keep(out, report)?;
    print(text.trim_end())?;
    all_met(&missed)
}

/// Returns the verdicts as text, and how many targets there are none on.
fn judged(scenario: &Scenario, report: &Report) -> String {
    let left_out = match scenario.unjudged() {
        0 => String::new(),
        count => format!("  not judged: {count} of the targets, whose variants were left out\n"),
    };
    targets::lines(scenario, report) + &left_out
}

/// Fails if a target is missed, and says which.
fn all_met(missed: &[String]) -> anyhow::Result<()> {
    ensure!(missed.is_empty(), "missed:\n  {}", missed.join("\n  "));
    Ok(())
}

fn measure(lab: &Lab, scenario: &Scenario, repeat: Option<u32>) -> anyhow::Result<Report> {
    let repeat = repeat.unwrap_or(scenario.repeat);
    Ok(lab.run(scenario, repeat, &progress::Line::new(scenario, repeat))?)
}

fn lab(wad: PathBuf, client: ClientName) -> anyhow::Result<Lab> {
    cli::prepare(&wad)?;
    let client = match client {
        ClientName::Own => Client::Own,
        ClientName::Iperf3 => Client::Iperf3,
    };
    Ok(Lab { own: own()?, wad, client, traces: None })
}

fn own() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}
