//! A change of what is learned, and how it is told in the log.

use std::fmt::{self, Display};

use ipnet::IpNet;
use wad_policy::learned::{LearnedPath, name};
use wad_toolbox::amounts::{Rate, Time};

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A path is new, and is for those that were learned for prefixes within its own, too.
    Learned {
        path: LearnedPath,
        joined: Vec<IpNet>,
        evidence: String,
    },
    /// A path has larger buffers, or one more.
    Grown {
        before: LearnedPath,
        path: LearnedPath,
        evidence: String,
    },
    Dropped {
        remote: IpNet,
        why: Why,
    },
    /// There are as many as there may be, and all are in use.
    Full {
        remote: IpNet,
        max_paths: usize,
    },
}

/// Says why a path is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A path of the file is for its prefix.
    Covered { path: String },
    /// Nothing has used it for long, and another one needed its place.
    Replaced,
    /// Nothing has used it for very long.
    Forgotten,
    /// Fewer may be learned than before.
    Bound { max_paths: usize },
}

impl Change {
    /// Whether another set of paths is to be in force.
    #[must_use]
    pub const fn is_one(&self) -> bool {
        !matches!(self, Self::Full { .. })
    }

    /// Returns the prefix that it is about.
    #[must_use]
    pub const fn remote(&self) -> IpNet {
        match self {
            Self::Learned { path, .. } | Self::Grown { path, .. } => path.remote,
            Self::Dropped { remote, .. } | Self::Full { remote, .. } => *remote,
        }
    }

    /// Returns the name of the path that it is about.
    #[must_use]
    pub fn path(&self) -> String {
        name(self.remote())
    }
}

/// The change is written as the log has it, behind the name of the path.
impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Learned { path, joined, evidence } => {
                write!(f, "learned {}: connections were {evidence}", Figures(path))?;
                if !joined.is_empty() {
                    let joined: Vec<_> = joined.iter().map(|it| name(*it)).collect();
                    write!(f, "; it is for {} too", joined.join(", "))?;
                }
                Ok(())
            }
            Self::Grown { before, path, evidence } => write!(
                f,
                "learned more: {} instead of {}, as connections were {evidence}",
                Figures(path),
                Figures(before)
            ),
            Self::Dropped { why, .. } => write!(f, "no longer learned: {why}"),
            Self::Full { max_paths, .. } => write!(
                f,
                "not learned: there are {max_paths} learned paths in use, and [learn] max_paths \
                 allows no more"
            ),
        }
    }
}

impl Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Covered { path } => {
                write!(f, "path {} of the configuration is for it", path.escape_debug())
            }
            Self::Replaced => f.write_str("no connection has used it, and another needs its place"),
            Self::Forgotten => f.write_str("no connection has used it for 30 days"),
            Self::Bound { max_paths } => write!(f, "[learn] max_paths is {max_paths}"),
        }
    }
}

/// Shows the buffers of a path, and what they are for.
struct Figures<'p>(&'p LearnedPath);

impl Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LearnedPath { bits_per_second, rtt_seconds, buffers, .. } = self.0;
        let which = match (buffers.sndbuf, buffers.rcvbuf) {
            (true, true) => "sndbuf and rcvbuf",
            (true, false) => "sndbuf",
            (false, _) => "rcvbuf",
        };
        write!(f, "{which} for {} at {}", Rate(*bits_per_second), Time(*rtt_seconds))
    }
}
