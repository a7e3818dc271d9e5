//! The page of exit codes.

use super::{head, row};
use crate::exit::Exit;

const OPENING: &str = "\
# Exit codes

Every command ends with one of these; those from 64 on are of `sysexits.h`. Errors are on
standard error, with what to do about them.

";

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &head(["Code", "Meaning"]);
    for exit in Exit::ALL {
        page += &row([&exit.code().to_string(), exit.about()]);
    }
    page
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::{cli::Cli, reference::commands::leaves};

    #[test]
    fn the_row_of_configurations_names_each_command_that_reads_one() {
        let about = Exit::Config.about();
        for (name, command) in leaves(&Cli::command()) {
            let reads = command.get_arguments().any(|argument| argument.get_id() == "config");
            // This one reads one for the agent, which judges it.
            let name = if name == "reload" { "reload --dry-run" } else { &name };
            assert_eq!(about.contains(&format!("`{name}`")), reads || name == "import", "{name}");
        }
    }
}
