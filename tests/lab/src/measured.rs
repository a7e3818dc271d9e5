//! Results say when they were measured, and of which sources the `wad` was that they are of.

use std::{path::Path, process::Command};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::{Deserialize, Serialize};

/// The origin of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub at: Timestamp,
    /// The commit of its sources, as `git describe` has it; none where there is no repository.
    pub wad: Option<String>,
}

impl Measured {
    /// Returns the origin of what a binary has shown right now.
    #[must_use]
    pub fn now(wad: &Path) -> Self {
        let folder = wad.parent().unwrap_or(wad);
        Self { at: Timestamp::now(), wad: commit(folder) }
    }

    /// Returns the day, in UTC.
    #[must_use]
    pub fn day(&self) -> Date {
        self.at.to_zoned(TimeZone::UTC).date()
    }
}

/// Returns the commit of the repository that a folder is in.
#[must_use]
pub fn commit(folder: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["describe", "--always", "--dirty"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let words = String::from_utf8(output.stdout).ok()?;
    Some(words.trim().to_owned()).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_repository_there_is_no_commit() {
        let folder = tempfile::tempdir().unwrap();
        let measured = Measured::now(&folder.path().join("wad"));
        assert_eq!(measured.wad, None);
        let text = serde_json::to_string(&measured).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&text).unwrap(), measured);
        let late: Timestamp = "2026-11-27T23:30:00Z".parse().unwrap();
        let day = Measured { at: late, wad: None }.day();
        assert_eq!(day.to_string(), "2026-11-27");
    }
}
