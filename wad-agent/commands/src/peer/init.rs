//! `wad peer init`: an authority, and a key and certificate of this host.

use anyhow::Result;
use clap::Args;

use super::{
    node::{In, Node},
    show::Page,
};
use crate::output;

#[derive(Debug, Args)]
pub struct Init {
    #[command(flatten)]
    pub node: Node,
    #[command(flatten)]
    pub place: In,
}

/// `wad peer init`.
pub fn run(args: &Init) -> Result<()> {
    let made = args.place.folder().init(&args.node.wanted()?)?;
    let folder = args.place.folder.display();
    output::print(format_args!(
        "{folder} has an authority (ca.key, ca.crt), and this host's key and certificate (host.key, host.crt).\n\
         ca.key signs for every host: keep it where nobody else reads it.\n\n{}\n\
         In this host's configuration:\n\n\
         [peers]\nlisten = \"[::]:4825\"\ncertificate = \"{folder}/host.crt\"\nkey = \"{folder}/host.key\"\n\
         ca = \"{folder}/ca.crt\"\n",
        Page(&made.into())
    ))
}
