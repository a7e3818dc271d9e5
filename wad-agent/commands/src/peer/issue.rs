//! `wad peer issue`: a key and certificate of another host.

use anyhow::Result;
use clap::Args;

use super::{
    node::{In, Node},
    show::Page,
};
use crate::output;

#[derive(Debug, Args)]
pub struct Issue {
    #[command(flatten)]
    pub node: Node,
    /// Replace those that were made for it before
    #[arg(long)]
    pub again: bool,
    #[command(flatten)]
    pub place: In,
}

/// `wad peer issue`.
pub fn run(args: &Issue) -> Result<()> {
    let (files, made) = args.place.folder().issue(&args.node.wanted()?, args.again)?;
    let (files, name) = (files.display(), &args.node.name);
    output::print(format_args!(
        "{files} has host.key, host.crt and ca.crt. Copy the three to /etc/wad/peer on {name}, for\n\
         root alone to read, as by\n\n\
         \x20   ssh root@{name} install -d -m 700 /etc/wad/peer\n\
         \x20   scp -p {files}/host.key {files}/host.crt {files}/ca.crt root@{name}:/etc/wad/peer/\n\n\
         and remove host.key here. A running agent there takes them by itself.\n\n{}",
        Page(&made.into())
    ))
}
