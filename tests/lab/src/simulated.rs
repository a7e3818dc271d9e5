//! A scenario's variants are simulated by `wad simulate`, beside what was measured: the same path,
//! the same policy, the same time.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use serde::Deserialize;
use wad_testbed::{
    emulated::path::Direction,
    process::{ProcessError, run_command},
};

use crate::{
    measure::median,
    report::{Report, Sample},
    scenario::{Load, Scenario, Variant},
};

/// A simulation is near that is no farther off.
const NEAR: f64 = 0.05;

/// Tells what kept the simulation from being run.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    #[error("cannot keep a policy for `wad simulate`")]
    Policy(#[source] std::io::Error),
    #[error("`wad simulate` printed no figures of {variant}")]
    Figures { variant: String },
}

/// The output of `wad simulate --json`, as far as it is needed here.
#[derive(Deserialize)]
struct Printed {
    laws: Vec<Figures>,
}

#[derive(Clone, Copy, Deserialize)]
struct Figures {
    bits_per_second: f64,
    retransmitted_segments: u64,
}

/// Returns a table of the variants of a report, and what is not simulated.
///
/// # Errors
/// When a policy cannot be written, or the figures cannot be read.
pub fn beside(wad: &Path, scenario: &Scenario, report: &Report) -> Result<String, SimulatedError> {
    let mut table = format!(
        "{}: simulated beside measured\n{:<20} {:>10} {:>10} {:>8} {:>10} {:>10}\n",
        scenario.name, "variant", "Mb/s", "simulated", "", "resent", "simulated"
    );
    let mut rest = String::new();
    for measured in &report.variants {
        let variant = scenario.variants.iter().find(|one| one.name == measured.name);
        let Some(variant) = variant else { continue };
        let figures = match arguments(scenario, variant) {
            Ok(mut words) => {
                words.extend(window(variant, &measured.samples));
                simulate(wad, variant, &words)?
            }
            Err(why) => Err(why.to_owned()),
        };
        let name = &variant.name;
        // A string takes it all.
        let _ = match figures {
            Ok(simulated) => {
                let (real, own) = (measured.goodput_bits_per_second, simulated.bits_per_second);
                let off = own / real - 1.0;
                let mark = if off.abs() > NEAR { " far" } else { "" };
                let (real, own, percent) = (real / 1e6, own / 1e6, off * 100.0);
                let (resent, own_resent) = (measured.retransmits, simulated.retransmitted_segments);
                writeln!(
                    table,
                    "{name:<20} {real:>10.1} {own:>10.1} {percent:>+7.1}% {resent:>10.0} \
                     {own_resent:>10}{mark}"
                )
            }
            Err(why) => writeln!(rest, "  {name} is not simulated: {why}"),
        };
    }
    Ok(table + &rest)
}

/// Asks `wad`; its own reason where it does not simulate this.
fn simulate(
    wad: &Path,
    variant: &Variant,
    words: &[String],
) -> Result<Result<Figures, String>, SimulatedError> {
    let mut command = Command::new(wad);
    command.arg("simulate").args(words);
    let folder = tempfile::tempdir().map_err(SimulatedError::Policy)?;
    if let Some(policy) = &variant.policy {
        let file = folder.path().join("wad.toml");
        fs::write(&file, policy).map_err(SimulatedError::Policy)?;
        command.arg("--config").arg(file);
    }
    let printed = match run_command(&mut command) {
        Ok(printed) => printed,
        Err(ProcessError::Failed { message, .. }) => {
            return Ok(Err(message.lines().next().unwrap_or_default().to_owned()));
        }
        Err(error) => return Ok(Err(error.to_string())),
    };
    let printed: Option<Printed> = serde_json::from_str(&printed).ok();
    let figures = printed.and_then(|printed| printed.laws.first().copied());
    let variant = variant.name.clone();
    figures.map(Ok).ok_or(SimulatedError::Figures { variant })
}

