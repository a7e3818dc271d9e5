//! The policy that is suggested for a prefix: buffers that hold more than what limited its
//! connections, and nothing that takes more than a fair share.

use std::fmt::{self, Write as _};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Serialize;
use wad_policy::{
    config::{
        AUTO_HEADROOM, AutoBuffers, MAX_BITS_PER_SECOND, MAX_BUFFER_BYTES, auto_buffer_bytes,
    },
    tuning_plan::KernelBuffers,
};

use super::{Suggestion, evidence, totals::Totals};
use crate::diagnose::{BUFFER_GROWTH, Limit};

/// A limit that holds for less of the time is not worth a line.
const LEAST_SHARE: f64 = 0.1;

/// A path that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SuggestedPath {
    /// The path, as TOML to paste.
    pub toml: String,
}

/// Says what larger windows would help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    sndbuf: Option<Want>,
    rcvbuf: Option<Want>,
}

/// Says whether it is the limit now, or the one that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Now,
    Next,
}

impl Wants {
    /// Whether there is anything to suggest.
    pub const fn is_any(self) -> bool {
        self.sndbuf.is_some() || self.rcvbuf.is_some()
    }

    /// Returns the buffers that are the limit now.
    pub const fn now(self) -> AutoBuffers {
        AutoBuffers {
            sndbuf: matches!(self.sndbuf, Some(Want::Now)),
            rcvbuf: matches!(self.rcvbuf, Some(Want::Now)),
            autotune: false,
        }
    }

    /// Whether the same is to be suggested.
    pub const fn is_like(self, other: Self) -> bool {
        self.sndbuf.is_some() == other.sndbuf.is_some()
            && self.rcvbuf.is_some() == other.rcvbuf.is_some()
    }
}

impl Totals {
    /// Returns what larger windows would help here. The kernel's own tuning reaches as far
    /// where it gives more than is wanted: another limit holds then, such as a size that the
    /// application has set.
    pub fn wants(&self, kernel: KernelBuffers) -> Wants {
        let Some(rtt_seconds) = self.rtt_seconds else { return Wants::default() };
        let is_beyond = |bytes_per_second: f64, kernel_bytes: u64| {
            let bdp_bytes = BUFFER_GROWTH * bytes_per_second * rtt_seconds;
            auto_buffer_bytes(bdp_bytes).saturating_mul(2) > kernel_bytes
        };
        let want = |now: f64, next: f64| match (now >= LEAST_SHARE, now + next >= LEAST_SHARE) {
            (true, _) => Some(Want::Now),
            (false, true) => Some(Want::Next),
            (false, false) => None,
        };
        let sndbuf = want(self.share(Limit::SendBuffer), self.share(Limit::PeerWindow));
        let rcvbuf = want(self.share(Limit::OwnWindow), self.part(self.nearly_filled_seconds));
        let (sent, received) = (self.sent, self.received);
        Wants {
            sndbuf: sndbuf
                .filter(|_| is_beyond(sent.fastest_bytes_per_second, kernel.sndbuf_bytes)),
            rcvbuf: rcvbuf
                .filter(|_| is_beyond(received.fastest_bytes_per_second, kernel.rcvbuf_bytes)),
        }
    }

    /// Returns the most that one connection got, in either direction.
    pub const fn fastest_bytes_per_second(&self) -> f64 {
        self.sent.fastest_bytes_per_second.max(self.received.fastest_bytes_per_second)
    }

    /// Returns the rate that a path is suggested for: what the fastest connection got, and
    /// room above that.
    pub fn bytes_per_second_with_room(&self, rtt_seconds: f64) -> f64 {
        // No buffer can be larger, and the configuration takes no more.
        let most_bytes_per_second =
            (MAX_BUFFER_BYTES as f64 / AUTO_HEADROOM / rtt_seconds).min(MAX_BITS_PER_SECOND / 8.0);
        (BUFFER_GROWTH * self.fastest_bytes_per_second()).min(most_bytes_per_second)
    }

    /// Says what would help all connections to a prefix.
    pub fn suggest(&self, remote: IpNet, kernel: KernelBuffers) -> Suggestion {
        let wants = self.wants(kernel);
        let path = self.rtt_seconds.filter(|_| wants.is_any()).map(|rtt_seconds| {
            let mut toml = String::new();
            write(&mut toml, (remote, rtt_seconds), self, wants).expect("text takes it");
            SuggestedPath { toml }
        });
        let mut notes = Vec::new();
        if self.share(Limit::PeerWindow) >= LEAST_SHARE {
            notes.push(evidence::of_other_end(self.local));
        }
        let limits = evidence::limits(self);
        if path.is_none()
            && let Some(first) = limits.first()
        {
            notes.extend(evidence::why_nothing(first.limit).map(str::to_owned));
        }
        Suggestion {
            remote: shown(remote),
            connections: self.connections,
            sent_bytes: self.sent.bytes as u64,
            received_bytes: self.received.bytes as u64,
            rtt_seconds: self.rtt_seconds,
            fastest_bits_per_second: 8.0 * self.fastest_bytes_per_second(),
            limits,
            path,
            notes,
        }
    }
}

/// Returns a prefix as the configuration takes it: an address by itself where it is one.
fn shown(remote: IpNet) -> String {
    if remote.prefix_len() == remote.max_prefix_len() {
        remote.addr().to_string()
    } else {
        remote.to_string()
    }
}

fn write(
    toml: &mut String,
    (remote, rtt_seconds): (IpNet, f64),
    totals: &Totals,
    wants: Wants,
) -> fmt::Result {
    let remote = shown(remote);
    let bytes_per_second = totals.bytes_per_second_with_room(rtt_seconds);
    writeln!(toml, "[[path]]\nname = \"{remote}\"\nremote = \"{remote}\"\nmode = \"measured\"")?;
    writeln!(toml, "# A window that limits hides what the path carries: to begin with, this is")?;
    writeln!(toml, "# {BUFFER_GROWTH} times what the fastest connection got.")?;
    writeln!(toml, "bandwidth = \"{}\"", rate(8.0 * bytes_per_second))?;
    writeln!(toml, "rtt = \"{}us\"", (rtt_seconds * 1e6).floor())?;
    for (key, want, next) in [
        ("sndbuf", wants.sndbuf, "the next limit, once the other end offers more"),
        ("rcvbuf", wants.rcvbuf, "the next limit, once the other end sends more"),
    ] {
        match want {
            Some(Want::Now) => writeln!(toml, "{key} = \"auto\"")?,
            Some(Want::Next) => writeln!(toml, "{key} = \"auto\"  # {next}")?,
            None => {}
        }
    }
    Ok(())
}

/// Two digits, rounded down, of a rate in bits per second, as the configuration takes it.
fn rate(bits_per_second: f64) -> String {
    let kilobits = (bits_per_second / 1e3).max(8.0);
    let step = 10_f64.powf(kilobits.log10().floor() - 1.0).max(1.0);
    let kilobits = (kilobits / step).floor() * step;
    if kilobits >= 1e6 {
        format!("{}Gbit", kilobits / 1e6)
    } else if kilobits >= 1e3 {
        format!("{}Mbit", kilobits / 1e3)
    } else {
        format!("{kilobits}kbit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_two_digits_and_its_unit() {
        let cases = [1.0, 9_900.0, 123_456.0, 1e6, 99.9e6, 1.46e9, 1e10, 9.99e12].map(rate);
        let shown =
            ["8kbit", "9kbit", "120kbit", "1Mbit", "99Mbit", "1.4Gbit", "10Gbit", "9900Gbit"];
        assert_eq!(cases, shown);
    }
}
