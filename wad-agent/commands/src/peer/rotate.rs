//! `wad peer rotate`: another key and certificate of this host.

use anyhow::Result;
use clap::Args;

use super::{
    node::{In, Valid},
    show::Page,
};
use crate::output;

#[derive(Debug, Args)]
pub struct Rotate {
    #[command(flatten)]
    pub valid: Valid,
    /// Renew the certificate alone: for peers that know this host by its key
    #[arg(long)]
    pub keep_key: bool,
    #[command(flatten)]
    pub place: In,
}

/// `wad peer rotate`.
pub fn run(args: &Rotate) -> Result<()> {
    let made = args.place.folder().rotate(args.valid.days, args.keep_key)?;
    output::print(Page(&made.into()))
}
