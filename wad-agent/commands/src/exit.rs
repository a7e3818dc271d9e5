//! How commands end.

use std::{error::Error, io, process::ExitCode};

use wad_agent::client::ClientError;
use wad_linux::{lock::LockError, privileges::PrivilegeError};
use wad_policy::config::ConfigError;

/// Says what the exit code of a command tells. Those from 64 on are of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    Failure,
    Usage,
    Unavailable,
    NoPermission,
    Config,
}

impl Exit {
    pub const ALL: [Self; 6] = [
        Self::Success,
        Self::Failure,
        Self::Usage,
        Self::Unavailable,
        Self::NoPermission,
        Self::Config,
    ];

    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::NoPermission => 77,
            Self::Config => 78,
        }
    }

    /// Says it for the reference.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Success => "all went well; `wad run` was stopped by SIGTERM or SIGINT",
            Self::Failure => {
                "what was asked for was not done, or not all of it: the agent refused it, as `reload` does \
                 with a file that is wrong, `trace` has lost lines, `cleanup` could not read all of its \
                 journal, an agent runs already, or the host lacks something"
            }
            Self::Usage => {
                "`EX_USAGE`: the command line is wrong: the command has no such option, or it would do \
                 nothing there, or a value is no such"
            }
            Self::Unavailable => {
                "`EX_UNAVAILABLE`: no agent runs as this instance, or it does not answer"
            }
            Self::NoPermission => {
                "`EX_NOPERM`: it takes root, or capabilities that are missing; the error names them"
            }
            Self::Config => {
                "`EX_CONFIG`: the configuration that `run`, `check`, `explain` or `cleanup` reads is \
                 missing or wrong, or that which `import` prints is; `cleanup` has done what it needs none for"
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
    if let Some(error) = cause.downcast_ref() {
        return of_client(error);
    }
    match cause.downcast_ref() {
        Some(PrivilegeError::Missing { .. }) => return Some(Exit::NoPermission),
        Some(PrivilegeError::Status(_) | PrivilegeError::NoBtf) | None => {}
    }
    match cause.downcast_ref() {
        Some(LockError::Lock { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            return Some(Exit::NoPermission);
        }
        Some(LockError::Lock { .. } | LockError::Running { .. }) | None => {}
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

const fn of_client(error: &ClientError) -> Option<Exit> {
    match error {
        ClientError::NotRunning { .. }
        | ClientError::Connect { .. }
        | ClientError::Http { .. }
        | ClientError::Silent { .. } => Some(Exit::Unavailable),
        ClientError::Denied { .. } => Some(Exit::NoPermission),
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
        let lock = |source| LockError::Lock { file: "default.lock".into(), source };
        for (error, exit) in [
            (ClientError::Silent { socket: socket() }.into(), Exit::Unavailable),
            (ClientError::Denied { socket: socket() }.into(), Exit::NoPermission),
            (
                ClientError::Refused { socket: socket(), status: 400, reason: String::new() }
                    .into(),
                Exit::Failure,
            ),
            (lock(denied()).into(), Exit::NoPermission),
            (lock(io::ErrorKind::StorageFull.into()).into(), Exit::Failure),
            (PrivilegeError::NoBtf.into(), Exit::Failure),
            (read().into(), Exit::Config),
            (anyhow::Error::from(read()).context("tuning removed"), Exit::Config),
            (ConfigError::Host { file: "/proc".into(), source: denied() }.into(), Exit::Failure),
            (anyhow!("nothing was changed"), Exit::Failure),
        ] {
            assert_eq!(Exit::of(&error), exit, "{error:#}");
        }
    }
}
