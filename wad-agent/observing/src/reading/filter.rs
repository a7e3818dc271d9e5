//! Says which flows are asked for, and what of them beside the standard instruments.

use std::{
    fmt::{self, Display},
    net::IpAddr,
    str::FromStr,
};

use ipnet::IpNet;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use wad_common::instruments::Head;
use wad_instruments::{Owner, ends};

use super::{filter_error::FilterError, owner_filter::OwnerFilter};

/// Nothing in a list lets all through; within one list any may fit, of different ones
/// each has to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The paths, by name.
    pub paths: Vec<String>,
    pub remotes: Vec<Remote>,
    pub cookies: Vec<u64>,
    pub owners: OwnerFilter,
    /// Connections on no path, too.
    pub all: bool,
    /// Members of `struct tcp_sock`, for all that are let through.
    pub fields: Vec<String>,
}

/// Says where the other end may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote(IpNet);

impl Remote {
    fn holds(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl From<IpAddr> for Remote {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }
}

impl From<IpNet> for Remote {
    fn from(prefix: IpNet) -> Self {
        Self(prefix)
    }
}

impl FromStr for Remote {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let address = || text.parse().map(|address: IpAddr| address.into()).ok();
        let prefix = text.parse().map(Self).ok().or_else(address);
        prefix.ok_or_else(|| FilterError::NoPrefix(text.to_owned()))
    }
}

/// A socket's cookie, as this program shows it or as ss does.
pub fn parse_cookie(text: &str) -> Result<u64, FilterError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| FilterError::NoCookie(text.to_owned()))
}

impl Filter {
    /// Reads what follows the `?` of a request.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match key {
                "path" => filter.paths.push(value.into_owned()),
                "remote" => filter.remotes.push(value.parse()?),
                "cookie" => filter.cookies.push(parse_cookie(&value)?),
                "all" => filter.all = true,
                "field" => filter.fields.push(value.into_owned()),
                other => filter.owners.add(other, value)?,
            }
        }
        Ok(filter)
    }

    /// Whether a flow is let through, but for its path.
    pub fn takes(&self, head: &Head) -> bool {
        let remote = || ends::remote(head).ip();
        (self.cookies.is_empty() || self.cookies.contains(&head.cookie))
            && (self.remotes.is_empty() || self.remotes.iter().any(|prefix| prefix.holds(remote())))
    }

    /// Whether a flow is that is somebody's.
    pub fn takes_owner(&self, owner: &Owner) -> bool {
        self.owners.takes(owner)
    }

    /// Whether the flows of a path are.
    pub fn takes_path(&self, name: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|path| path == name)
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The filter is written as it is asked of the agent.
impl Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.paths.iter().map(|path| ("path", encoded(path)));
        let remotes = self.remotes.iter().map(|remote| ("remote", remote.0.to_string()));
        let cookies = self.cookies.iter().map(|cookie| ("cookie", cookie.to_string()));
        let fields = self.fields.iter().map(|field| ("field", encoded(field)));
        let owners = self.owners.pairs().map(|(key, value)| (key, encoded(&value)));
        let others = self.all.then(|| ("all", "1".to_owned()));
        let all = paths.chain(remotes).chain(cookies).chain(owners).chain(others).chain(fields);
        for (n, (key, value)) in all.enumerate() {
            write!(f, "{}{key}={value}", if n == 0 { "" } else { "&" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_as_it_is_asked() {
        let filter = Filter {
            paths: vec!["to \"Genève\" & back".to_owned(), "b".to_owned()],
            remotes: vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::5".parse().unwrap()],
            cookies: vec![7, u64::MAX],
            owners: OwnerFilter { users: vec![5], ..OwnerFilter::default() },
            all: true,
            fields: vec!["rtt_min.s[0].v".to_owned()],
        };
        assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        assert_eq!(Filter::parse(""), Ok(Filter::default()));
        assert_eq!(Filter::parse("cookie=0x1f").unwrap().cookies, [31]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| Filter::parse(text).unwrap_err();
        assert_eq!(refused("remote=bob"), FilterError::NoPrefix("bob".to_owned()));
        assert_eq!(refused("cookie=sk"), FilterError::NoCookie("sk".to_owned()));
        assert_eq!(refused("local=::1"), FilterError::Unknown("local".to_owned()));
    }

    #[test]
    fn any_of_a_list_fits_and_every_list_has_to() {
        let mapped = |address: [u8; 4]| [0, 0, 0xffff_u32.to_be(), u32::from_ne_bytes(address)];
        let head = |cookie, address| Head { cookie, remote: mapped(address), ..Head::default() };
        let filter = Filter::parse("remote=10.0.0.0/8&remote=192.0.2.1&cookie=1&cookie=2").unwrap();
        assert!(filter.takes(&head(1, [10, 2, 3, 4])) && filter.takes(&head(2, [192, 0, 2, 1])));
        assert!(!filter.takes(&head(3, [10, 2, 3, 4])) && !filter.takes(&head(1, [192, 0, 2, 2])));
        assert!(Filter::default().takes(&head(3, [192, 0, 2, 2])));
        assert!(filter.takes_path("any") && !Filter::parse("path=a").unwrap().takes_path("any"));
    }
}
