//! This module reads what `ss -tinm` says of TCP flows: the witness from outside.
//! Windows count segments, times are in milliseconds, as ss prints them.

use std::{net::SocketAddr, process::Command, str::FromStr};

use crate::process::{ProcessError, run_command};

/// One flow, as ss printed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// Name of the congestion control.
    pub congestion: String,
    pub cwnd_segments: u32,
    /// The slow start threshold; none as long as it is infinite, when ss leaves it out.
    pub ssthresh_segments: Option<u32>,
    pub rtt_ms: f64,
    pub rtt_variation_ms: f64,
    pub min_rtt_ms: f64,
    /// Maximum segment size, in bytes.
    pub mss_bytes: u32,
    /// Window scales: the peer's, applied to what it offers, and this host's.
    /// None where either end had none to offer.
    pub window_scales: Option<(u8, u8)>,
    /// Segments sent and neither acknowledged nor taken for lost.
    pub unacked_segments: u32,
    /// Segments retransmitted and not acknowledged yet.
    pub retransmits_out: u32,
    /// Segments retransmitted since the start.
    pub retransmits: u64,
    /// Segments known to have arrived, in order or not.
    pub delivered_segments: u64,
    /// The reordering that TCP allows for; none while it is 3, as TCP begins with.
    pub reordering_segments: Option<u32>,
    /// BBR's gain of its pacing rate over the bandwidth it sees.
    pub pacing_gain: Option<f64>,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    /// The window that the peer offers.
    pub send_window_bytes: u64,
    /// The rate that a flow is paced at, if it is: the kernel reckons it for all.
    pub pacing_bits_per_second: u64,
    /// Limit of the send buffer: sk_sndbuf, twice what SO_SNDBUF was given.
    pub sndbuf_bytes: u64,
    /// Limit of the receive buffer: sk_rcvbuf, twice what SO_RCVBUF was given.
    pub rcvbuf_bytes: u64,
    /// The bytes that were received and not read.
    pub receive_queue_bytes: u64,
    /// The bytes that were written and not acknowledged.
    pub send_queue_bytes: u64,
    /// The words that were printed after the addresses.
    words: Vec<String>,
}

impl Flow {
    /// Returns the number that ss printed as `name:number`, without its unit, or in a
    /// word of its own after the name. What is zero ss leaves out.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        let mut words = self.words.iter();
        let text =
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':')).or_else(|| {
                let mut words = self.words.iter();
                words.find(|word| *word == name).and_then(|_| words.next().map(String::as_str))
            })?;
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        text[..end.unwrap_or(text.len())].parse().ok()
    }
}

/// Returns the established flows that an ss filter (such as `dport = :5001`) selects,
/// in the network namespace of the calling thread.
///
/// # Errors
/// When ss fails.
pub fn flows(filter: &str) -> Result<Vec<Flow>, ProcessError> {
    let mut command = Command::new("ss");
    command.args(["-tinmHO", "state", "established", filter]);
    Ok(parse(&run_command(&mut command)?))
}

/// Returns the flows in the output of `ss -tinmHO state established`.
#[must_use]
pub fn parse(output: &str) -> Vec<Flow> {
    output.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Flow> {
    let mut words = line.split_whitespace();
    // The state is not printed where it is filtered for.
    let (receive_queue, send_queue) = (words.next()?, words.next()?);
    let (local, peer) = (words.next()?, words.next()?);
    let words: Vec<&str> = words.collect();
    let field =
        |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let number = |name| field(name).and_then(|value| value.parse().ok());
    // "in flight now/in all"
    let (retransmits_out, retransmits) =
        field("retrans").and_then(|value| pair(value, '/')).unwrap_or((0, 0));
    // None is shown before the first sample.
    let (rtt_ms, rtt_variation_ms) =
        field("rtt").and_then(|value| pair(value, '/')).unwrap_or((0.0, 0.0));
    Some(Flow {
        local: address(local)?,
        peer: address(peer)?,
        congestion: congestion(&words)?.to_owned(),
        cwnd_segments: field("cwnd")?.parse().ok()?,
        ssthresh_segments: field("ssthresh").and_then(|value| value.parse().ok()),
        rtt_ms,
        rtt_variation_ms,
        min_rtt_ms: field("minrtt").and_then(|value| value.parse().ok()).unwrap_or(0.0),
        mss_bytes: field("mss")?.parse().ok()?,
        window_scales: field("wscale").and_then(|value| pair(value, ',')),
        unacked_segments: field("unacked").and_then(|value| value.parse().ok()).unwrap_or(0),
        retransmits_out,
        retransmits,
        delivered_segments: number("delivered").unwrap_or(0),
        reordering_segments: field("reordering").and_then(|value| value.parse().ok()),
        pacing_gain: words.iter().find_map(|word| pacing_gain(word)),
        bytes_acked: number("bytes_acked").unwrap_or(0),
        bytes_received: number("bytes_received").unwrap_or(0),
        send_window_bytes: number("snd_wnd").unwrap_or(0),
        pacing_bits_per_second: rate(&words, "pacing_rate").unwrap_or(0),
        sndbuf_bytes: memory(&words, "tb")?,
        rcvbuf_bytes: memory(&words, "rb")?,
        receive_queue_bytes: receive_queue.parse().ok()?,
        send_queue_bytes: send_queue.parse().ok()?,
        words: words.into_iter().map(str::to_owned).collect(),
    })
}

/// Reads a rate, which stands in a word of its own: with -n in bits per second, and
/// before its bound if it has one ("47500000bps/48000000bps").
fn rate(words: &[&str], name: &str) -> Option<u64> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1)?.split("bps").next()?.parse().ok()
}

