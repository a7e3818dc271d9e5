//! The page of commands, as clap has them.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::{head, row};
use crate::cli::Cli;

const OPENING: &str = "\
# Commands

`wad COMMAND --help` says the same. Those that print JSON with `--json` keep its fields; new ones may come.
";

pub fn page() -> String {
    let mut wad = Cli::command();
    wad.build();
    let mut page = OPENING.to_owned();
    for (name, command) in leaves(&wad) {
        page += &section(&name, &mut command.clone());
    }
    page
}

/// Returns the commands that do something, with their whole names, as `probe plan`.
pub fn leaves(command: &Command) -> Vec<(String, &Command)> {
    let shown = command.get_subcommands();
    let shown = shown.filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let all = shown.flat_map(|command| {
        let name = command.get_name();
        if command.has_subcommands() {
            let below = leaves(command).into_iter();
            below.map(|(below, command)| (format!("{name} {below}"), command)).collect()
        } else {
            vec![(name.to_owned(), command)]
        }
    });
    all.collect()
}

fn section(name: &str, command: &mut Command) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("\n## wad {name}\n\n{about}.\n\n");
    text += &format!("```text\n{usage}\n```\n\n");
    let arguments: Vec<_> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    if !arguments.is_empty() {
        text += &head(["Argument", "Meaning", "Left out"]);
    }
    for argument in arguments {
        text += &argument_row(argument);
    }
    if let Some(more) = command.get_after_help() {
        text += &format!("\n```text\n{more}\n```\n");
    }
    text
}

fn argument_row(argument: &Arg) -> String {
    let mut name = String::new();
    if let Some(short) = argument.get_short() {
        let _ = write!(name, "-{short}, ");
    }
    if let Some(long) = argument.get_long() {
        let _ = write!(name, "--{long}");
    }
    if argument.get_action().takes_values() {
        let values = argument.get_value_names().unwrap_or_default();
        let values: Vec<_> = values.iter().map(clap::builder::Str::as_str).collect();
        let is_optional = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
        let values = values.join(" ");
        let space = if name.is_empty() { "" } else { " " };
        name +=
            &if is_optional { format!("{space}[{values}]") } else { format!("{space}{values}") };
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    // Where clap has no default, the words themselves say what there is.
    let (help, said) = match help.split_once(" [default: ") {
        Some((help, said)) => (help.to_owned(), said.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    let possible = argument.get_possible_values();
    let words: Vec<_> = possible.iter().map(|value| format!("`{}`", value.get_name())).collect();
    let help = match words.as_slice() {
        [] => help,
        _ if !argument.get_action().takes_values() => help,
        words => format!("{help}: {}", words.join(", ")),
    };
    let defaults = argument.get_default_values();
    let defaults: Vec<_> =
        defaults.iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    let left_out = match defaults.as_slice() {
        _ if !argument.get_action().takes_values() => String::new(),
        [] if argument.is_required_set() => "refused".to_owned(),
        [] => said,
        defaults => defaults.join(", "),
    };
    row([&format!("`{name}`"), &help, &left_out])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_argument_is_there() {
        let page = page();
        let wad = Cli::command();
        for (name, command) in leaves(&wad) {
            assert!(page.contains(&format!("\n## wad {name}\n")), "{name}");
            for long in command.get_arguments().filter_map(Arg::get_long) {
                assert!(page.contains(&format!("--{long}")), "{name} --{long}");
            }
        }
        assert!(page.contains("\n## wad probe plan\n"), "{page}");
    }
}
