//! The agent is killed at those of the calls by which it changes the host that were not made good
//! once. All calls are for `cargo xtask soak --kills`.

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_soak::kills::{self, Builds, Part, Phase, When};
use wad_testbed::{signal, wad::program};

const KILLS: [(Phase, When, &[&str]); 2] = [
    // Sockets and files have another name until they are whole.
    (Phase::Start, When::Before, &["chmod /run/wad", "rename "]),
    // What is in force changes hands between two builds.
    (Phase::Upgrade, When::After, &["LINK_UPDATE"]),
];

#[e2e(never = "it is about calls of the agent, which are the same there", few, slow)]
fn a_kill_is_made_good_by_the_next_start_and_by_a_cleanup() -> Result<()> {
    signal::catch()?;
    let builds = Builds::of(&program()?)?;
    for (phase, when, words) in KILLS {
        let part = Part { when: &[when], words, first: 0, every: 1 };
        let row = kills::run(&builds, phase, part, &|line| println!("{line}"))?;
        let is_well = row.failures.is_empty() && row.kills > words.len();
        ensure!(is_well, "{}", kills::table(&[row]));
    }
    Ok(())
}
