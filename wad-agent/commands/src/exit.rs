//! How commands end.

use std::{error::Error, io, process::ExitCode};

use wad_agent::{api::BindError, client::ClientError};
use wad_linux::{lock::LockError, privileges::PrivilegeError};
use wad_policy::config::{ConfigError, Unsettled};

use crate::error::CommandError;

/// Says what the exit code of a command tells. Those from 64 on are of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    Failure,
    Refused,
    Partly,
    Usage,
    Unavailable,
    NoPermission,
    Config,
}

impl Exit {
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::Failure,
        Self::Refused,
        Self::Partly,
        Self::Usage,
        Self::Unavailable,
        Self::NoPermission,
        Self::Config,
    ];

    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            // What a shell has for itself is left out.
            Self::Refused => 3,
            Self::Partly => 4,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::NoPermission => 77,
            Self::Config => 78,
        }
    }

    /// Says it for the reference and the manual pages.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Success => "all went well; `wad run` was stopped by SIGTERM or SIGINT",
            Self::Failure => {
                "it failed for another reason than those below: an agent runs already, the host lacks \
                 something, no flow is there to `diagnose`, a file can't be read or written"
            }
            Self::Refused => {
                "the agent refused it, and all is as before: `reload` does so with a file that is \
                 wrong, or that this host would not have, `disable`, `enable`, `experiment start`, \
                 `experiment stop` and `guard release` with a path that is not there or that this is not \
                 for, `probe now` with a name that no task goes by"
            }
            Self::Partly => {
                "it was done in part: `trace` has lost lines, `disable` or `enable` will not outlive the \
                 agent, `import` has left lines out, `cleanup` could not read all of its journal, a run of \
                 `probe now` measured nothing"
            }
            Self::Usage => {
                "`EX_USAGE`: the command line is wrong: the command has no such option, or it would do \
                 nothing there, or a value is no such"
            }
            Self::Unavailable => {
                "`EX_UNAVAILABLE`: no agent runs as this instance, or it does not answer, or `status \
                 --ready` finds that it is not ready, or `probe now` has no result in time"
            }
            Self::NoPermission => {
                "`EX_NOPERM`: it takes root, or capabilities that are missing; the error names them"
            }
            Self::Config => {
                "`EX_CONFIG`: the configuration that `run`, `check`, `explain`, `simulate`, `cleanup`, \
                 `probe plan`, `probe run` or `experiment plan` reads is missing or wrong, or that which \
                 `import` prints is, or `reload --dry-run` cannot read the file that it is given; \
                 `cleanup` has done what it needs none for"
            }
        }
    }

    /// Says how a command ends that failed.
    pub fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(of_cause).unwrap_or(Self::Failure)
    }

    /// Says how a command line ends that was not taken, or that asked for help.
    pub fn of_command_line(error: &clap::Error) -> Self {
        if error.use_stderr() { Self::Usage } else { Self::Success }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Returns the code of an error that has one of its own.
fn of_cause(cause: &(dyn Error + 'static)) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref::<CommandError>() {
        return Some(of_command(error));
    }
    if let Some(error) = cause.downcast_ref() {
        return of_client(error);
    }
    match cause.downcast_ref() {
        Some(PrivilegeError::Missing { .. }) => return Some(Exit::NoPermission),
        Some(PrivilegeError::Unknown(_) | PrivilegeError::NoBtf) | None => {}
    }
    if let Some(BindError::Group { source, .. } | BindError::LowPort { source, .. }) =
        cause.downcast_ref()
    {
        return (source.kind() == io::ErrorKind::PermissionDenied).then_some(Exit::NoPermission);
    }
    match cause.downcast_ref() {
        Some(LockError::Lock { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            return Some(Exit::NoPermission);
        }
        Some(LockError::Lock { .. } | LockError::Running { .. } | LockError::Folder(_)) | None => {}
    }
    match cause.downcast_ref()? {
        ConfigError::Read { .. }
        | ConfigError::TooLarge { .. }
        | ConfigError::NotUtf8 { .. }
        | ConfigError::Invalid { .. } => Some(Exit::Config),
        // The host's own files, not the configuration.
        ConfigError::Host { .. } => None,
    }
}

const fn of_command(error: &CommandError) -> Exit {
    match error {
        CommandError::NoInstrument { .. }
        | CommandError::TooLarge { .. }
        | CommandError::BoundsOfStream { .. }
        | CommandError::Unsettled(Unsettled::Unfit(_) | Unsettled::Alpha { .. })
        | CommandError::NotBegun(_) => Exit::Usage,
        // That is of the path, whatever the command line says.
        CommandError::Unsettled(Unsettled::NothingToCompare(_)) => Exit::Failure,
        CommandError::Refused { .. } => Exit::Refused,
        CommandError::Elsewhere { .. } | CommandError::NotReady { .. } => Exit::Unavailable,
        CommandError::NotNoted { .. }
        | CommandError::LinesLost { .. }
        | CommandError::LeftOut { .. }
        | CommandError::Unmeasured { .. }
        | CommandError::Journal(_) => Exit::Partly,
    }
}

const fn of_client(error: &ClientError) -> Option<Exit> {
    match error {
        ClientError::NotRunning { .. }
        | ClientError::Connect { .. }
        | ClientError::Http { .. }
        | ClientError::Silent { .. } => Some(Exit::Unavailable),
        ClientError::Denied { .. } => Some(Exit::NoPermission),
        ClientError::Refused { status: 400..500, .. } => Some(Exit::Refused),
        // It is stopping.
        ClientError::Refused { status: 503, .. } => Some(Exit::Unavailable),
        ClientError::Refused { .. } | ClientError::Unreadable { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::PathBuf};

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn errors_have_the_code_of_their_cause() {
        let socket = || PathBuf::from("/run/wad/default.sock");
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let read = || ConfigError::Read { file: "wad.toml".into(), source: denied() };
        let answered = |status| {
            ClientError::Refused { socket: socket(), status, reason: String::new() }.into()
        };
        let lock = |source| LockError::Lock { file: "default.lock".into(), source };
        for (error, exit) in [
            (ClientError::Silent { socket: socket() }.into(), Exit::Unavailable),
            (ClientError::Denied { socket: socket() }.into(), Exit::NoPermission),
            (answered(400), Exit::Refused),
            (answered(500), Exit::Failure),
            (answered(503), Exit::Unavailable),
            (CommandError::LinesLost { lines: 1, last: None }.into(), Exit::Partly),
            (CommandError::NotReady { reason: String::new() }.into(), Exit::Unavailable),
            (
                CommandError::Refused { done: "nothing was changed", reason: String::new() }.into(),
                Exit::Refused,
            ),
            (lock(denied()).into(), Exit::NoPermission),
            (lock(io::ErrorKind::StorageFull.into()).into(), Exit::Failure),
            (BindError::Group { socket: socket(), source: denied() }.into(), Exit::NoPermission),
            (
                BindError::LowPort {
                    table: "metrics",
                    address: ([127, 0, 0, 1], 443).into(),
                    source: denied(),
                }
                .into(),
                Exit::NoPermission,
            ),
            (PrivilegeError::NoBtf.into(), Exit::Failure),
            (read().into(), Exit::Config),
            (anyhow::Error::from(read()).context("tuning removed"), Exit::Config),
            (ConfigError::Host { file: "/proc".into(), source: denied() }.into(), Exit::Failure),
            (anyhow!("no flow of any path"), Exit::Failure),
        ] {
            assert_eq!(Exit::of(&error), exit, "{error:#}");
        }
    }
}
