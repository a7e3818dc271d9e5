//! The table `.ci/steps.toml` says what a change has to pass.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::exec;

/// Tells how much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    Quick,
    Default,
    Long,
}

/// The steps, in their order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    step: Vec<Step>,
}

/// A row of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub name: String,
    /// Words without quotes.
    pub command: String,
    runs: Vec<Extent>,
    /// The step that leaves processors idle, in which this one is run.
    pub beside: Option<String>,
    budget_s: Option<u64>,
}

impl Table {
    pub fn read() -> Result<Self> {
        let path = exec::root().join(".ci/steps.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text)?;
        for (place, step) in table.step.iter().enumerate() {
            let Step { name, command, runs, beside, budget_s } = step;
            let others = &table.step[..place];
            ensure!(others.iter().all(|other| other.name != *name), "two steps are called {name}");
            ensure!(!command.trim().is_empty(), "the step {name} has no command");
            ensure!(!runs.is_empty(), "no run has the step {name}");
            ensure!(
                runs.contains(&Extent::Default) == budget_s.is_some(),
                "{name}: a step has a budget if it is one of the default run's"
            );
            if let Some(beside) = beside {
                let host = others.iter().find(|other| other.name == *beside);
                ensure!(
                    host.is_some_and(|host| host.beside.is_none()),
                    "{name}: no step before it is {beside}, by itself"
                );
            }
        }
        Ok(table)
    }

    /// Returns the steps of a run.
    pub fn of(&self, extent: Extent) -> Vec<&Step> {
        self.step.iter().filter(|step| step.runs.contains(&extent)).collect()
    }

    /// Returns those of its steps that others are run beside, or none.
    pub fn by_itself(&self, extent: Extent) -> Vec<&Step> {
        let steps = self.of(extent);
        let is_there = |name: &String| steps.iter().any(|step| step.name == *name);
        let is_by_itself = |step: &&Step| !step.beside.as_ref().is_some_and(is_there);
        steps.iter().copied().filter(is_by_itself).collect()
    }

    /// Returns those of its steps that are run beside this one.
    pub fn beside(&self, extent: Extent, name: &str) -> Vec<&Step> {
        let is_beside = |step: &&Step| step.beside.as_deref() == Some(name);
        self.of(extent).into_iter().filter(is_beside).collect()
    }
}

impl Step {
    /// Returns the most that the step should take in such a run, where that is known.
    pub fn budget(&self, extent: Extent) -> Option<Duration> {
        self.budget_s.filter(|_| extent == Extent::Default).map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::Arguments;

    const MOST_S: u64 = 40 * 60;
    /// The set-up and the checks may take this long where the user's cache folder has
    /// the tools.
    const MOST_WITH_TOOLS_S: u64 = 25 * 60;
    /// The set-up takes so long where they are there.
    const SETUP_WITH_TOOLS_S: u64 = 30;

    /// These commands check nothing.
    const NO_CHECKS: [&str; 4] = ["build", "ci", "demo", "verifier"];

    fn refusal(text: &str) -> String {
        format!("{:#}", Table::parse(text).err().unwrap())
    }

    #[test]
    fn a_change_is_checked_in_minutes() {
        let table = Table::read().unwrap();
        let steps = table.by_itself(Extent::Default);
        let all_s: u64 = steps.iter().filter_map(|step| step.budget_s).sum();
        let setup = steps.iter().find(|step| step.name == "setup").unwrap();
        let with_tools_s = all_s - setup.budget_s.unwrap() + SETUP_WITH_TOOLS_S;
        assert!(all_s <= MOST_S, "{all_s}");
        assert!(with_tools_s <= MOST_WITH_TOOLS_S, "{with_tools_s}");
    }

    #[test]
    fn each_step_is_a_command_and_each_command_a_step() {
        let table = Table::read().unwrap();
        let mut commands = Vec::new();
        for step in &table.step {
            let words: Vec<&str> = step.command.split_whitespace().collect();
            if let ["cargo", "xtask", arguments @ ..] = &words[..] {
                let understood = Arguments::try_parse_from([&["xtask"], arguments].concat());
                assert!(understood.is_ok(), "{}", step.command);
                commands.push(arguments[0].to_owned());
            }
        }
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            assert_ne!(
                commands.iter().any(|step| step == name),
                NO_CHECKS.contains(&name),
                "`cargo xtask {name}` is either a step or checks nothing"
            );
        }
    }

