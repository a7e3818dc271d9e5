//! Makes keys and certificates, for sites without an authority of their own: one in a folder,
//! which signs for this host and for others.
//!
//! The folder has `ca.key` and `ca.crt`, and `host.key` and `host.crt` of this host. These two
//! are links through `current`, which is a link itself: so both are replaced at once.

mod folder;
mod sign;

use ipnet::IpNet;
use jiff::Timestamp;
use wad_policy::config::KeyPin;

pub use self::{
    folder::{Folder, MakeError, certificate},
    sign::DAYS,
};
use crate::identity::{Leaf, NodeUri};

/// Whose certificate is to be made, and for how long.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub node: NodeUri,
    pub days: u32,
}

/// A certificate, as its holder and others need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The name in it; None where it has no `wad://` name, or several.
    pub name: Option<String>,
    pub prefixes: Vec<IpNet>,
    pub pin: KeyPin,
    pub valid_from: Timestamp,
    pub valid_until: Timestamp,
}

impl From<Leaf> for Certificate {
    fn from(leaf: Leaf) -> Self {
        let Leaf { valid_from, valid_until, pin, uris, .. } = leaf;
        let node = match &uris[..] {
            [uri] => NodeUri::parse(uri),
            _ => None,
        };
        let (name, prefixes) = match node {
            Some(NodeUri { name, prefixes }) => (Some(name), prefixes),
            None => (None, Vec::new()),
        };
        Self { name, prefixes, pin, valid_from, valid_until }
    }
}