fn pair<A: FromStr, B: FromStr>(text: &str, between: char) -> Option<(A, B)> {
    let (first, second) = text.split_once(between)?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// Reads an address; IPv4 mapped into IPv6 (a dual-stack socket) is given as IPv4. A
/// device that the socket is bound to (`10.0.0.1%wan0:80`) is left out.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    let host = host.split_once('%').map_or(host, |(host, _device)| host);
    let host: std::net::IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(host.to_canonical(), port.parse().ok()?))
}

/// Finds the name of the algorithm, which is a bare word; others (`ts sack ecn`) come
/// before it, the first `name:value` after it.
fn congestion<'a>(words: &[&'a str]) -> Option<&'a str> {
    let first = words.iter().position(|word| word.starts_with("skmem:")).map_or(0, |at| at + 1);
    let rest = &words[first..];
    let end = rest.iter().position(|word| word.contains(':'))?;
    rest[..end].last().copied()
}

/// Reads the pacing gain from
/// `bbr:(bw:602Mbps,mrtt:80.1,pacing_gain:2.88672,cwnd_gain:2.88672)`.
fn pacing_gain(word: &str) -> Option<f64> {
    let list = word.strip_prefix("bbr:(")?.trim_end_matches(')');
    list.split(',').find_map(|field| field.strip_prefix("pacing_gain:")?.parse().ok())
}

/// Returns a field of `skmem:(r0,rb131072,t0,tb87040,...)`.
fn memory(words: &[&str], name: &str) -> Option<u64> {
    let list = words.iter().find_map(|word| word.strip_prefix("skmem:("))?;
    list.trim_end_matches(')').split(',').find_map(|field| field.strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "0 4194304 10.77.0.1:40716 10.77.0.2:5001 \
        skmem:(r0,rb131072,t0,tb8388608,f2048,w4196352,o0,bl0,d0) ts sack cubic wscale:9,7 \
        rto:276 rtt:75.2/0.4 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:4096 ssthresh:2047 \
        bytes_sent:9000 bytes_acked:8000 segs_out:6 segs_in:5 data_segs_out:5 send 632Mbps \
        lastsnd:4 lastrcv:1000 lastack:4 pacing_rate 758000000bps/760000000bps delivery_rate 349Mbps busy:900ms \
        delivered:2990 unacked:3 retrans:0/17 rcv_space:14480 rcv_ssthresh:64088 notsent:1 minrtt:70.1 \
        snd_wnd:3145728";

    #[test]
    fn reads_a_line_of_ss() {
        let flow = &parse(LINE)[0];
        assert_eq!(flow.congestion, "cubic");
        assert_eq!(flow.peer, "10.77.0.2:5001".parse().unwrap());
        assert_eq!((flow.cwnd_segments, flow.ssthresh_segments), (4096, Some(2047)));
        assert_eq!((flow.retransmits_out, flow.retransmits, flow.unacked_segments), (0, 17, 3));
        assert_eq!((flow.delivered_segments, flow.pacing_gain), (2990, None));
        assert_eq!(flow.reordering_segments, None);
        let line = LINE.replace("rcv_space", "reordering:19 rcv_space");
        assert_eq!(parse(&line)[0].reordering_segments, Some(19));
        assert_eq!(flow.window_scales, Some((9, 7)));
        assert_eq!((flow.rcvbuf_bytes, flow.sndbuf_bytes), (131_072, 8_388_608));
        assert_eq!((flow.bytes_acked, flow.send_window_bytes), (8000, 3_145_728));
        assert_eq!(flow.pacing_bits_per_second, 758_000_000);
        assert_eq!((flow.receive_queue_bytes, flow.send_queue_bytes), (0, 4_194_304));
        assert_eq!((flow.number("busy"), flow.number("rto")), (Some(900.0), Some(276.0)));
        assert_eq!((flow.number("pacing_rate"), flow.number("nothing")), (Some(758e6), None));
        assert!((flow.rtt_ms - 75.2).abs() < 1e-9 && (flow.min_rtt_ms - 70.1).abs() < 1e-9);
    }

    #[test]
    fn reads_what_bbr_says() {
        let line = LINE.replace("cubic", "bbr").replace(
            "send 632Mbps",
            "bbr:(bw:602Mbps,mrtt:80.1,pacing_gain:2.88672,cwnd_gain:2.88672) send 632Mbps",
        );
        let flow = &parse(&line)[0];
        assert_eq!(flow.congestion, "bbr");
        assert!(flow.pacing_gain.is_some_and(|gain| (gain - 2.88672).abs() < 1e-9));
    }

    #[test]
    fn reads_mapped_and_bound_addresses() {
        assert_eq!(address("[::ffff:10.0.0.1]:80"), Some("10.0.0.1:80".parse().unwrap()));
        assert_eq!(address("[fd77::1]:80"), Some("[fd77::1]:80".parse().unwrap()));
        assert_eq!(address("10.0.0.1%wan0:80"), Some("10.0.0.1:80".parse().unwrap()));
    }

    #[test]
    fn skips_what_it_cannot_read() {
        assert_eq!(parse("\ngarbage\n0 0 a b\n"), []);
    }
}
