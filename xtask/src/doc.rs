//! `cargo xtask doc` builds the documentation of the code, for those who work on it;
//! warnings are errors.

use anyhow::Result;

use crate::{
    exec,
    setup::{self, For},
};

pub fn run() -> Result<()> {
    setup::run(For::Building)?;
    exec::run(
        exec::cargo(["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"])
            // What is private is documented here, so it may be linked to.
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"),
    )
}
