//! `cargo xtask` is every developer command of wad. Each does its own set-up first, so
//! any of them can be the first one on a clean clone.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use fuzz::Time;

mod again;
mod bill;
mod book;
mod build;
mod chart;
mod ci;
mod clippy;
mod collector;
mod deny;
mod dist;
mod doc;
mod elf;
mod exec;
mod fmt;
mod fuzz;
mod go;
mod image;
mod installed;
mod kubernetes;
mod lab;
mod linker;
mod package;
mod packages;
mod parallel;
mod programs;
mod reference;
mod release;
mod setup;
mod sizes;
mod source;
mod test;
mod toolchains;
mod tools;
mod tree;
mod unit_tests;
mod verifier;
mod vm;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "Developer commands of wad",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Get the compilers, tools and packages that are missing
    Setup,
    /// Build `wad` for this machine, optimised, BPF programs included
    Build,
    /// Lint the workspace and the BPF programs; warnings are errors
    Clippy {
        /// As it is compiled for this machine; for the one that this is if none is named
        #[arg(value_name = "MACHINE", value_parser = dist::machines())]
        machine: Option<String>,
        /// The BPF programs alone
        #[arg(long)]
        programs: bool,
    },
    /// Format the workspace and the BPF programs
    Fmt {
        /// Change nothing; fail if something is not formatted
        #[arg(long)]
        check: bool,
    },
    /// Check licences, duplicates and sources of dependencies
    Deny {
        /// Ask which of them are known to be vulnerable, too
        #[arg(long)]
        advisories: bool,
    },
    /// Build the documentation of the code; warnings are errors
    Doc,
    /// Run what every change has to pass, and show the time of each step
    Ci {
        /// Only what is worth it after each change: format, lints, tests without root
        #[arg(long, conflicts_with = "long")]
        quick: bool,
        /// All kernels, an hour of fuzzing, the lab with its targets, every machine: a day
        #[arg(long)]
        long: bool,
    },
    /// Run every test; those that change the network need root
    Test {
        /// Only those with this in their names
        filter: Option<String>,
        /// Run none, but say of each end-to-end test where it is run, and why never in
        /// virtual machines
        #[arg(long, conflicts_with = "filter")]
        list: bool,
        /// Only build them
        #[arg(long, conflicts_with_all = ["filter", "list"])]
        no_run: bool,
    },
    /// Hold the metrics against what an OpenTelemetry Collector makes of them; that is built
    /// first, which takes Go and some ten minutes
    Collector,
    /// Run the agent by its chart on a node of a real Kubernetes
    Kubernetes {
        #[command(subcommand)]
        order: kubernetes::Order,
    },
    /// Feed the parsers of what comes from outside with what libFuzzer makes up
    Fuzz {
        /// All of them if none is named
        #[arg(value_name = "TARGET", value_parser = fuzz::names())]
        targets: Vec<String>,
        /// How long each is run; as many at once as there are cores
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// How long they take together, instead
        #[arg(long, value_name = "SECONDS", conflicts_with = "seconds")]
        in_all: Option<u32>,
        /// Run the one that is named on this file instead, which it may have left
        #[arg(long, value_name = "FILE", requires = "targets", conflicts_with_all = ["seconds", "in_all"])]
        input: Option<PathBuf>,
    },
    /// Run tests of the static `wad` under Debian's kernels, each in a virtual
    /// machine: 5.10, 6.1, 6.12, sid
    #[command(args_conflicts_with_subcommands = true)]
    Vm {
        #[command(subcommand)]
        other: Option<VmCommand>,
        /// All of them if none is named
        #[arg(value_name = "KERNEL", value_parser = vm::names())]
        kernels: Vec<String>,
        /// Only the tests with this in their names, or with one of these
        #[arg(long = "test", value_name = "NAME")]
        tests: Vec<String>,
        /// Every test that can be run there, not only those of every change
        #[arg(long)]
        long: bool,
    },
    /// Write what the verifier processes of each BPF program under each kernel, in
    /// tests/verifier.toml, which changes are held against
    Verifier {
        /// Beside this machine's; all of them if none is named
        #[arg(value_name = "KERNEL", value_parser = vm::names())]
        kernels: Vec<String>,
    },
    /// Build the static binaries to ship, in target/dist, and what is installed beside them
    Dist {
        /// All of them if none is named
        #[arg(value_name = "MACHINE", value_parser = dist::machines())]
        machines: Vec<String>,
        /// Show what takes the room, by section and by crate
        #[arg(long)]
        sizes: bool,
    },
    /// Build an OCI image without a daemon, the same bytes from the same commit, in
    /// target/dist: for x86_64 and aarch64 in one index
    Image {
        /// The image of these machines alone
        #[arg(value_name = "MACHINE", value_parser = dist::machines())]
        machines: Vec<String>,
        /// Where the sources are, which the image's annotations say
        #[arg(long, value_name = "URL")]
        source: Option<String>,
        /// Have skopeo read it, umoci unpack it, and the kernel run what is in it
        #[arg(long)]
        check: bool,
        /// Build it again from a clone in another folder, and compare
        #[arg(long, conflicts_with = "check")]
        twice: bool,
    },
    /// Build packages for Debian and for distributions that take RPM, the same bytes from
    /// the same commit, in target/dist; that takes Go
    Package {
        /// The packages for these machines alone
        #[arg(value_name = "MACHINE", value_parser = dist::machines())]
        machines: Vec<String>,
        /// Have lintian and rpmlint look at them, and install, upgrade, remove and purge
        /// them in roots of distributions
        #[arg(long)]
        check: bool,
    },
    /// Make all that is published of a version, twice, in target/dist/wad-VERSION: tarballs,
    /// packages, image, checksums, and lists of what is in them and where it is from
    Release {
        /// Where the sources are, which the image and the provenance say
        #[arg(long, value_name = "URL")]
        source: Option<String>,
        /// Publish no version: take what CHANGELOG.md has under Unreleased, without a tag
        #[arg(long)]
        unreleased: bool,
        /// Make it once
        #[arg(long, hide = true)]
        once: bool,
    },
    /// Build the book of docs/, in target/book; wrong links, stale pages and broken examples
    /// fail it
    Book {
        /// Renew the pages that are made from the program's tables
        #[arg(long)]
        write: bool,
    },
    /// Measure over an emulated WAN: `lab list`, `lab run NAME`
    #[command(disable_help_flag = true)]
    Lab(PassedOn),
    /// Show in a minute what tuning gains
    #[command(disable_help_flag = true)]
    Demo(PassedOn),
    /// Measure what wad costs: `bench NAME`
    #[command(disable_help_flag = true)]
    Bench(PassedOn),
    /// Load the agent for long while all around it comes and goes; or, with `--kills`, kill it at
    /// each call that changes the host
    #[command(disable_help_flag = true)]
    Soak(PassedOn),
}

