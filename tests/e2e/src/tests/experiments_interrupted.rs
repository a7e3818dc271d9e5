//! Experiments are interrupted: what falls into a block costs that block, and no other; whatever
//! happened, each block that is over counts, or is thrown away with its reason.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use nix::{
    sys::time::{TimeSpec, TimeValLike as _},
    time::{ClockId, clock_gettime, clock_settime},
};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    another_build, signal,
    stand::{Stand, until},
    veth::Wire,
    wad::{Home, program},
};

use super::experiments::{EXPERIMENT, SOON, counts, is_tuned, json, open, path};

/// Blocks last for seconds, and to look is work: an emulated machine does nothing else then.
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// Waits for so many more pairs that count, and returns the counts.
fn more_pairs(home: &Home, wire: &Wire, more: u64) -> Result<Value> {
    let pairs = |counts: &Value| counts["pairs"].as_u64().unwrap_or_default();
    let wanted = pairs(&counts(home, wire)?) + more;
    let look = || {
        signal::sleep(BETWEEN_LOOKS)?;
        counts(home, wire)
    };
    until("pairs count", 2 * SOON, look, |counts| pairs(counts) >= wanted)
}

/// Makes sure that each block that is over counts, or is thrown away, once.
fn ensure_all_is_told(home: &Home) -> Result<()> {
    let told = json(home, &["report"])?["experiments"][0].take();
    let time =
        |key: &str| -> Result<Timestamp> { Ok(told[key].as_str().context("no time")?.parse()?) };
    let seconds = (time("reached")? - time("begins")?).total(jiff::Unit::Second)?;
    let over = seconds / told["block_seconds"].as_f64().context("no length")?;
    let thrown = told["counts"]["thrown"].as_object().context("no reasons")?;
    let thrown: u64 = thrown.values().filter_map(Value::as_u64).sum();
    let counted = told["counts"]["blocks"].as_u64().context("no count")?;
    ensure!((counted + thrown) as f64 == over, "{told:#}");
    Ok(())
}

/// Makes sure that new connections get what is said that they get.
fn ensure_what_is_told_is_given(home: &Home, wire: &Wire) -> Result<()> {
    let look = || -> Result<(Value, bool)> {
        let told = json(home, &["report"])?["experiments"][0].take();
        Ok((told, is_tuned(wire, &open(wire)?)?))
    };
    // A block may begin between the two.
    until("what is told is given", SOON, look, |(told, is_tuned)| {
        told["block"]["arm"] == if *is_tuned { "tuned" } else { "default" }
    })?;
    Ok(())
}

#[e2e(long, beside)]
fn an_upgrade_costs_the_block_that_it_falls_into() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let other = folder.path().join("wad");
    another_build::make(&program()?, &other)?;
    let stand = Stand::set_up("experiment-upgrade")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &path(EXPERIMENT))?;
    let words = |program: &std::path::Path| program.to_str().map(str::to_owned).context("UTF-8");
    let first = home.start_in_place(&[&words(&program()?)?], stand.cgroup())?;
    let before = more_pairs(&home, &wire, 1)?;
    ensure!(before["thrown"]["restarted"].is_null(), "{before:#}");

    let second = home.start_in_place(&[&words(&other)?], stand.cgroup())?;
    ensure_what_is_told_is_given(&home, &wire)?;
    first.stop()?;
    let after = more_pairs(&home, &wire, 1)?;
    ensure!(after["thrown"]["restarted"].as_u64() > Some(0), "{after:#}");
    ensure_all_is_told(&home)?;
    Ok(second.stop()?)
}

#[e2e(long, never_on_hosts = "it sets the clock")]
fn a_clock_that_is_set_costs_the_blocks_that_it_jumps_over() -> Result<()> {
    let stand = Stand::set_up("experiment-clock")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &path(EXPERIMENT))?;
    let agent = home.start(stand.cgroup())?;
    more_pairs(&home, &wire, 1)?;
    let set_by = |seconds: i64| -> Result<()> {
        let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
        Ok(clock_settime(ClockId::CLOCK_REALTIME, now + TimeSpec::seconds(seconds))?)
    };
    for seconds in [7, -7] {
        let before = counts(&home, &wire)?;
        set_by(seconds)?;
        let after = more_pairs(&home, &wire, 1)?;
        let set = |counts: &Value| counts["thrown"]["clock_set"].as_u64().unwrap_or_default();
        ensure!(set(&after) > set(&before), "{after:#}");
        ensure_what_is_told_is_given(&home, &wire)?;
        ensure_all_is_told(&home)?;
    }
    ensure!(home.log().contains("the wall clock was set"), "{}", home.log());
    Ok(agent.stop()?)
}
