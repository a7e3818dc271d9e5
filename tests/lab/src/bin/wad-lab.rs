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
    chapter::{self, FIGURES, STUDIES},
    cli::{self, Peer, print},
    client::Client,
    demo, experiment, grid, guard,
    lab::Lab,
    landed::{self, Experiment, Landed},
    landing,
    measured::{self, Measured},
    pictures, probe, progress,
    report::Report,
    results::Results,
    scenario::{Machine, Scenario, ScenarioError},
    simulated, store,
    study::Study,
    table, targets,
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
    /// Runs scenarios and studies, all of them if none is named, makes a page of it, and fails if
    /// a target is missed, or nobody has measured it.
    Report {
        names: Vec<String>,
        #[command(flatten)]
        how: How,
        /// Runs nothing: the page is made of what was found before.
        #[arg(long)]
        stored: bool,
        /// Makes of it what the repository keeps: the landed figures, and the book's chapter.
        /// What was not run stays as it is there.
        #[arg(long)]
        land: bool,
    },
    /// Simulates the policies that `wad plan` has for pasting over a grid of paths, beside untuned
    /// Linux and CUBIC with large buffers, and fails if one has less than it is to have.
    Grid {
        /// Only one cell of so many.
        #[arg(long, default_value_t = 1)]
        one_of: usize,
        /// The `wad` binary.
        #[arg(long)]
        wad: PathBuf,
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
    /// Shows what tuning gains on two paths, in about two minutes: a table and a picture.
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
        Command::Run { scenario, how, variants, json, .. } if is_study(&scenario) => {
            let study = study(&scenario, &how.wad, &variants)?;
            let text = if json { serde_json::to_string(&study.outcomes())? } else { study.text() };
            let missed = study.missed();
            store::keep_study(&how.out, study)?;
            print(text.trim_end())?;
            all_met(&missed)
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
        Command::Grid { one_of, wad } => grid::run(&wad, one_of, print),
        Command::Keep { files, out } => {
            let mut reports = files.iter().map(|file| store::read::<Report>(file));
            let mut report = reports.next().context("no results")??;
            for other in reports {
                report.variants.extend(other?.variants);
            }
            // A machine that was made for it knows nothing of the sources.
            let sources = measured::commit(Path::new(env!("CARGO_MANIFEST_DIR")));
            for measured in report.variants.iter_mut().filter_map(|one| one.measured.as_mut()) {
                measured.wad = measured.wad.take().or_else(|| sources.clone());
            }
            let names: Vec<_> = report.variants.iter().map(|one| one.name.clone()).collect();
            let scenario = Scenario::load(&report.scenario)?.only(&names)?;
            conclude(&scenario, report, &out, false)
        }
        Command::Report { names, how, stored, land } => report(&names, &how, stored, land),
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
    STUDIES.iter().try_for_each(|(name, about)| print(&format!("{name:<20} {about}")))
}

fn is_study(name: &str) -> bool {
    STUDIES.iter().any(|(study, _)| *study == name)
}

/// Runs a study, over the paths of these names or all.
fn study(name: &str, wad: &Path, paths: &[String]) -> anyhow::Result<Study> {
    cli::prepare(wad)?;
    let mut study = match name {
        probe::NAME => probe::run(wad, paths)?,
        experiment::NAME => experiment::run(&own()?, wad, paths)?,
        _ => guard::run(&own()?, wad, paths)?,
    };
    study.stamp(&Measured::now(wad));
    Ok(study)
}

/// Makes a page of results, which were stored, or are measured first.
fn report(names: &[String], how: &How, stored: bool, land: bool) -> anyhow::Result<()> {
    let is_meant = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    let all = Scenario::all()?;
    let meant: Vec<Scenario> = all.iter().filter(|one| is_meant(&one.name)).cloned().collect();
    let studies: Vec<&str> =
        STUDIES.iter().map(|(name, _)| *name).filter(|name| is_meant(name)).collect();
    for name in names.iter().filter(|name| !is_study(name)) {
        // One that is not there is an error that names all.
        Scenario::load(name)?;
    }
    if !stored {
        run_all(&meant, &studies, how)?;
    }
    let found = Results::find(&meant, &studies, &how.out)?;
    say(&found.words());
    // What is landed stays where nothing was found; a page of its own is of what was found.
    let mut landed = if land { Landed::load()? } else { Landed::default() };
    landed.take(found.landed());
    let (page, scenarios, studies) = match land {
        true => (chapter::path(), &all, STUDIES.map(|(name, _)| name).to_vec()),
        false => (how.out.join("report/report.md"), &meant, studies),
    };
    let folder = page.parent().unwrap_or(&page).join(FIGURES);
    for (scenario, report) in &found.reports {
        for picture in pictures::all(scenario, report) {
            chapter::put(&folder.join(&picture.file), &picture.svg())?;
        }
    }
    if land {
        chapter::put(&landed::path(), &landed.to_string())?;
    }
    chapter::put(&page, &chapter::text(&landed, scenarios, &studies))?;
    print(&format!("{}", page.display()))?;
    let nothing = Experiment::default();
    let of_scenarios = scenarios.iter().flat_map(|scenario| {
        targets::missed(scenario, landed.experiment(&scenario.name).unwrap_or(&nothing))
    });
    let of_studies = studies.iter().flat_map(|name| match landed.study(name) {
        Some(study) => study.missed(),
        None => vec![format!("{name}: no figures")],
    });
    all_met(&of_scenarios.chain(of_studies).collect::<Vec<_>>())
}

/// Runs all of them. What is found is kept one by one: the next may be interrupted.
fn run_all(scenarios: &[Scenario], studies: &[&str], how: &How) -> anyhow::Result<()> {
    let lab = lab(how.wad.clone(), ClientName::Own)?;
    for scenario in scenarios {
        match scenario.clone().for_machine(&Machine::this()?) {
            Err(error @ ScenarioError::OtherMachine { .. }) => say(&error.to_string()),
            scenario => store::keep(&how.out, measure(&lab, &scenario?, how.repeat)?)?,
        }
    }
    for name in studies {
        store::keep_study(&how.out, study(name, &how.wad, &[])?)?;
    }
    Ok(())
}

/// Keeps and shows what was found, and fails if a target is missed.
fn conclude(scenario: &Scenario, report: Report, out: &Path, json: bool) -> anyhow::Result<()> {
    let found = landing::of(scenario, &report);
    let text = if json {
        serde_json::to_string(&report)?
    } else {
        let table = table::render(std::slice::from_ref(&report));
        format!("{}\n{}", table.trim_end(), judged(scenario, &found))
    };
    let missed = targets::missed(scenario, &found);
    // Before someone who reads only the beginning ends this.
    store::keep(out, report)?;
    print(text.trim_end())?;
    all_met(&missed)
}

/// Returns the verdicts as text, and how many targets there are none on.
fn judged(scenario: &Scenario, found: &Experiment) -> String {
    let left_out = match scenario.unjudged() {
        0 => String::new(),
        count => format!("  not judged: {count} of the targets, whose variants were left out\n"),
    };
    targets::lines(scenario, found) + &left_out
}

/// Fails if a target is missed, and says which.
fn all_met(missed: &[String]) -> anyhow::Result<()> {
    ensure!(missed.is_empty(), "missed:\n  {}", missed.join("\n  "));
    Ok(())
}

fn measure(lab: &Lab, scenario: &Scenario, repeat: Option<u32>) -> anyhow::Result<Report> {
    let repeat = repeat.unwrap_or(scenario.repeat);
    let mut report = lab.run(scenario, repeat, &progress::Line::new(scenario, repeat))?;
    report.stamp(&Measured::now(&lab.wad));
    Ok(report)
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