#[derive(Subcommand)]
enum VmCommand {
    /// Compare laws with the kernel's own of the same name, under the same losses in
    /// 6.12: some ten minutes for each
    Compare {
        /// As wad_highspeed; all of them if left out
        law: Option<String>,
    },
    /// Run a scenario of the lab under another kernel, at the speed of an emulated
    /// processor, in machines of as much memory as it is for
    Lab {
        #[arg(long, default_value = vm::FOR_MEASURING, value_parser = vm::names())]
        kernel: String,
        /// As `lab run` takes them: NAME, `--variant NAME`, `--repeat N`
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Arguments for the program that does the work.
#[derive(clap::Args)]
struct PassedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Setup => setup::run(setup::For::Everything),
        Command::Build => build::run(),
        Command::Clippy { machine, programs: true } => clippy::of_programs(machine.as_deref()),
        Command::Clippy { machine, .. } => clippy::run(machine.as_deref()),
        Command::Fmt { check } => fmt::run(check),
        Command::Ci { quick: true, .. } => ci::run(ci::Extent::Quick),
        Command::Ci { long: true, .. } => ci::run(ci::Extent::Long),
        Command::Ci { .. } => ci::run(ci::Extent::Default),
        Command::Deny { advisories } => deny::run(advisories),
        Command::Doc => doc::run(),
        Command::Test { list: true, .. } => test::list(),
        Command::Test { no_run: true, .. } => test::build(),
        Command::Test { filter, .. } => test::run(filter.as_deref()),
        Command::Collector => collector::run(),
        Command::Kubernetes { order } => kubernetes::run(&order),
        Command::Fuzz { targets, input: Some(input), .. } => fuzz::reproduce(&targets, &input),
        Command::Fuzz { targets, input: None, seconds, in_all, .. } => {
            let time = in_all.map_or(Time::Each(seconds), Time::InAll);
            fuzz::run(&targets, time)
        }
        Command::Vm { other: Some(VmCommand::Compare { law }), .. } => vm::compare(law.as_deref()),
        Command::Vm { other: Some(VmCommand::Lab { kernel, arguments }), .. } => {
            vm::lab::run(&kernel, &arguments)
        }
        Command::Vm { other: None, kernels, tests, long } => vm::run(&kernels, &tests, long),
        Command::Verifier { kernels } => verifier::run(&kernels),
        Command::Dist { machines, sizes } => dist::run(&machines, sizes),
        Command::Image { machines, source, check: true, .. } => {
            image::check(&machines, source.as_deref())
        }
        Command::Image { machines, source, twice: true, .. } => {
            image::twice(&machines, source.as_deref())
        }
        Command::Image { machines, source, .. } => image::run(&machines, source.as_deref()),
        Command::Package { machines, check: true } => package::check(&machines),
        Command::Package { machines, check: false } => package::run(&machines),
        Command::Release { source, unreleased, once } => {
            let url = source.as_deref();
            release::run(release::Options { url, is_unreleased: unreleased, once })
        }
        Command::Book { write } => book::run(write),
        Command::Lab(passed_on) => lab::lab(passed_on.arguments),
        Command::Demo(passed_on) => lab::demo(passed_on.arguments),
        Command::Bench(passed_on) => lab::bench(passed_on.arguments),
        Command::Soak(passed_on) => lab::soak(passed_on.arguments),
    }
}
