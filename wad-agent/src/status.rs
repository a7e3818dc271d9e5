//! interim
use anyhow::{Result, ensure};
pub fn run(args: &crate::cli::Status) -> Result<()> {
    ensure!(crate::bpf::exist(&args.instance.name), "no agent");
    Ok(())
}
