//! How commands end.

use std::process::ExitCode;

/// What the exit code of a command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    Failure,
    /// The code of clap, which ends the program itself.
    Usage,
}

impl Exit {
    pub const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Usage];

    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
        }
    }

    /// Says it for the reference.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Success => "all went well; `wad run` was stopped by SIGTERM or SIGINT",
            Self::Failure => {
                "what was asked for was not done, or not all of it: the configuration is wrong, no agent \
                 answers, `reload` changed nothing, `trace` has lost lines, `cleanup` could not read all \
                 of its journal"
            }
            Self::Usage => {
                "the command line is wrong: there is no such command or option, or a value is no such"
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::Exit;
    use crate::cli::Cli;

    #[test]
    fn a_wrong_command_line_has_the_code_of_clap() {
        let error = Cli::try_parse_from(["wad", "no-such-command"]).unwrap_err();
        assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()));
        let help = Cli::try_parse_from(["wad", "--help"]).unwrap_err();
        assert_eq!(help.exit_code(), i32::from(Exit::Success.code()));
    }
}
