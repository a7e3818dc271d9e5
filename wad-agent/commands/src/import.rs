//! `wad import`: a configuration file of the papers' WAD, made into TOML.

use std::{fs::File, io::Read as _, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use wad_policy::{
    config::{Config, Host},
    papers,
};

use crate::{error::CommandError, output};

/// The largest file: some thousands of entries.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Import {
    /// File of the papers' form: names of entries in brackets, with lines such as `sndbuf: 3751239`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `wad import`.
pub fn run(args: &Import) -> Result<()> {
    let file = args.file.display();
    let mut text = String::new();
    File::open(&args.file)
        .and_then(|open| open.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .with_context(|| format!("cannot read {file}"))?;
    ensure!(
        text.len() as u64 <= MAX_FILE_BYTES,
        "{file} is larger than {} MiB: is it a file of the papers' WAD?",
        MAX_FILE_BYTES >> 20
    );
    let imported = papers::import(&text);
    ensure!(
        imported.entries > 0,
        "{file} has no entry such as [bob]: is it a file of the papers' WAD?"
    );
    output::print(&imported.toml)?;
    Config::parse("the TOML", &imported.toml, &Host::read()?)
        .context("printed, but not to be run as it is")?;
    match imported.left_out {
        0 => Ok(()),
        lines => Err(CommandError::LeftOut { lines }.into()),
    }
}
