//! What was seen of one transfer, and the figures made of it. Times are
//! CLOCK_MONOTONIC nanoseconds.

use std::{fs, io};

use super::{
    measure::{Series, Sight},
    report::{Emulator, Point, Sample},
    run::LabError,
    scenario::{Scenario, Variant},
    wan::Wan,
};

const SECOND_NS: u64 = 1_000_000_000;
/// `wad`'s own algorithms. Those of an instance for tests, as here, have a
/// suffix after the name.
const OWN_ALGORITHMS: [&str; 1] = ["wad_aimd"];

/// One transfer.
#[derive(Debug)]
pub struct Record {
    pub started_ns: u64,
    /// The client's own figure, in bits per second, where it gives no `series`.
    pub goodput: Option<f64>,
    pub series: Series,
    /// What ss saw at the sender...
    pub sights: Vec<Sight>,
    /// ...and at the receiver.
    pub far_sights: Vec<Sight>,
}

impl Record {
    /// The congestion control, and the figures.
    ///
    /// # Errors
    /// When no flow was seen, or counters cannot be read.
    pub fn sample(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        wan: &Wan,
    ) -> Result<(String, Sample), LabError> {
        let flow = busiest(&self.sights).ok_or(LabError::Unseen)?;
        let far_flow = busiest(&self.far_sights).ok_or(LabError::Unseen)?;
        let seen = self.sights.iter().flat_map(|sight| &sight.flows);
        let send_window_bytes = seen.map(|flow| flow.send_window_bytes).max().unwrap_or(0);
        let end_ns = self.started_ns + u64::from(scenario.seconds) * SECOND_NS;
        let [forward, reverse] = wan.counters()?;
        let loss_ns = Some(forward.first_planned_drop_ns).filter(|time_ns| *time_ns > 0);
        let sample = Sample {
            goodput_bits_per_second: self
                .goodput
                .unwrap_or_else(|| self.series.goodput(self.started_ns, end_ns)),
            goodput_after_3_seconds_bits_per_second: self
                .series
                .goodput(self.started_ns + 3 * SECOND_NS, end_ns),
            goodput_after_loss_bits_per_second: loss_ns
                .map(|time_ns| self.series.goodput(time_ns, time_ns + 10 * SECOND_NS)),
            retransmits: wan.a().run(retransmits)?.map_err(LabError::Counters)?,
            registered_congestion: flow.congestion.clone(),
            sndbuf_bytes: flow.sndbuf_bytes,
            rcvbuf_bytes: far_flow.rcvbuf_bytes,
            send_window_bytes,
            emulator: Emulator { forward, reverse },
            series: self.points(end_ns, variant.streams),
        };
        Ok((algorithm(&flow.congestion).to_owned(), sample))
    }

    /// The transfer over time, until the sender stops.
    fn points(&self, end_ns: u64, streams: u32) -> Vec<Point> {
        let mut before_ns = self.started_ns;
        let mut points = Vec::new();
        for sight in self.sights.iter().filter(|sight| sight.time_ns <= end_ns) {
            let Some(flow) = sight.with_data(streams).next() else { continue };
            points.push(Point {
                seconds: sight.time_ns.saturating_sub(self.started_ns) as f64 / 1e9,
                cwnd_segments: sight.cwnd(streams),
                rtt_milliseconds: flow.rtt_ms,
                goodput_bits_per_second: self.series.goodput(before_ns, sight.time_ns),
            });
            before_ns = sight.time_ns;
        }
        points
    }
}

/// An algorithm's name, whatever the instance.
fn algorithm(registered: &str) -> &str {
    let own = OWN_ALGORITHMS.into_iter().find(|own| registered.starts_with(own));
    own.unwrap_or(registered)
}

/// The flow that moved the most, as it was seen last.
fn busiest(sights: &[Sight]) -> Option<&crate::ss::Flow> {
    let flows = sights.iter().flat_map(|sight| &sight.flows);
    flows.max_by_key(|flow| flow.bytes_acked.max(flow.bytes_received))
}

/// Segments that the calling thread's namespace has sent again, since it exists:
/// `RetransSegs` in the two lines on TCP of /proc/net/snmp.
fn retransmits() -> io::Result<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let pair = lines.next().zip(lines.next());
    pair.and_then(|(names, values)| {
        let mut fields = names.split(' ').zip(values.split(' '));
        fields.find_map(|(name, value)| (name == "RetransSegs").then(|| value.parse().ok())?)
    })
    .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_does_not_change_the_algorithm() {
        assert_eq!(
            ["wad_aimd", "wad_aimd7k", "cubic"].map(algorithm),
            ["wad_aimd", "wad_aimd", "cubic"]
        );
    }
}
