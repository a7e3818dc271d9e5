//! Says which flows are asked about.

use std::str::FromStr;

use wad_instruments::Flow;
use wad_tuning::explain::{End, QueryError};

use crate::reading::{Filter, parse_cookie};

/// A target is what is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The cookie as `wad flows` has it.
    Cookie(u64),
    Remote(End),
}

#[derive(Debug, thiserror::Error)]
#[error("neither a cookie, such as 4711 or 0x1267, nor an address: {0}")]
pub struct TargetError(QueryError);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match parse_cookie(text) {
            Ok(cookie) => Ok(Self::Cookie(cookie)),
            Err(_) => text.parse().map(Self::Remote).map_err(TargetError),
        }
    }
}

impl Target {
    /// Lets through these flows, and perhaps some more.
    #[must_use]
    pub fn to_filter(self) -> Filter {
        match self {
            Self::Cookie(cookie) => Filter { cookies: vec![cookie], ..Filter::default() },
            Self::Remote(end) => Filter { remotes: vec![end.address.into()], ..Filter::default() },
        }
    }

    #[must_use]
    pub fn is(self, flow: &Flow) -> bool {
        match self {
            Self::Cookie(cookie) => flow.cookie == cookie,
            Self::Remote(End { address, port }) => {
                flow.remote.ip().to_canonical() == address
                    && port.is_none_or(|port| flow.remote.port() == port)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_and_addresses_are_told_apart() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        assert_eq!(target("4711"), Target::Cookie(4711));
        assert_eq!(target("0x1267"), Target::Cookie(4711));
        let end = |text: &str| Target::Remote(text.parse().unwrap());
        assert_eq!(target("203.0.113.5"), end("203.0.113.5"));
        assert_eq!(target("[2001:db8::5]:443"), end("[2001:db8::5]:443"));
        let refused = "bob".parse::<Target>().unwrap_err().to_string();
        assert!(refused.contains("neither a cookie") && refused.contains("\"bob\""), "{refused}");
    }
}
