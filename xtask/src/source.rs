//! Each file that is built for others says which sources it is from, and bears the time of
//! their commit: whoever builds the same commit gets the same bytes.

use std::{env, process::Command};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;

use crate::exec;

/// All crates have this version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Users read this in the same words wherever `wad` is offered.
pub const DESCRIPTION: &str =
    "wad, a TCP tuning agent: congestion control and buffers per path, by policy";

/// All of `wad`'s own is under these.
pub const LICENCES: &str = env!("CARGO_PKG_LICENSE");

/// The state of the sources.
pub struct Source {
    /// The commit; `-dirty` follows where files differ from it. Sources that are no clone
    /// of the repository have none.
    pub revision: Option<String>,
    /// The commit's time, or `SOURCE_DATE_EPOCH`.
    pub time: Timestamp,
    /// The author of the commit, as mail is addressed.
    pub maintainer: Option<String>,
}

impl Source {
    pub fn read() -> Result<Self> {
        let git = |arguments: &[&str]| {
            let output =
                exec::output(Command::new("git").arg("-C").arg(exec::root()).args(arguments));
            output.map(|text| text.trim().to_owned())
        };
        let revision = git(&["rev-parse", "--verify", "HEAD"]).map(|commit| {
            let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
            let is_clean = changed.is_some_and(|changed| changed.is_empty());
            if is_clean { commit } else { format!("{commit}-dirty") }
        });
        let seconds = match env::var("SOURCE_DATE_EPOCH") {
            Ok(given) => given,
            Err(_) => match git(&["log", "-1", "--format=%ct"]) {
                Some(of_commit) => of_commit,
                None => bail!(
                    "{}: is no clone of the repository; say what time its files are of, in \
                     seconds since 1970, by the variable SOURCE_DATE_EPOCH",
                    exec::root().display()
                ),
            },
        };
        let time = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let time = time.with_context(|| format!("SOURCE_DATE_EPOCH: {seconds} is no time"))?;
        Ok(Self { revision, time, maintainer: git(&["log", "-1", "--format=%an <%ae>"]) })
    }

    /// Returns the time as tar has it.
    pub fn seconds(&self) -> u64 {
        u64::try_from(self.time.as_second()).unwrap_or(0)
    }
}
