//! iperf3 as a client, whose JSON is read by what is there: versions 3.12 to 3.21 differ
//! in their fields.

use serde::Deserialize;
use serde_json::value::RawValue;
use wad_common::probe::USER_TIMEOUT_MS;
use wad_policy::config::Iperf3Settings;

use super::{Helper, HelperError};
use crate::{
    measurement::{Bandwidth, Confidence, Measurement, RoundTrips, Share},
    tools::Target,
};

/// Since 3.16 each stream has a thread, with its arena.
const MEMORY_BYTES: u64 = 2 << 30;
const OUTPUT_BYTES: usize = 16 << 20;
const CONNECT_MS: u32 = 5_000;
/// A rate this near to the most that it was told to send was not the path's.
const IS_TOLD: f64 = 0.95;

/// Returns the rate of each stream that keeps a run within its bytes.
fn stream_bits_per_second(iperf3: &Iperf3Settings, to: &Target) -> u64 {
    let seconds = iperf3.time.as_secs_f64().max(1.0);
    let bits = 8.0 * to.max_bytes as f64 / seconds / f64::from(iperf3.streams.get());
    let most = (bits as u64).max(1);
    iperf3.udp_bits_per_second.map_or(most, |told| most.min(told))
}

fn helper(iperf3: &Iperf3Settings, to: &Target) -> Helper {
    let mut arguments = vec!["--json".to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--client", to.address.to_string());
    option("--port", iperf3.port.to_string());
    option("--time", iperf3.time.as_secs_f64().ceil().to_string());
    option("--parallel", iperf3.streams.to_string());
    option("--bitrate", stream_bits_per_second(iperf3, to).to_string());
    option("--connect-timeout", CONNECT_MS.to_string());
    // It is TCP_USER_TIMEOUT, by which its flows are known as a probe's.
    option("--snd-timeout", USER_TIMEOUT_MS.to_string());
    if let Some(interface) = &to.interface {
        option("--bind-dev", interface.clone());
    }
    if let Some(congestion) = &iperf3.congestion {
        option("--congestion", congestion.clone());
    }
    if iperf3.udp_bits_per_second.is_some() {
        arguments.push("--udp".to_owned());
    }
    if iperf3.is_reverse {
        arguments.push("--reverse".to_owned());
    }
    Helper {
        program: "iperf3".into(),
        arguments: arguments.into_iter().map(Into::into).collect(),
        variables: Vec::new(),
        memory_bytes: MEMORY_BYTES,
        output_bytes: OUTPUT_BYTES,
    }
}

pub async fn run(iperf3: &Iperf3Settings, to: &Target) -> Result<Measurement, HelperError> {
    if to.mark.is_some() {
        return Err(HelperError::Mark { program: "iperf3" });
    }
    let helper = helper(iperf3, to);
    let ended = helper.run().await?;
    let program = || helper.name();
    match read(&ended.output) {
        Ok(mut found) => {
            let told = stream_bits_per_second(iperf3, to) * u64::from(iperf3.streams.get());
            if let Some(bandwidth) = &mut found.bandwidth
                && bandwidth.bits_per_second >= IS_TOLD * told as f64
            {
                bandwidth.confidence = Confidence::ApplicationLimited;
            }
            Ok(found)
        }
        Err(Wrong::Said(reason)) if reason.contains("busy") || reason.contains("denied") => {
            Err(HelperError::Refused { program: program(), reason })
        }
        Err(Wrong::Said(said)) => {
            Err(HelperError::Ended { program: program(), status: ended.status, said })
        }
        Err(_) if !ended.status.success() => Err(ended.failed(&helper)),
        Err(Wrong::Unreadable(reason)) => {
            Err(HelperError::Unreadable { program: program(), reason })
        }
    }
}

/// Says why there is no result.
#[derive(Debug, PartialEq)]
pub enum Wrong {
    /// iperf3 says it.
    Said(String),
    Unreadable(String),
}

#[derive(Deserialize)]
struct Document {
    error: Option<String>,
    #[serde(default)]
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    end: Option<End>,
}

#[derive(Default, Deserialize)]
struct Start {
    tcp_mss_default: Option<f64>,
}

#[derive(Deserialize)]
struct Interval {
    #[serde(default)]
    streams: Vec<Moment>,
}

#[derive(Deserialize)]
struct Moment {
    /// Microseconds; 0 where it is not known.
    rtt: Option<f64>,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    /// Over UDP.
    sum: Option<Sum>,
    sender_tcp_congestion: Option<String>,
}

#[derive(Deserialize)]
struct Stream {
    udp: Option<Udp>,
}

#[derive(Deserialize)]
struct Udp {
    out_of_order: Option<f64>,
}

#[derive(Deserialize)]
struct Sum {
    bytes: Option<f64>,
    bits_per_second: Option<f64>,
    retransmits: Option<f64>,
    lost_packets: Option<f64>,
    packets: Option<f64>,
}

/// Reads its document.
pub fn read(bytes: &[u8]) -> Result<Measurement, Wrong> {
    let unreadable = |reason: &dyn std::fmt::Display| Wrong::Unreadable(reason.to_string());
    let document: Document = document(bytes).map_err(|error| unreadable(&error))?;
    if let Some(error) = document.error {
        return Err(Wrong::Said(error.trim_start_matches("error - ").to_owned()));
    }
    let end = document.end.ok_or_else(|| unreadable(&"it has no `end`"))?;
    // What arrived counts; a server that was not heard of to the end says nothing of it.
    let received = end.sum_received.as_ref().and_then(|sum| possible(sum.bits_per_second));
    let udp = end.sum.as_ref().and_then(|sum| possible(sum.bits_per_second));
    let rate = received.filter(|rate| *rate > 0.0).or(udp).filter(|rate| *rate > 0.0);
    let bits_per_second = rate.ok_or_else(|| unreadable(&"it says nothing of what arrived"))?;
    let sent = end.sum_sent.as_ref().or(end.sum.as_ref());
    let moments = document.intervals.iter().flat_map(|interval| &interval.streams);
    let seconds = moments.filter_map(|moment| possible(moment.rtt)).map(|rtt_us| rtt_us / 1e6);
    let segments = sent.and_then(|sum| count(sum.retransmits));
    let segment_bytes = count(document.start.tcp_mss_default);
    let loss = [&end.sum_received, &end.sum].into_iter().flatten().find_map(|sum| {
        let (part, whole) = count(sum.lost_packets).zip(count(sum.packets))?;
        (part <= whole && whole > 0).then_some(Share { part, whole })
    });
    let late = end.streams.iter().filter_map(|stream| stream.udp.as_ref()?.out_of_order);
    let reordering = loss.and_then(|loss| {
        let (part, whole) =
            (late.map(|late| count(Some(late))).sum::<Option<u64>>()?, loss.whole - loss.part);
        (part <= whole && whole > 0).then_some(Share { part, whole })
    });
    let bandwidth = Bandwidth {
        bits_per_second,
        // Time is what ends it.
        confidence: Confidence::Capped,
        loaded_rtt: RoundTrips::of(seconds.filter(|rtt| *rtt > 0.0).collect()),
        retransmitted_bytes: segments.zip(segment_bytes).map(|(n, bytes)| n.saturating_mul(bytes)),
        congestion: end.sender_tcp_congestion,
        held_up: None,
    };
    Ok(Measurement {
        loss,
        reordering,
        bandwidth: Some(bandwidth),
        spent_bytes: sent.and_then(|sum| count(sum.bytes)).unwrap_or_default(),
        ..Measurement::default()
    })
}

/// Reads the first document: before 3.17 a broken run may print an error behind it.
fn document(bytes: &[u8]) -> serde_json::Result<Document> {
    let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Box<RawValue>>();
    let empty = || <serde_json::Error as serde::de::Error>::custom("nothing");
    let first = documents.next().ok_or_else(empty)??;
    serde_json::from_str(first.get())
}

fn possible(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

/// Counts that no double holds are none.
fn count(number: Option<f64>) -> Option<u64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    possible(number).filter(|number| *number <= MOST).map(|number| number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(document: &Value) -> Result<Measurement, Wrong> {
        read(document.to_string().as_bytes())
    }

    #[test]
    fn what_arrived_over_tcp_is_the_bandwidth() {
        let document = json!({
            "start": {"version": "iperf 3.12", "tcp_mss_default": 1448},
            "intervals": [{"streams": [{"rtt": 20_500, "rttvar": 7}], "sum": {}},
                          {"streams": [{"rtt": 30_500}]}, {"streams": [{"socket": 5}]}],
            "end": {"streams": [{"sender": {"min_rtt": 20_000}, "receiver": {}}],
                    "sum_sent": {"bytes": 1_000_000, "bits_per_second": 9e8, "retransmits": 3},
                    "sum_received": {"bytes": 990_000, "bits_per_second": 8.5e8},
                    "sender_tcp_congestion": "bbr"},
        });
        let found = of(&document).unwrap();
        let bandwidth = found.bandwidth.unwrap();
        assert_eq!((bandwidth.bits_per_second, found.spent_bytes), (8.5e8, 1_000_000));
        assert_eq!(bandwidth.retransmitted_bytes, Some(3 * 1448));
        assert_eq!(bandwidth.congestion.as_deref(), Some("bbr"));
        let rtt = bandwidth.loaded_rtt.unwrap();
        assert_eq!((rtt.samples, rtt.min_seconds, rtt.max_seconds), (2, 0.0205, 0.0305));
        assert_eq!((found.loss, found.reordering), (None, None));
    }

    #[test]
    fn udp_tells_of_losses_in_either_place() {
        let sum = json!({"bytes": 7000, "bits_per_second": 1e6, "lost_packets": 2, "packets": 100});
        let streams = json!([{"udp": {"out_of_order": 1}}, {"udp": {"out_of_order": 2}}]);
        // 3.12, and 3.17 and later.
        let old = json!({"end": {"streams": streams, "sum": sum}});
        let new = json!({"end": {"streams": streams, "sum": sum, "sum_received": sum,
                                 "sum_sent": {"bytes": 7000, "packets": 100}}});
        for document in [old, new] {
            let found = of(&document).unwrap();
            assert_eq!(found.loss, Some(Share { part: 2, whole: 100 }));
            assert_eq!(found.reordering, Some(Share { part: 3, whole: 98 }));
            assert_eq!((found.bandwidth.unwrap().bits_per_second, found.spent_bytes), (1e6, 7000));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |error| of(&json!({"start": {}, "end": {}, "error": error})).unwrap_err();
        let busy = "the server is busy running a test. try again later";
        assert_eq!(said(format!("error - {busy}")), Wrong::Said(busy.to_owned()));
        for document in [
            json!([]),
            json!({}),
            json!({"end": {}}),
            json!({"end": {"sum_received":
            {"bits_per_second": -1}}}),
            json!({"end": {"sum_received": {"bits_per_second": "9"}}}),
        ] {
            assert!(matches!(of(&document), Err(Wrong::Unreadable(_))), "{document}");
        }
        assert!(matches!(read(b""), Err(Wrong::Unreadable(_))));
        // An error behind the document.
        let text = br#"{"end": {"sum_received": {"bits_per_second": 5}}} iperf3: error"#;
        assert_eq!(read(text).unwrap().bandwidth.unwrap().bits_per_second, 5.0);
    }
}
