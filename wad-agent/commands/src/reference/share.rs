//! Files that are installed beside the program: manual pages, completions of the command
//! line and JSON Schemas, made from the same tables. The program itself has none of it.

use clap::{Command, CommandFactory as _};
use clap_complete::{
    Generator,
    shells::{Bash, Fish, Zsh},
};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::schemas;
use crate::{arguments::DEFAULT_CONFIG, cli::Cli, exit::Exit};

/// A file, with its place below `share`.
pub struct Shared {
    pub place: String,
    pub text: Vec<u8>,
}

/// Makes all files.
pub fn files() -> Vec<Shared> {
    let mut wad = command();
    // From here on they know their whole names, by which `man` finds their pages.
    wad.build();
    let mut files = vec![man(&wad)];
    files.extend(wad.get_subcommands().flat_map(|command| {
        [command].into_iter().chain(command.get_subcommands()).map(man).collect::<Vec<_>>()
    }));
    files.extend([
        completion(Bash, "bash-completion/completions/wad"),
        completion(Zsh, "zsh/site-functions/_wad"),
        completion(Fish, "fish/vendor_completions.d/wad.fish"),
    ]);
    files.extend(schemas::all().iter().map(|schema| Shared {
        place: format!("wad/schemas/{}", schema.file()),
        text: schema.text().into_bytes(),
    }));
    files
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the command line without what nobody calls by hand.
pub fn command() -> Command {
    let wad = Cli::command();
    let shown = wad.get_subcommands().filter(|command| !command.is_hide_set());
    let shown: Vec<_> = shown.cloned().collect();
    Command::new("wad")
        .about(wad.get_about().cloned().unwrap_or_default())
        .version(VERSION)
        .disable_help_subcommand(true)
        .subcommands(shown)
}

fn completion(shell: impl Generator, place: &str) -> Shared {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "wad", &mut text);
    Shared { place: place.to_owned(), text }
}

/// Makes the manual page of a command, or of the whole.
fn man(command: &Command) -> Shared {
    let man = Man::new(command.clone()).manual("wad").source(format!("wad {VERSION}"));
    let mut text = Vec::new();
    let mut write = || {
        man.render_title(&mut text)?;
        man.render_name_section(&mut text)?;
        man.render_synopsis_section(&mut text)?;
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
        if command.has_subcommands() {
            man.render_subcommands_section(&mut text)?;
        }
        if command.get_after_help().is_some() {
            man.render_extra_section(&mut text)?;
        }
        ends(command).to_writer(&mut text)
    };
    write().expect("a text takes what is written");
    Shared { place: format!("man/man1/{}", man.get_filename()), text }
}

/// Tells how the command ends: the page of the whole says all of it.
fn ends(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    if command.get_name() != "wad" {
        roff.text([roman("As in "), bold("wad"), roman("(1).")]);
        return roff;
    }
    for exit in Exit::ALL {
        roff.control("TP", []).text([bold(exit.code().to_string())]);
        roff.text([roman(exit.about().replace('`', ""))]);
    }
    roff.control("SH", ["FILES"]);
    roff.control("TP", []).text([bold(DEFAULT_CONFIG)]);
    roff.text([roman("The configuration.")]);
    roff.control("TP", []).text([bold("/run/wad/INSTANCE.sock")]);
    roff.text([roman("The socket of a running agent.")]);
    roff.control("SH", ["ENVIRONMENT"]);
    roff.control("TP", []).text([bold("WAD_LOG")]);
    roff.text([roman(
        "Levels of the log, as info or warn,wad::events=debug: filters of tracing-subscriber.",
    )]);
    roff.control("TP", []).text([bold("NO_COLOR")]);
    roff.text([roman("Where it is set and not empty, nothing is colored.")]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_nowhere() {
        let hidden = Cli::command();
        let hidden = hidden.get_subcommands().find(|command| command.is_hide_set());
        let hidden = hidden.expect("the agent starts one itself").get_name().to_owned();
        for Shared { place, text } in files() {
            let text = String::from_utf8(text).expect("text");
            assert!(!text.is_empty() && !text.contains(&hidden), "{place}");
        }
    }
}
