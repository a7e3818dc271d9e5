//! A law of ours beside the kernel's own of the same name: the mean congestion
//! window of each, in segments, under random loss.
//!
//! Both send over one veth pair with the kernel's netem, in turns, without segment
//! offloads and with an ACK for each segment: the kernel's `tcp_highspeed.c` counts
//! one step for an ACK, not for a segment. Both have the same buffers, and no
//! pacing. Needs a kernel with netem and the modules.

mod flows;
mod ratio;

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

pub use self::ratio::Ratio;
use self::{flows::Flows, ratio::Samples};
use crate::{
    process::{run, run_command},
    stand::Stand,
    veth::{ADDRESSES_V4, DEVICE, Wire},
    wad::Home,
};

/// Flows at a time, and turns of each side.
const FLOWS: usize = 4;
const TURNS: u32 = 8;
/// Segments per second that an emulated processor carries with time to spare: a
/// flow that waits for the processor is not held back by its window.
const MOST_PER_SECOND: f64 = 16_000.0;
const LEAST_RTT: Duration = Duration::from_millis(20);
/// What ends slow start, and leaves the window below where it will be.
const HEAVY_LOSS: f64 = 0.01;
/// Losses of each flow then, and until its window counts.
const HEAVY_LOSSES: u32 = 3;
const SETTLED_LOSSES: u32 = 10;

const OUR_PORT: u16 = 7001;
const KERNELS_PORT: u16 = 7002;

/// What is compared.
pub struct Case {
    pub ours: &'static str,
    pub kernels: &'static str,
    /// Probability that a segment is lost.
    pub loss: f64,
    /// About what the law has on average: tells how fast a flow is.
    expected_segments: f64,
    /// Of one side while its windows count, all flows together.
    losses: u32,
}

/// The pairs: RFC 5681's window is 1.22 / sqrt(p) (RFC 3649 section 1), HighSpeed
/// TCP's 0.12 / p^0.835 (its section 5), Scalable TCP's 0.08 / p (Kelly 2003).
pub const CASES: [Case; 6] = [
    case("wad_aimd", "reno", 1e-3, 38.7),
    case("wad_highspeed", "highspeed", 1e-3, 38.7),
    case("wad_scalable", "scalable", 1e-3, 80.0),
    case("wad_aimd", "reno", 1e-4, 122.0),
    case("wad_highspeed", "highspeed", 1e-4, 263.0),
    case("wad_scalable", "scalable", 1e-4, 800.0),
];

const fn case(
    ours: &'static str,
    kernels: &'static str,
    loss: f64,
    expected_segments: f64,
) -> Case {
    let losses = if loss < 5e-4 { 1000 } else { 2500 };
    Case { ours, kernels, loss, expected_segments, losses }
}

impl Case {
    fn rtt(&self) -> Duration {
        let least = FLOWS as f64 * self.expected_segments / MOST_PER_SECOND;
        LEAST_RTT.max(Duration::from_secs_f64(least))
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
    prepare(&wire, case.rtt())?;
    let home = Home::create(wad, &case.policy())?;
    let _agent = home.start(stand.cgroup())?;
    let mut ours = Samples::default();
    let mut kernels = Samples::default();
    for _ in 0..TURNS {
        for (port, name, samples) in
            [(OUR_PORT, case.ours, &mut ours), (KERNELS_PORT, case.kernels, &mut kernels)]
        {
            for mean in one_turn(&wire, case, port, name)? {
                samples.add(mean);
            }
        }
    }
    Ok(Ratio::of(&ours, &kernels))
}

fn prepare(wire: &Wire, rtt: Duration) -> Result<()> {
    for netns in [wire.a(), wire.b()] {
        let mut ethtool = Command::new("ip");
        ethtool.args(["netns", "exec", netns.name(), "ethtool", "-K", DEVICE]);
        run_command(ethtool.args(["tso", "off", "gso", "off", "gro", "off"]))?;
    }
    let network = format!("{}/32", ADDRESSES_V4[0]);
    wire.b().ip(&["route", "replace", &network, "dev", DEVICE, "quickack", "1"])?;
    // All that a turn has under way may be waiting at once.
    std::fs::write("/proc/sys/net/core/netdev_max_backlog", "100000")
        .context("net.core.netdev_max_backlog")?;
    netem(wire, "add", rtt, HEAVY_LOSS)
}

fn netem(wire: &Wire, verb: &str, rtt: Duration, loss: f64) -> Result<()> {
    let (delay, loss) = (format!("{}us", rtt.as_micros()), format!("{}%", 100.0 * loss));
    let mut command = Command::new("tc");
    command.args(["-n", wire.a().name(), "qdisc", verb, "dev", DEVICE, "root", "netem"]);
    command.args(["limit", "1000000", "delay", &delay, "loss", "random", &loss]);
    run_command(command.stdin(Stdio::null()))?;
    Ok(())
}

/// Mean windows of the flows of one turn.
fn one_turn(wire: &Wire, case: &Case, port: u16, algorithm: &str) -> Result<Vec<f64>> {
    netem(wire, "change", case.rtt(), HEAVY_LOSS)?;
    let flows = Flows::start(wire, port, FLOWS)?;
    flows.ensure_algorithm(algorithm)?;
    flows.await_losses(HEAVY_LOSSES)?;
    netem(wire, "change", case.rtt(), case.loss)?;
    flows.await_losses(SETTLED_LOSSES)?;
    flows.mean_windows(case.losses / TURNS)
}
