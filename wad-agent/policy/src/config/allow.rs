//! Who allows a path more than a fair share: the file by itself, or the owner of the network at
//! the other end, for as long as that consents.

use toml::de::DeValue;

use super::{
    fault::{Fault, quoted},
    table,
};

const AGGRESSIVE: &str = "aggressive";
/// In front of a peer's name.
const PEER: &str = "peer:";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// The file says that all who share the path agree.
    Aggressive,
    /// The peer of that name has to consent. Without that the path is as
    /// [`super::fair`] has it.
    Peer(String),
}

pub fn parse(value: &DeValue<'_>) -> Result<Allow, Fault> {
    let text = table::text(value)?;
    match text.strip_prefix(PEER) {
        // Which peers there are is checked when all of the file is read.
        Some(name) if !name.is_empty() => Ok(Allow::Peer(name.to_owned())),
        None if text == AGGRESSIVE => Ok(Allow::Aggressive),
        _ => {
            let label = "it takes \"aggressive\", or \"peer:\" and the name of a peer";
            Err(Fault::new(format!("{} is nothing to allow", quoted(text)), label))
        }
    }
}
