//! A query is what is asked: the other end of a flow, and perhaps this one, as far as
//! they are known.

use std::{
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use wad_common::policy::ANY_USER;
use wad_policy::{
    config::{self, is_interface_name},
    pod::{Pod, Pods},
};

/// An address, and a port if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub address: IpAddr,
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub remote: End,
    pub local: Option<End>,
    /// Number of the user that the socket belongs to.
    pub user: Option<u32>,
    /// The cgroup that it is of, by its path from the root.
    pub cgroup: Option<PathBuf>,
    /// The pod of this node that it is of.
    pub pod: Option<PodName>,
    /// The mark that it has.
    pub mark: Option<u32>,
    /// The name of the interface that its packets leave by.
    pub interface: Option<String>,
}

/// A pod by its namespace and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

impl PodName {
    /// Returns the pod, if it is there.
    #[must_use]
    pub fn among<'p>(&self, pods: &'p Pods) -> Option<&'p Pod> {
        pods.values().find(|pod| pod.namespace == self.namespace && pod.name == self.name)
    }
}

/// A pod is written as it is read.
impl Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for PodName {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let is_part = |part: &&str| !part.is_empty() && !part.contains('/');
        match text.split_once('/') {
            Some((namespace, name)) if [namespace, name].iter().all(is_part) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(QueryError::NoPod(text.to_owned())),
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error(
        "{0:?} is no address: write 203.0.113.5, 203.0.113.5:443, 2001:db8::5 or \
         [2001:db8::5]:443; names are not taken"
    )]
    NoAddress(String),
    #[error("`remote` is missing: ask for /v1/path?remote=ADDRESS or ADDRESS:PORT")]
    NoRemote,
    #[error("{0:?} is no user's number; the agent knows no names")]
    NoUser(String),
    #[error(
        "{0:?} is not known here: it takes `remote`, `local`, `user`, `cgroup`, `pod`, `mark` \
         and `interface`"
    )]
    Unknown(String),
    #[error("{0:?} is no pod: write NAMESPACE/NAME, such as transfer/dtn-0")]
    NoPod(String),
    #[error("{0:?} is no mark: write a number, such as 16 or 0x10")]
    NoMark(String),
    #[error("{0:?} is no interface: write its name, such as eth1")]
    NoInterface(String),
    #[error("`{0}` is there twice")]
    Twice(String),
}

impl FromStr for End {
    type Err = QueryError;

    /// IPv4 mapped into IPv6 is IPv4, as in the configuration; port 0 is any.
    fn from_str(text: &str) -> Result<Self, QueryError> {
        let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
        let (address, port): (IpAddr, u16) = match text.parse::<SocketAddr>() {
            Ok(end) => (end.ip(), end.port()),
            Err(_) => {
                let address = text.parse().ok().or_else(bracketed);
                (address.ok_or_else(|| QueryError::NoAddress(text.to_owned()))?, 0)
            }
        };
        let port = if port == 0 { None } else { Some(port) };
        Ok(Self { address: address.to_canonical(), port })
    }
}

/// An end is written as it is read.
impl Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            None => write!(f, "{}", self.address),
            Some(port) => write!(f, "{}", SocketAddr::new(self.address, port)),
        }
    }
}

impl Query {
    /// Basis what follows the `?` of a request.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let (mut remote, mut local, mut user) = (None, None, None);
        let (mut cgroup, mut pod, mut mark, mut interface) = (None, None, None, None);
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            let is_twice = match key {
                "remote" => remote.replace(value.parse()?).is_some(),
                "local" => local.replace(value.parse()?).is_some(),
                "user" => user.replace(user_number(&value)?).is_some(),
                "cgroup" => cgroup.replace(below_root(&value)).is_some(),
                "pod" => pod.replace(value.parse()?).is_some(),
                "mark" => mark.replace(mark_number(&value)?).is_some(),
                "interface" => interface.replace(interface_name(&value)?).is_some(),
                other => return Err(QueryError::Unknown(other.to_owned())),
            };
            if is_twice {
                return Err(QueryError::Twice(key.to_owned()));
            }
        }
        let remote = remote.ok_or(QueryError::NoRemote)?;
        Ok(Self { remote, local, user, cgroup, pod, mark, interface })
    }
}

/// Returns the path of a cgroup without the slash that it may begin with.
pub fn below_root(cgroup: &str) -> PathBuf {
    cgroup.trim_matches('/').into()
}

fn user_number(text: &str) -> Result<u32, QueryError> {
    let number = text.parse().ok().filter(|user| *user != ANY_USER);
    number.ok_or_else(|| QueryError::NoUser(text.to_owned()))
}

