//! The bill of materials of a binary: the crates that are in it, which a list for
//! programs and one for people are made of. Crates that only build or test it are not.

mod crates;
mod notices;
mod sbom;

use anyhow::Result;

pub use crates::{Crate, compiler};

/// All that is in a binary beside the standard library.
pub struct Bill {
    /// The binary's own crate first, and then by name and version.
    crates: Vec<Crate>,
    /// The version of the compiler, whose standard library is in it.
    compiler: String,
}

impl Bill {
    /// Returns the bill of the `wad` for a target.
    pub fn of(target: &str) -> Result<Self> {
        Ok(Self { crates: crates::of(target)?, compiler: compiler()? })
    }

    /// Adds a crate that is not in the binary, but beside it.
    pub fn with(mut self, name: &str) -> Result<Self> {
        let beside = crates::named(name)?;
        self.crates[0].uses.insert((beside.name.clone(), beside.version.clone()));
        self.crates.push(beside);
        Ok(self)
    }
}
