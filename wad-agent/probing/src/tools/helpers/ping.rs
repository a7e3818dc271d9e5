//! The ping of iputils, as it speaks where LC_ALL is C.

use super::{Helper, HelperError};
use crate::{
    measurement::{Measurement, RoundTrips, Share},
    tools::{Ping, Target, headers::header_bytes},
};

const MEMORY_BYTES: u64 = 256 << 20;
/// A line for each echo, and some more.
const LINE_BYTES: usize = 200;
const MORE_BYTES: usize = 64 << 10;

impl Ping {
    pub fn most_bytes(&self, is_v6: bool) -> u64 {
        let each = header_bytes(is_v6) + u64::from(self.payload_bytes);
        2 * each * u64::from(self.count.get())
    }

    fn helper(&self, to: &Target) -> Helper {
        let mut arguments = vec!["-n".to_owned()];
        arguments.push(if to.address.is_ipv6() { "-6" } else { "-4" }.to_owned());
        let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        option("-c", self.count.to_string());
        option("-i", self.interval.as_secs_f64().to_string());
        option("-s", self.payload_bytes.to_string());
        option("-W", self.wait.as_secs_f64().to_string());
        if let Some(interface) = &to.interface {
            option("-I", interface.clone());
        }
        if let Some(mark) = to.mark {
            option("-m", mark.to_string());
        }
        arguments.push(to.address.to_string());
        Helper {
            program: "ping".into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: Vec::new(),
            memory_bytes: MEMORY_BYTES,
            output_bytes: LINE_BYTES * usize::from(self.count.get()) + MORE_BYTES,
        }
    }
}

pub async fn run(ping: &Ping, to: &Target) -> Result<Measurement, HelperError> {
    let helper = ping.helper(to);
    let ended = helper.run().await?;
    // It ends with 1 where nothing came back, and with 2 for anything else.
    let Some(found) = read(&String::from_utf8_lossy(&ended.output)) else {
        return Err(ended.failed(&helper));
    };
    if found.came == 0 {
        return Err(ended.failed(&helper));
    }
    let each = header_bytes(to.address.is_ipv6()) + u64::from(ping.payload_bytes);
    Ok(Measurement {
        rtt: RoundTrips::of(found.seconds),
        loss: Some(Share { part: found.sent - found.came, whole: found.sent }),
        reordering: Some(Share { part: found.reordered, whole: found.came }),
        spent_bytes: (found.sent + found.came) * each,
        ..Measurement::default()
    })
}

/// A summary of what ping tells.
#[derive(Debug, PartialEq)]
pub struct Found {
    pub sent: u64,
    pub came: u64,
    pub reordered: u64,
    pub seconds: Vec<f64>,
}

/// Reads it; None where there is no summary that can be.
pub fn read(text: &str) -> Option<Found> {
    let (mut seconds, mut reordered, mut next_expected) = (Vec::new(), 0, 0);
    let mut counts = None;
    for line in text.lines() {
        if let Some(summary) = summary(line) {
            counts = Some(summary);
        } else if let Some((number, time)) = echo(line) {
            seconds.push(time);
            if number < next_expected {
                reordered += 1;
            } else {
                next_expected = number + 1;
            }
        }
    }
    let (sent, came) = counts.filter(|(sent, came)| came <= sent)?;
    let reordered = Some(reordered).filter(|reordered| *reordered <= came)?;
    Some(Found { sent, came, reordered, seconds })
}

/// Reads "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.045 ms"; not those that came
/// before.
fn echo(line: &str) -> Option<(u64, f64)> {
    if line.contains("(DUP!)") {
        return None;
    }
    let (_, rest) = line.split_once("bytes from ")?;
    let field = |name| rest.split_whitespace().find_map(|word: &str| word.strip_prefix(name));
    let number = field("icmp_seq=")?.parse::<u32>().ok()?;
    let milliseconds: f64 = field("time=")?.parse().ok()?;
    let is_possible = milliseconds.is_finite() && milliseconds >= 0.0;
    is_possible.then_some((number.into(), milliseconds / 1e3))
}

/// Reads "5 packets transmitted, 4 received, +1 errors, 20% packet loss, time 4005ms".
fn summary(line: &str) -> Option<(u64, u64)> {
    let (sent, rest) = line.split_once(" packets transmitted, ")?;
    let (came, _) = rest.split_once(" received")?;
    Some((sent.parse().ok()?, came.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
PING 10.77.0.2 (10.77.0.2) 56(84) bytes of data.
64 bytes from 10.77.0.2: icmp_seq=1 ttl=64 time=20.1 ms
64 bytes from 10.77.0.2: icmp_seq=3 ttl=64 time=20.0 ms
64 bytes from 10.77.0.2: icmp_seq=2 ttl=64 time=30.0 ms
64 bytes from 10.77.0.2: icmp_seq=3 ttl=64 time=31.5 ms (DUP!)

--- 10.77.0.2 ping statistics ---
5 packets transmitted, 3 received, +1 duplicates, +1 errors, 40% packet loss, time 4004ms
rtt min/avg/max/mdev = 20.0/23.3/30.0/0.100 ms
";

    #[test]
    fn what_it_says_is_read() {
        let seconds = vec![0.0201, 0.02, 0.03];
        assert_eq!(read(TEXT), Some(Found { sent: 5, came: 3, reordered: 1, seconds }));
    }

    #[test]
    fn echoes_of_ipv6_and_of_no_time_are_read_as_far_as_they_go() {
        let line = "64 bytes from fd77::2: icmp_seq=7 ttl=64 time=0.5 ms";
        assert_eq!(echo(line), Some((7, 0.0005)));
        // Too short for a time stamp.
        assert_eq!(echo("8 bytes from 10.77.0.2: icmp_seq=1 ttl=64"), None);
        assert_eq!(echo("From 10.77.0.1 icmp_seq=1 Destination Host Unreachable"), None);
    }

    #[test]
    fn what_is_no_summary_is_nothing() {
        for text in [
            "",
            "ping: connect: Network is unreachable",
            "4 packets transmitted, 5 received, 0% packet loss, time 1ms",
            "x packets transmitted, 5 received",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