    #[test]
    fn what_readme_says_is_run() {
        let readme = fs::read_to_string(exec::root().join("README.md")).unwrap();
        let tests = "cargo xtask test";
        assert!(readme.contains(tests));
        let table = Table::read().unwrap();
        assert!(table.of(Extent::Default).iter().any(|step| step.command == tests));
        let script = fs::read_to_string(exec::root().join(".ci/run")).unwrap();
        assert!(script.lines().any(|line| line == "cargo xtask ci \"$@\""));
    }

    #[test]
    fn a_row_belongs_to_runs() {
        let text = "[[step]]\nname = 'a'\ncommand = 'cargo a'\nruns = ['default', 'long']\nbudget_s = 9\n\
            [[step]]\nname = 'b'\ncommand = 'cargo b'\nruns = ['quick']\n";
        let table = Table::parse(text).unwrap();
        let names = |extent| -> Vec<&str> {
            table.of(extent).iter().map(|step| step.name.as_str()).collect()
        };
        assert_eq!(names(Extent::Quick), ["b"]);
        assert_eq!(names(Extent::Default), ["a"]);
        assert_eq!(names(Extent::Long), ["a"]);
        assert_eq!(table.step[0].budget(Extent::Default), Some(Duration::from_secs(9)));
        assert_eq!(table.step[0].budget(Extent::Long), None);
    }

    #[test]
    fn a_step_is_run_beside_another_where_that_is_run() {
        let row =
            |name, runs| format!("[[step]]\nname = '{name}'\ncommand = 'c'\nruns = [{runs}]\n");
        let rows = [row("a", "'long'"), row("b", "'quick', 'long'")].concat();
        let table = Table::parse(&format!("{rows}beside = 'a'\n")).unwrap();
        let names = |steps: Vec<&Step>| -> Vec<String> {
            steps.iter().map(|step| step.name.clone()).collect()
        };
        assert_eq!(names(table.by_itself(Extent::Long)), ["a"]);
        assert_eq!(names(table.beside(Extent::Long, "a")), ["b"]);
        assert_eq!(names(table.by_itself(Extent::Quick)), ["b"]);
        assert!(table.beside(Extent::Long, "b").is_empty());
    }

    #[test]
    fn a_table_that_makes_no_sense_is_refused() {
        let row = "[[step]]\nname = 'a'\ncommand = 'cargo a'\n";
        assert!(refusal(&format!("{row}runs = []")).contains("no run has the step a"));
        assert!(refusal(&format!("{row}runs = ['default']")).contains("has a budget"));
        assert!(refusal(&format!("{row}runs = ['quick']\nbudget_s = 1")).contains("has a budget"));
        assert!(refusal(&format!("{row}runs = ['never']")).contains("never"));
        assert!(refusal(&format!("{row}runs = ['quick']\nbudget = 1")).contains("budget"));
        let twice = "[[step]]\nname = 'a'\ncommand = 'b'\nruns = ['quick']";
        assert!(refusal(&format!("{row}runs = ['quick']\n{twice}")).contains("two steps"));
        let empty = "[[step]]\nname = 'a'\ncommand = ' '\nruns = ['quick']";
        assert!(refusal(empty).contains("no command"));
        let beside = "runs = ['quick']\nbeside = 'b'\n";
        assert!(refusal(&format!("{row}{beside}")).contains("no step before it is b"));
        assert!(refusal(&format!("{row}runs = ['quick']\nbeside = 'a'")).contains("it is a"));
    }
}