/// Returns the arguments that ask for a variant, but for the file of its policy; or why it is
/// none that can be simulated.
pub fn arguments(scenario: &Scenario, variant: &Variant) -> Result<Vec<String>, &'static str> {
    let Load::Seconds(seconds) = scenario.load else { return Err("it moves so many bytes") };
    let [group] = &variant.groups[..] else { return Err("it has several kinds of flows") };
    let path = &variant.path;
    let forward = &path.forward;
    if scenario.burst.is_some() || variant.unread > 0 || variant.monitor.is_some() {
        return Err("others take part in it");
    }
    if variant.plan.is_some() || variant.has_peers || variant.transfer > 1 {
        return Err("its policy is found while it runs");
    }
    if scenario.ecn
        || variant.sender_queue.is_some()
        || is_beyond(forward)
        || path.reverse.is_some()
    {
        return Err("its path does more than to queue, to delay and to lose");
    }
    let mut words = vec![
        format!("--rate={}bit", forward.rate.bits_per_second),
        format!("--rtt={}us", path.rtt.0.as_micros()),
        format!("--queue={}B", path.queue_bytes(forward)),
        format!("--mtu={}", path.mtu),
        format!("--flows={}", group.streams),
        format!("--for={seconds}s"),
        format!("--seed={}", path.seed),
        "--json".to_owned(),
    ];
    if forward.loss > 0.0 {
        words.push(format!("--loss={}", forward.loss));
    }
    if !forward.drop_data_packets.is_empty() {
        let numbers = forward.drop_data_packets.iter().map(u64::to_string);
        words.push(format!("--lose={}", numbers.collect::<Vec<_>>().join(",")));
    }
    words.push(match variant.policy {
        Some(_) => format!("--path={}", group.name),
        None => "--law=cubic".to_owned(),
    });
    Ok(words)
}

/// Returns the argument for what the kernel's own buffers let a flow have on its way, which is not
/// simulated: the window that was offered to it, and what its send buffer holds on average, which is
/// filled anew whenever a third of it is free (`sk_stream_write_space()`).
fn window(variant: &Variant, samples: &[Sample]) -> Option<String> {
    if variant.policy.is_some() {
        return None;
    }
    let bytes = |sample: &Sample| sample.send_window_bytes.min(sample.sndbuf_bytes / 6 * 5);
    let median_bytes = median(samples.iter().map(|sample| bytes(sample) as f64));
    Some(format!("--window={median_bytes:.0}"))
}

/// Whether the way does what is not simulated.
fn is_beyond(way: &Direction) -> bool {
    way.policer.is_some()
        || way.reorder.is_some()
        || way.jitter.nanoseconds() > 0
        || !way.drop_at.is_empty()
        || !way.mark_at.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn of(scenario: &str, variant: &str) -> Result<Vec<String>, &'static str> {
        let scenario = Scenario::load(scenario).unwrap();
        let variant = scenario.variants.iter().find(|one| one.name == variant).unwrap();
        arguments(&scenario, variant)
    }

    #[test]
    fn a_variant_is_asked_for_with_its_path_and_policy() {
        let words = of("aimd-oc12", "wad_aimd").unwrap().join(" ");
        assert_eq!(
            words,
            "--rate=622000000bit --rtt=80000us --queue=6220000B --mtu=1500 --flows=1 --for=12s \
             --seed=0 --json --lose=3000 --path=wad_aimd"
        );
        let words = of("datatag", "untuned").unwrap().join(" ");
        assert!(words.ends_with("--law=cubic"), "{words}");
    }

    #[test]
    fn what_the_kernels_buffers_let_on_its_way_is_as_it_was() {
        let scenario = Scenario::load("datatag").unwrap();
        let window_of = |name, send_window_bytes| {
            let variant = scenario.variants.iter().find(|one| one.name == name).unwrap();
            window(variant, &[Sample { send_window_bytes, sndbuf_bytes: 4_194_300, ..sample(1e8) }])
        };
        assert_eq!(window_of("untuned", 3_145_728).as_deref(), Some("--window=3145728"));
        assert_eq!(window_of("untuned", 4_176_512).as_deref(), Some("--window=3495250"));
        assert_eq!(window_of("tuned", 4_176_512), None);
    }

    #[test]
    fn what_is_more_than_a_path_with_flows_that_are_alike_is_not_asked_for() {
        for (scenario, variant) in [("burst", "tuned"), ("objects", "tuned"), ("stall", "wad_aimd")]
        {
            let scenario = Scenario::load(scenario).unwrap();
            let known = scenario.variants.iter().find(|one| one.base == variant);
            let variant = known.unwrap_or(&scenario.variants[0]);
            assert!(arguments(&scenario, variant).is_err(), "{}", scenario.name);
        }
    }
}
