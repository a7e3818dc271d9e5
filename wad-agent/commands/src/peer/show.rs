//! `wad peer show`: what a certificate says, for whoever is to know its holder.

use std::{
    fmt::{self, Display},
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use ipnet::IpNet;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use wad_peers::make::{self, Certificate};

use super::node::In;
use crate::output;

#[derive(Debug, Args)]
pub struct Show {
    /// A certificate [default: host.crt of the folder]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub place: In,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A certificate says this of its holder.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shown {
    /// The name by which peers know it where they trust its authority; none where it has no
    /// `wad://` name.
    pub identity: Option<String>,
    /// It may speak for these, by its authority's word.
    #[schemars(with = "Vec<String>")]
    pub prefixes: Vec<IpNet>,
    /// The hash of its key, by which peers may know it whoever signed it.
    pub key: String,
    pub valid_from: Timestamp,
    pub valid_until: Timestamp,
}

impl From<Certificate> for Shown {
    fn from(certificate: Certificate) -> Self {
        let Certificate { name, prefixes, pin, valid_from, valid_until } = certificate;
        let (identity, key) = (name.map(|name| format!("wad://{name}")), pin.to_string());
        Self { identity, prefixes, key, valid_from, valid_until }
    }
}

/// `wad peer show`.
pub fn run(args: &Show) -> Result<()> {
    let certificate = match &args.file {
        Some(file) => make::certificate(file)?,
        None => args.place.folder().certificate()?,
    };
    let shown = Shown::from(certificate);
    if args.json { output::print_json(&shown) } else { output::print(Page(&shown)) }
}

/// The same for people.
pub struct Page<'s>(pub &'s Shown);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { identity, prefixes, key, valid_from, valid_until } = self.0;
        let prefixes: Vec<_> = prefixes.iter().map(ToString::to_string).collect();
        let listed = prefixes.iter().map(|prefix| format!("\"{prefix}\""));
        let listed = listed.collect::<Vec<_>>().join(", ");
        writeln!(f, "identity   {}", identity.as_deref().unwrap_or("none"))?;
        let shown = if prefixes.is_empty() { "nothing".to_owned() } else { prefixes.join(", ") };
        writeln!(f, "speaks for {shown}")?;
        writeln!(f, "key        {key}")?;
        writeln!(f, "valid      {valid_from} to {valid_until}")?;
        writeln!(f, "\nIn the configuration of the other end:\n")?;
        let name = identity.as_deref().and_then(|name| name.strip_prefix("wad://"));
        let address = name.unwrap_or("HOST");
        if let Some(identity) = identity {
            writeln!(f, "[[peer]]\nname = \"NAME\"\naddress = \"{address}:4825\"")?;
            writeln!(
                f,
                "identity = \"{identity}\"\n\nor, where it does not trust the authority:\n"
            )?;
        }
        writeln!(f, "[[peer]]\nname = \"NAME\"\naddress = \"{address}:4825\"")?;
        writeln!(f, "key = \"{key}\"\nprefixes = [{listed}]")
    }
}
