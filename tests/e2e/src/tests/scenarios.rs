//! Every policy that the lab's scenarios have is one that the agent takes.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_lab::{monitor, scenario::Scenario};
use wad_testbed::{process::run, wad::program};

#[e2e(never = "is about files of the repository", beside)]
fn policies_are_taken() -> Result<()> {
    let wad = program()?;
    let wad = wad.to_str().context("a path in UTF-8")?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("wad.toml");
    let config = file.to_str().context("a path in UTF-8")?;
    let mut refused = Vec::new();
    for name in Scenario::names()? {
        for variant in Scenario::load(&name)?.variants {
            let Some(policy) = &variant.policy else { continue };
            let source = variant.monitor.map(|monitored| monitor::source(monitored, 9090));
            fs::write(&file, source.unwrap_or_default() + policy)?;
            if let Err(error) = run(wad, &["check", "--config", config]) {
                refused.push(format!("{name}, {}: {error}", variant.name));
            }
        }
    }
    ensure!(refused.is_empty(), "{}", refused.join("\n\n"));
    Ok(())
}