/// Reads a mark, in decimal or hexadecimal digits.
pub fn mark_number(text: &str) -> Result<u32, QueryError> {
    config::mark_number(text).ok_or_else(|| QueryError::NoMark(text.to_owned()))
}

/// Reads the name of an interface.
pub fn interface_name(text: &str) -> Result<String, QueryError> {
    if is_interface_name(text) {
        Ok(text.to_owned())
    } else {
        Err(QueryError::NoInterface(text.to_owned()))
    }
}

/// A query is written as it is asked of the agent.
impl Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remote={}", self.remote)?;
        self.local.map_or(Ok(()), |local| write!(f, "&local={local}"))?;
        self.user.map_or(Ok(()), |user| write!(f, "&user={user}"))?;
        self.mark.map_or(Ok(()), |mark| write!(f, "&mark={mark}"))?;
        let mut encoded =
            |key, bytes| write!(f, "&{key}={}", percent_encode(bytes, NON_ALPHANUMERIC));
        if let Some(interface) = &self.interface {
            encoded("interface", interface.as_bytes())?;
        }
        let pod = self.pod.as_ref().map(ToString::to_string);
        if let Some(pod) = &pod {
            encoded("pod", pod.as_bytes())?;
        }
        let Some(cgroup) = &self.cgroup else { return Ok(()) };
        encoded("cgroup", cgroup.as_os_str().as_encoded_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_people_write_them() {
        for (text, shown) in [
            ("203.0.113.5", "203.0.113.5"),
            ("203.0.113.5:443", "203.0.113.5:443"),
            ("203.0.113.5:0", "203.0.113.5"),
            ("2001:db8::5", "2001:db8::5"),
            ("[2001:db8::5]", "2001:db8::5"),
            ("[2001:db8::5]:443", "[2001:db8::5]:443"),
            ("::ffff:203.0.113.5", "203.0.113.5"),
        ] {
            assert_eq!(text.parse::<End>().unwrap().to_string(), shown);
        }
        for text in ["", "bob", "203.0.113", "203.0.113.5:", "203.0.113.0/24", "[::1", "::1%lo"] {
            assert!(text.parse::<End>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_query_is_read_as_it_is_asked() {
        let text = "remote=[2001:db8::5]:443&local=2001:db8::1&user=993&mark=16&\
                    interface=eth1%2E5&pod=transfer%2Fdtn%2D0&cgroup=a%2Eslice%2Fb";
        let query = Query::parse(text).unwrap();
        assert_eq!(query.to_string(), text);
        let encoded = "cgroup=/a.slice/b&pod=transfer/dtn-0&mark=0x10&interface=eth1.5&user=993&remote=%5B2001%3Adb8%3A%3A5%5D%3A443&local=2001:db8::1";
        assert_eq!(Query::parse(encoded).unwrap(), query);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| Query::parse(text).unwrap_err();
        assert_eq!(refused(""), QueryError::NoRemote);
        assert_eq!(refused("local=10.0.0.1"), QueryError::NoRemote);
        assert_eq!(refused("remote=bob"), QueryError::NoAddress("bob".to_owned()));
        for user in ["", "globus", "-1", "4294967295"] {
            let refusal = refused(&format!("remote=::1&user={user}"));
            assert_eq!(refusal, QueryError::NoUser(user.to_owned()));
        }
        for mark in ["", "bob", "+1", "-1", "0x100000000", "1/1"] {
            let refusal = refused(&format!("remote=::1&mark={mark}"));
            assert_eq!(refusal, QueryError::NoMark(mark.to_owned()));
        }
        for pod in ["", "dtn-0", "/dtn-0", "transfer/", "a/b/c"] {
            let refusal = refused(&format!("remote=::1&pod={pod}"));
            assert_eq!(refusal, QueryError::NoPod(pod.to_owned()));
        }
        for interface in ["", "a/b", "0123456789abcdef"] {
            let refusal = refused(&format!("remote=::1&interface={interface}"));
            assert_eq!(refusal, QueryError::NoInterface(interface.to_owned()));
        }
        assert_eq!(refused("remote=::1&mark=1&mark=1"), QueryError::Twice("mark".to_owned()));
        assert_eq!(refused("remote=::1&user=1&user=2"), QueryError::Twice("user".to_owned()));
        assert_eq!(refused("dest=10.0.0.1"), QueryError::Unknown("dest".to_owned()));
        assert_eq!(refused("remote=::1&remote=::2"), QueryError::Twice("remote".to_owned()));
    }
}
