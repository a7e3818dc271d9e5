//! Reads `[page]`: a page for browsers, which shows what the agent knows, and changes nothing.

use std::{
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use super::{
    fault::{Fault, Problems, quoted},
    host_name,
    keys::{
        Key,
        LeftOut::{Means, Refused},
        Takes::Text,
        key,
    },
    listen::listen,
    table::{self, Table},
};

pub const TABLE: &str = "page";

pub const KEYS: &[Key] = &[
    key("listen").takes(
        Text("a loopback address and a port, or an absolute path"),
        Refused,
        "where [the page](../page.md) is: a port of this host, or a Unix socket, which root may \
         open and the group of `[api] group`",
    ),
    key("hosts").takes(
        Text("names of hosts"),
        Means("this host's own alone"),
        "other names by which browsers may ask, as that of a proxy before it",
    ),
];

/// Most further names.
const MAX_HOSTS: usize = 32;
/// Most bytes of a socket's path: it has another name at first, and both have to fit
/// (unix(7): 108 with a zero at the end).
const MAX_SOCKET_BYTES: usize = 103;

/// Says where the page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub listen: PageAddress,
    /// Names in small letters by which it may be asked for, beside this host's own.
    pub hosts: Vec<String>,
}

/// Where browsers find the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageAddress {
    /// A port on loopback.
    Port(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

impl PageAddress {
    /// Returns the address, unless it is a socket.
    pub const fn by_tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Port(address) => Some(*address),
            Self::Socket(_) => None,
        }
    }
}

impl Display for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => write!(f, "http://{address}/"),
            Self::Socket(file) => file.display().fmt(f),
        }
    }
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<Page> {
    table.require("listen", problems, "add listen = \"127.0.0.1:9467\"");
    let address = table.read("listen", problems, |value| address(table::text(value)?));
    let hosts = table.read_list("hosts", problems, |value| host(table::text(value)?));
    let hosts = hosts.unwrap_or_default();
    if let Some(beyond) = hosts.get(MAX_HOSTS) {
        let fault = Fault::new(format!("{} names", hosts.len()), format!("at most {MAX_HOSTS}"));
        problems.push(fault.at(beyond.at));
    }
    let hosts = hosts.into_iter().map(|host| host.value).collect();
    Some(Page { listen: address?.value, hosts })
}

/// Reads a further name. An address needs none: no name of another site leads to it.
fn host(text: &str) -> Result<String, Fault> {
    if text.parse::<IpAddr>().is_ok() {
        let fault = Fault::new(format!("{text} is an address"), "no name");
        return Err(fault.help("leave it out: the page may be asked for by any address"));
    }
    let help = "write the name by which browsers ask, such as \"wad.example.org\"";
    host_name::parse(text).map_err(|fault| fault.help(help))
}

fn address(text: &str) -> Result<PageAddress, Fault> {
    if text.starts_with('/') {
        return socket(text).map(PageAddress::Socket);
    }
    let address = listen(text, 9467)?;
    if address.ip().is_loopback() {
        return Ok(PageAddress::Port(address));
    }
    let title = format!("{address} can be reached from other hosts");
    Err(Fault::new(title, "must be an address of the loopback").help(
        "the page shows who talks with whom: write \"127.0.0.1:9467\", or a socket as \
         \"/run/wad/page.sock\", and let those in who may see it by ssh -L or a proxy that asks \
         who they are",
    ))
}

fn socket(text: &str) -> Result<PathBuf, Fault> {
    let file = table::absolute(text)?;
    // A folder is no name of a socket.
    if text.ends_with('/') || Path::new(text).file_name().is_none() {
        return Err(Fault::new(format!("{} is no name of a socket", quoted(text)), "is a folder"));
    }
    if text.len() > MAX_SOCKET_BYTES {
        let label = format!("{} bytes, at most {MAX_SOCKET_BYTES}", text.len());
        return Err(Fault::new("too long for the name of a socket", label)
            .help("choose one such as \"/run/wad/page.sock\""));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{super::Config, *};
    use crate::config::testing::host;

    fn page(keys: &str) -> Option<Page> {
        Config::parse("file", &format!("[page]\n{keys}\n"), &host()).ok()?.page
    }

    #[test]
    fn it_is_on_loopback_or_a_socket() {
        let port = |text: &str| PageAddress::Port(text.parse().unwrap());
        for (text, listen) in [
            ("127.0.0.1:9467", port("127.0.0.1:9467")),
            ("127.1.2.3:1", port("127.1.2.3:1")),
            ("[::1]:9467", port("[::1]:9467")),
            ("/run/wad/page.sock", PageAddress::Socket("/run/wad/page.sock".into())),
        ] {
            let keys = format!("listen = '{text}'");
            assert_eq!(page(&keys), Some(Page { listen, hosts: Vec::new() }), "{text}");
        }
        let long = format!("/{}", "a".repeat(MAX_SOCKET_BYTES));
        for text in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "", "page.sock", "/", "/run/", &long] {
            assert_eq!(page(&format!("listen = '{text}'")), None, "{text}");
        }
    }

    #[test]
    fn further_names_are_in_small_letters() {
        let keys = "listen = '[::1]:1'\nhosts = ['DTN.example.org', 'a']";
        assert_eq!(page(keys).unwrap().hosts, ["dtn.example.org", "a"]);
        let many = vec!["'a'"; MAX_HOSTS + 1].join(", ");
        for hosts in ["'a b'", "'::1'", "[]", "1", &format!("[{many}]")] {
            assert_eq!(page(&format!("listen = '[::1]:1'\nhosts = {hosts}")), None, "{hosts}");
        }
    }
}
