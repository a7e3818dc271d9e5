//! A law of ours beside the kernel's own of the same name: the mean congestion
//! window of each, in segments, under random loss.
//!
//! Both send over one veth pair with the kernel's netem, in turns, a flow at a time,
//! without segment offloads and with an ACK for each segment: the kernel's
//! `tcp_highspeed.c` counts one step for an ACK, not for a segment. Both have the
//! same buffers, and no pacing. Needs Linux 6.6, with netem and the modules.
//!
//! The two flows of a pair lose the same segments, by number: their windows then
//! come together, whatever they were, and stay so as far as the laws are the same.
//! A hundred losses tell more of two laws than ten thousand independent ones (common
//! random numbers: Law, Simulation Modeling and Analysis, section 11.2).

mod flow;
mod netem;
mod pairs;
#[cfg(test)]
mod simulated;

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use wad_testbed::{
    process::{run, run_command},
    random::Random,
    say, signal,
    stand::Stand,
    veth::{ADDRESSES_V4, DEVICE, Wire},
    wad::Home,
};

pub use self::pairs::Ratio;
use self::{flow::Flow, netem::Netem, pairs::Pairs};

/// Each side has so many turns.
const PAIRS: u64 = 4;
/// An emulated processor carries so many segments per second with time to spare, at
/// windows of several times the mean, too. A flow that waits for the processor is held
/// back by that, not by its window, and gets one ACK for several segments.
const MOST_PER_SECOND: f64 = 4000.0;
const LEAST_RTT: Duration = Duration::from_millis(20);
/// After so many RTTs nothing of what was lost or sent before is under way.
const REST_RTTS: u32 = 5;
/// A flow's window counts after so many losses: it has become what the law makes of it.
const SETTLED_LOSSES: u32 = 8;

const OUR_PORT: u16 = 7001;
const KERNELS_PORT: u16 = 7002;

/// Holds what is compared.
pub struct Case {
    pub ours: &'static str,
    pub kernels: &'static str,
    /// Probability that a segment is lost.
    pub loss: f64,
    /// About what the law has on average: tells how fast a flow is.
    expected_segments: f64,
    /// One flow has so many losses while its window counts.
    losses: u32,
}

/// The pairs: RFC 5681's window is 1.22 / sqrt(p) (RFC 3649 section 1), HighSpeed
/// TCP's 0.12 / p^0.835 (its section 5), Scalable TCP's 0.08 / p (Kelly 2003).
pub const CASES: [Case; 6] = [
    case("wad_aimd", "reno", 1e-4, 122.0),
    case("wad_highspeed", "highspeed", 1e-4, 263.0),
    case("wad_scalable", "scalable", 1e-4, 800.0),
    case("wad_aimd", "reno", 1e-3, 38.7),
    case("wad_highspeed", "highspeed", 1e-3, 38.7),
    case("wad_scalable", "scalable", 1e-3, 80.0),
];

const fn case(
    ours: &'static str,
    kernels: &'static str,
    loss: f64,
    expected_segments: f64,
) -> Case {
    let losses = if loss < 5e-4 { 12 } else { 40 };
    Case { ours, kernels, loss, expected_segments, losses }
}

impl Case {
    fn rtt(&self) -> Duration {
        let least = self.expected_segments / MOST_PER_SECOND;
        LEAST_RTT.max(Duration::from_secs_f64(least))
    }

    /// Returns what ends slow start well below the window to be expected: of the window
    /// that counts, little is what slow start left, which both laws have in common.
    fn first_loss(&self) -> f64 {
        (8.0 / self.expected_segments).min(0.05)
    }

    fn policy(&self) -> String {
        let path = |name: &str, remote: &str, port: u16, more: &str| {
            format!(
                "[[path]]\nname = \"{name}\"\nremote = \"{remote}\"\nremote_port = {port}\n\
                 sndbuf = \"16MiB\"\nrcvbuf = \"16MiB\"\n{more}\n"
            )
        };
        let ours =
            format!("congestion = \"{}\"\npacing = \"off\"\nallow = \"aggressive\"\n", self.ours);
        let kernels = format!("congestion = \"{}\"\n", self.kernels);
        [
            path("ours", ADDRESSES_V4[1], OUR_PORT, &ours),
            path("kernels", ADDRESSES_V4[1], KERNELS_PORT, &kernels),
            path("receiver", ADDRESSES_V4[0], 0, ""),
        ]
        .concat()
    }
}

/// Runs one case, side by side.
///
/// # Errors
/// Without root, netem or the kernel's module, or when a flow is not tuned.
pub fn compare(case: &Case, wad: &Path) -> Result<Ratio> {
    let stand = Stand::set_up("compare")?;
    if case.kernels != "reno" {
        run("modprobe", &[&format!("tcp_{}", case.kernels)])?;
    }
    let wire = Wire::start()?;
    prepare(&wire)?;
    let home = Home::create(wad, &case.policy())?;
    let _agent = home.start(stand.cgroup())?;
    let mut pairs = Pairs::default();
    for pair in 1..=PAIRS {
        let ours = one_turn(&wire, case, pair, OUR_PORT, case.ours)?;
        let kernels = one_turn(&wire, case, pair, KERNELS_PORT, case.kernels)?;
        say(&format!("pair {pair} of {PAIRS}: {ours:.1} beside {kernels:.1} segments"));
        pairs.add(ours, kernels);
    }
    Ok(pairs.ratio())
}

fn prepare(wire: &Wire) -> Result<()> {
    for netns in [wire.a(), wire.b()] {
        let mut ethtool = Command::new("ip");
        ethtool.args(["netns", "exec", netns.name(), "ethtool", "-K", DEVICE]);
        run_command(ethtool.args(["tso", "off", "gso", "off", "gro", "off"]))?;
        // TCP makes larger packets all the same (since Linux 4.17), and netem loses
        // them as a whole.
        netns.ip(&["link", "set", DEVICE, "gso_max_segs", "1"])?;
    }
    let network = format!("{}/32", ADDRESSES_V4[0]);
    wire.b().ip(&["route", "replace", &network, "dev", DEVICE, "quickack", "1"])?;
    // All that a turn has under way may be waiting at once.
    std::fs::write("/proc/sys/net/core/netdev_max_backlog", "100000")
        .context("net.core.netdev_max_backlog")
}

/// Returns the mean window of the flow of one turn.
fn one_turn(wire: &Wire, case: &Case, pair: u64, port: u16, algorithm: &str) -> Result<f64> {
    // All bits of it count: netem's generator begins badly with few.
    let seed = Random::new(pair).next();
    let lose = |loss: f64| Netem { delay: case.rtt(), loss, seed }.apply(wire.a(), DEVICE);
    let rest = REST_RTTS * case.rtt();
    lose(0.0)?;
    signal::sleep(rest)?;
    // Before there is a flow: slow start is over before netem could be changed.
    lose(case.first_loss())?;
    let flow = Flow::start(wire, port)?;
    flow.ensure_algorithm(algorithm)?;
    flow.await_first_event()?;
    lose(0.0)?;
    signal::sleep(rest)?;
    let before = flow.losses()?;
    lose(case.loss)?;
    flow.await_losses(before + SETTLED_LOSSES)?;
    flow.mean_window_until(before + SETTLED_LOSSES + case.losses)
}
