//! The policies to paste: a `[[path]]` for this path, with and without consent.

use std::{
    fmt::{self, Write as _},
    ops::RangeInclusive,
};

use schemars::JsonSchema;
use serde::Serialize;
use wad_common::{
    control::LONG_PATH_US,
    law::{Aimd, highspeed, resume::LEAST_KNOWN_SEGMENTS},
};
use wad_policy::{config::MAX_BUFFER_BYTES, law::Law, response::Response};

use super::{DEFAULT_WINDOW_BYTES, Question, path::MAX_WINDOW_BYTES};

/// From this part of the path's window on slow start is limited: it then grows
/// by a sixteenth of the window in an RTT, and takes 14 RTTs to the whole.
const WINDOWS_PER_MAX_SSTHRESH: u32 = 8;
/// The least is what RFC 3742 suggests: no flow needs less.
const LEAST_MAX_SSTHRESH_SEGMENTS: u32 = 100;
/// The most is what the configuration takes.
const MOST_MAX_SSTHRESH_SEGMENTS: u32 = 100_000;
/// A path that loses more is no leaky one to the law for such (its
/// [module](wad_common::law::leaky)).
const MAX_LEAK: f64 = 0.01;
/// One packet in a million is lost where nobody says how many are: a path without faults.
const USUAL_LOSS: f64 = 1e-6;
/// CUBIC flows as which a connection behaves that is to recover sooner. Two keep any path fuller than
/// one; what takes more than four to fill is left to the law for leaky paths.
const FLOWS: RangeInclusive<u32> = 2..=4;
/// The kernel's side knows in 32 bits what a path holds. A larger one would be taken to hold
/// so much, and connections that begin together would share that and no more.
const MOST_KNOWN_BYTES: f64 = u32::MAX as f64;

/// Holds the policies to paste, as TOML. The network in them is of RFC 5737: it is for
/// whoever pastes one to name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Policies {
    /// Its flows take no more than CUBIC's.
    pub fair: String,
    /// Its flows recover sooner, and need consent. None where standard flows recover soon enough.
    pub aggressive: Option<String>,
    /// The rates to expect of both.
    pub expected: Expected,
}

/// Mean rates of one connection, by the laws' response functions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Expected {
    /// Packets lost of all: as asked, or usual where nothing was.
    pub loss: f64,
    /// CUBIC with the kernel's default buffers.
    pub untuned_bits_per_second: f64,
    /// CUBIC with buffers as the plan has them.
    pub cubic_bits_per_second: f64,
    /// The fair policy.
    pub fair_bits_per_second: f64,
    /// The aggressive policy, if there is one.
    pub aggressive_bits_per_second: Option<f64>,
}

impl Policies {
    pub fn of(question: &Question) -> Self {
        let path = question.path();
        let recovers_slowly = highspeed::response(path.bdp_segments()) != Aimd::STANDARD;
        let faster = recovers_slowly.then(|| Share::faster(question));
        let written = |law: Option<Share>| {
            let mut toml = "[[path]]\n\
                            name = \"planned\"\n\
                            remote = \"192.0.2.0/24\"  # the network of the other end\n"
                .to_owned();
            write_settings(&mut toml, question, law).expect("text takes what is written");
            toml
        };
        Self {
            fair: written(recovers_slowly.then_some(Share::FAIR)),
            aggressive: faster.map(|share| written(Some(share))),
            expected: Expected::of(question, faster),
        }
    }
}

impl Expected {
    fn of(question: &Question, faster: Option<Share>) -> Self {
        let path = question.path();
        let loss = question.loss.unwrap_or(USUAL_LOSS);
        let rate = |window_bytes: f64, response: &Response| {
            let most_segments = window_bytes / f64::from(path.mss_bytes);
            path.rate_bits_per_second(response.mean_window_segments(loss).min(most_segments))
        };
        let cubic = Response::cubic(Some(path.rtt_seconds));
        let cubic_bits_per_second = rate(MAX_WINDOW_BYTES, &cubic);
        let faster_bits_per_second = |share| match share {
            Share::Cubic { flows } => {
                rate(MAX_WINDOW_BYTES, &Response::cubic_flows(flows, Some(path.rtt_seconds)))
            }
            Share::Leaky => path.rate_bits_per_second(path.max_window_segments()),
        };
        Self {
            loss,
            untuned_bits_per_second: rate(DEFAULT_WINDOW_BYTES, &cubic),
            cubic_bits_per_second,
            // Where it has the kernel's own buffers and law, these do not bound it.
            fair_bits_per_second: cubic_bits_per_second,
            aggressive_bits_per_second: faster.map(faster_bits_per_second),
        }
    }
}

/// The part of a path that a connection is to take beside others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// As many CUBIC flows.
    Cubic { flows: u32 },
    /// All that others leave, if losses are no congestion.
    Leaky,
}

impl Share {
    /// No more than any CUBIC flow.
    const FAIR: Self = Self::Cubic { flows: 1 };

