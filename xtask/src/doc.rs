//! `cargo xtask doc`: the documentation of the code, for those who work on it; warnings
//! are errors.

use anyhow::Result;

use crate::{
    exec,
    setup::{self, For},
};

pub fn run() -> Result<()> {
    setup::run(For::Building)?;
    exec::run(
        exec::cargo(["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
