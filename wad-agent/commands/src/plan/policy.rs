//! The policy to paste: a `[[path]]` for this path.

use std::fmt::{self, Write as _};

use wad_common::law::{Aimd, highspeed};
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

/// TOML. The network is of RFC 5737: it is for whoever pastes it to name.
pub fn toml(question: &Question) -> String {
    let mut toml = "[[path]]\n\
                    name = \"planned\"\n\
                    remote = \"192.0.2.0/24\"  # the network of the other end\n"
        .to_owned();
    write_settings(&mut toml, question).expect("text takes what is written");
    toml
}

fn write_settings(toml: &mut String, question: &Question) -> fmt::Result {
    let path = question.path();
    let has_large_window = path.bdp_bytes() > DEFAULT_WINDOW_BYTES;
    let is_within_buffers = question.auto_buffer_bytes() <= MAX_BUFFER_BYTES;
    let recovers_slowly = highspeed::response(path.bdp_segments()) != Aimd::STANDARD;
    // A connection can't have more than that, and so can't overshoot the path.
    let ends_slow_start = recovers_slowly && path.bdp_bytes() <= MAX_WINDOW_BYTES;

    if ends_slow_start || has_large_window && is_within_buffers {
        let Question { rate, rtt, .. } = question;
        write!(toml, "bandwidth = \"{rate}\"\nrtt = \"{rtt}\"\n")?;
    }
    if !has_large_window {
        writeln!(toml, "# the kernel's own buffers are large enough")?;
    } else if is_within_buffers {
        write!(toml, "sndbuf = \"auto\"\nrcvbuf = \"auto\"\n")?;
    } else {
        writeln!(toml, "# the most that the kernel takes")?;
        write!(toml, "sndbuf = {MAX_BUFFER_BYTES}\nrcvbuf = {MAX_BUFFER_BYTES}\n")?;
    }
    if !recovers_slowly {
        return writeln!(toml, "# standard congestion control recovers soon enough");
    }
    write_congestion(toml, path.bdp_segments(), question.loss)?;
    if ends_slow_start { write_slow_start(toml, path.bdp_segments()) } else { Ok(()) }
}

/// Whether losses come without a queue is for whoever pastes it to know.
fn write_congestion(toml: &mut String, bdp_segments: u32, loss: Option<f64>) -> fmt::Result {
    let response = Response::highspeed();
    let filling_loss = response.loss(f64::from(bdp_segments));
    let share = response.share(filling_loss);
    let name = Law::HighSpeed.name();
    writeln!(
        toml,
        "# up to {share:.1} times a standard flow's share on this path: only where all"
    )?;
    writeln!(toml, "# who share it agree")?;
    if let Some(loss) = loss.filter(|loss| (filling_loss..MAX_LEAK).contains(loss)) {
        writeln!(
            toml,
            "# does not fill the path at {loss:e} lost; if those come without a queue,"
        )?;
        writeln!(toml, "# this in its place does: loss = \"leaky\"")?;
    }
    write!(toml, "congestion = \"{name}\"\nallow = \"aggressive\"\n")
}

/// Laws of ours are paced on long paths without being told.
fn write_slow_start(toml: &mut String, bdp_segments: u32) -> fmt::Result {
    let max_ssthresh = bdp_segments / WINDOWS_PER_MAX_SSTHRESH;
    let max_ssthresh = max_ssthresh.clamp(LEAST_MAX_SSTHRESH_SEGMENTS, MOST_MAX_SSTHRESH_SEGMENTS);
    write!(toml, "initial_ssthresh = \"auto\"\nmax_ssthresh = {max_ssthresh}\n")
}