    /// The law that fills the path at its losses: as many CUBIC flows as it takes in each stream, and
    /// that for leaky paths where these would be more than [`FLOWS`] allows.
    fn faster(question: &Question) -> Self {
        let path = question.path();
        let loss = question.loss.unwrap_or(USUAL_LOSS);
        let fills = |flows: &u32| {
            let all = Response::cubic_flows(flows * question.streams, Some(path.rtt_seconds));
            all.mean_window_segments(loss) >= f64::from(path.bdp_segments())
        };
        match FLOWS.into_iter().find(fills) {
            Some(flows) => Self::Cubic { flows },
            None if question.loss.is_some_and(|loss| loss < MAX_LEAK) => Self::Leaky,
            None => Self::Cubic { flows: *FLOWS.end() },
        }
    }
}

fn write_settings(toml: &mut String, question: &Question, share: Option<Share>) -> fmt::Result {
    let path = question.path();
    let has_large_window = path.bdp_bytes() > DEFAULT_WINDOW_BYTES;
    // Without a threshold paced slow start is faster, and ends by itself (HyStart++); that of the law for
    // leaky paths loses up to twice as much then, where the queue is short. A window beyond the largest
    // is none that a connection could overshoot the path with.
    let is_unpaced = question.rtt_seconds * 1e6 < f64::from(LONG_PATH_US);
    let has_threshold = share.is_some_and(|it| it == Share::Leaky || is_unpaced)
        && path.bdp_bytes() <= MAX_WINDOW_BYTES;
    // The law for leaky paths takes no `resume`.
    let resumes = !matches!(share, None | Some(Share::Leaky)) && is_worth_a_jump(question);

    // What the law for leaky paths takes beside CUBIC depends on them.
    let is_judged = share == Some(Share::Leaky);
    if has_threshold || resumes || is_judged || has_large_window {
        let Question { rate, rtt, .. } = question;
        write!(toml, "bandwidth = \"{rate}\"\nrtt = \"{rtt}\"\n")?;
    }
    if !has_large_window {
        writeln!(toml, "# the kernel's own buffers are large enough")?;
    } else {
        write!(toml, "sndbuf = \"auto\"\nrcvbuf = \"auto\"\n")?;
    }
    // Parts of the largest buffer that the kernel takes would be too small for a path beyond that.
    let is_within_buffers = question.auto_buffer_bytes() <= MAX_BUFFER_BYTES;
    if question.streams > 1 && has_large_window && is_within_buffers {
        writeln!(toml, "divide = true  # among {} streams", question.streams)?;
    }
    match share {
        None => {
            return writeln!(toml, "# the kernel's own congestion control recovers soon enough");
        }
        Some(Share::Cubic { flows }) => write_cubic(toml, flows)?,
        Some(Share::Leaky) => {
            writeln!(
                toml,
                "# what is lost without a queue takes nothing from the window; beside it"
            )?;
            writeln!(
                toml,
                "# CUBIC may get down to a tenth of its share where queues are short: only"
            )?;
            write!(
                toml,
                "# where all who share it agree\nloss = \"leaky\"\nallow = \"aggressive\"\n"
            )?;
        }
    }
    if has_threshold {
        write_slow_start(toml, question)?;
    }
    if resumes { write_resume(toml) } else { Ok(()) }
}

/// Whether new flows gain by what is known of the path: a jump to half of that (RFC 9959).
/// One that is likely to lose a packet by chance is taken for too far, and the path rests.
fn is_worth_a_jump(question: &Question) -> bool {
    let path = question.path();
    let known_segments = path.bdp_bytes() / f64::from(path.mss_bytes);
    let lost_segments = question.loss.unwrap_or(0.0) * known_segments / 2.0;
    known_segments >= f64::from(LEAST_KNOWN_SEGMENTS)
        && path.bdp_bytes() <= MOST_KNOWN_BYTES
        && lost_segments < 1.0
}

fn write_cubic(toml: &mut String, flows: u32) -> fmt::Result {
    if flows == 1 {
        writeln!(toml, "# no more than a CUBIC flow's share, whoever else is on the path")?;
        return writeln!(toml, "congestion = \"{}\"", Law::Cubic.name());
    }
    write!(
        toml,
        "# as {flows} CUBIC flows in one, with {flows} times the share of one, and buffers of up to {flows}\n\
         # times the size: only where all who share the path agree\n\
         congestion = \"{}\"\nequivalent_streams = {flows}\nallow = \"aggressive\"\n",
        Law::Cubic.name()
    )
}

/// Writes the slow start threshold. Below [`LONG_PATH_US`] our laws are not paced and the queue has to take
/// the bursts, so slow start is limited there as well.
fn write_slow_start(toml: &mut String, question: &Question) -> fmt::Result {
    writeln!(toml, "initial_ssthresh = \"auto\"")?;
    if question.rtt_seconds * 1e6 >= f64::from(LONG_PATH_US) {
        return Ok(());
    }
    let bdp_segments = question.path().bdp_segments();
    let max_ssthresh = bdp_segments / WINDOWS_PER_MAX_SSTHRESH;
    let max_ssthresh = max_ssthresh.clamp(LEAST_MAX_SSTHRESH_SEGMENTS, MOST_MAX_SSTHRESH_SEGMENTS);
    writeln!(toml, "max_ssthresh = {max_ssthresh}")
}

/// The numbers are those of the question, and nobody has measured them.
fn write_resume(toml: &mut String) -> fmt::Result {
    writeln!(toml, "# new connections jump to half of bandwidth times rtt (RFC 9959): only where")?;
    writeln!(toml, "# both are true")?;
    writeln!(toml, "resume = \"known\"")
}
