//! The log has one line for each tuned flow that ends: who with whom, for how long,
//! how fast, and what was changed. Levels: `info`, `debug` beyond
//! [`LINES_PER_SECOND`] and for flows that were left alone.

use wad_common::event::{Event, Kind};
use wad_instruments::Owner;
use wad_toolbox::refusals;

use super::{
    budget::Budget,
    shown::{duration_seconds, goodput_bits_per_second},
};

/// Flows that get a line at level `info`.
const LINES_PER_SECOND: u32 = 20;

/// Writes the summaries, within their budget.
#[derive(Debug)]
pub struct Summaries {
    budget: Budget,
}

impl Default for Summaries {
    fn default() -> Self {
        Self { budget: Budget::new(LINES_PER_SECOND) }
    }
}

impl Summaries {
    /// Logs a flow that closed, or left its path. `event` is of either kind.
    pub fn ended(&mut self, event: &Event, owner: &Owner, path: &str) {
        if event.flow.is_tuned() && self.budget.spend(event.time_ns) {
            summary!(info, event, owner, path);
        } else {
            summary!(debug, event, owner, path);
        }
    }

    /// Says how many flows got no line at level `info` since the last call; to be
    /// called every few seconds.
    pub fn report_held_back(&mut self) {
        match self.budget.take_held_back() {
            0 => {}
            flows => tracing::info!(flows, "more tuned flows closed than the log shows"),
        }
    }
}

/// The levels of tracing's macros are constants.
macro_rules! summary {
    ($level:ident, $event:expr, $owner:expr, $path:expr) => {{
        let (event, owner, path): (&Event, &Owner, &str) = ($event, $owner, $path);
        let (flow, seconds) = (&event.flow, duration_seconds(event));
        tracing::$level!(
            path,
            remote = %address(event.remote, event.remote_port),
            local = %address(event.local, event.local_port),
            role = role(flow.role),
            outcome = outcome(flow.outcome),
            refused = refusals::text(&refusals::of(&flow.refused)),
            seconds,
            sent_bytes = event.bytes_acked,
            received_bytes = event.bytes_received,
            goodput_bits_per_second = goodput_bits_per_second(event),
            segments_sent = event.data_segs_out,
            segments_retransmitted = event.segs_retrans,
            srtt_us = event.srtt_us,
            min_rtt_us = event.min_rtt_us,
            congestion_before = text(&flow.before.congestion),
            congestion = text(&flow.after.congestion),
            sndbuf_bytes_before = flow.before.sndbuf_bytes,
            sndbuf_bytes = flow.after.sndbuf_bytes,
            rcvbuf_bytes_before = flow.before.rcvbuf_bytes,
            rcvbuf_bytes = flow.after.rcvbuf_bytes,
            initial_window_segments_before = flow.before.cwnd_segments,
            initial_window_segments = flow.after.cwnd_segments,
            uid = owner.uid,
            pid = owner.pid,
            process = owner.process.as_deref(),
            unit = owner.place.unit.as_deref(),
            container = owner.place.container.as_deref(),
            namespace = owner.place.names.namespace.as_deref(),
            pod_name = owner.place.names.pod_name.as_deref(),
            container_name = owner.place.names.container_name.as_deref(),
            "{}",
            message(event.kind)
        );
    }};
}
use summary;
use wad_toolbox::shown::{address, outcome, role, text};

fn message(kind: u32) -> &'static str {
    if kind == Kind::Leave as u32 { "flow left its path" } else { "flow closed" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wad_common::{
        flow::{Outcome, Role},
        refused::SocketSetting,
    };
    use wad_instruments::testing::owner;
    use wad_tuning::bpf::testing::event;

    use super::*;
    use crate::log::testing::logged;

    #[test]
    fn a_flow_in_one_line() {
        let mut lines = logged("", || Summaries::default().ended(&event(), &owner(), "bob"));
        assert_eq!(lines.len(), 1);
        let line = lines[0].as_object_mut().unwrap();
        line.remove("timestamp");
        line.remove("target");
        let expected = json!({
            "level": "INFO",
            "message": "flow closed",
            "path": "bob",
            "remote": "10.5.128.74:5201",
            "local": "10.0.0.1:40000",
            "role": "connected",
            "outcome": "tuned",
            "seconds": 16.0,
            "sent_bytes": 1_000_000_000,
            "received_bytes": 1000,
            "goodput_bits_per_second": 499_987_500,
            "segments_sent": 690_608,
            "segments_retransmitted": 3,
            "srtt_us": 70_125,
            "min_rtt_us": 70_001,
            "congestion_before": "cubic",
            "congestion": "wad_aimd",
            "sndbuf_bytes_before": 16_384,
            "sndbuf_bytes": 7_502_478,
            "rcvbuf_bytes_before": 131_072,
            "rcvbuf_bytes": 13_143_798,
            "initial_window_segments_before": 10,
            "initial_window_segments": 24,
            "uid": 1_000,
            "pid": 4_711,
            "process": "globus-gridftp-",
            "unit": "globus.service",
        });
        assert_eq!(lines[0], expected);
    }

    #[test]
    fn beyond_the_rate_lines_are_counted_and_go_to_debug() {
        let many = || {
            let mut summaries = Summaries::default();
            for _ in 0..100 {
                summaries.ended(&event(), &owner(), "bob");
            }
            summaries.report_held_back();
            summaries.report_held_back();
        };
        let lines = logged("", many);
        assert_eq!(lines.len(), 21);
        assert_eq!(lines[20]["flows"], 80);
        let lines = logged("debug", many);
        assert_eq!(lines.iter().filter(|line| line["level"] == "DEBUG").count(), 80);
    }

    #[test]
    fn the_book_says_how_many_and_turns_them_off_alone() {
        let page = include_str!("../../../../docs/src/install.md");
        assert!(page.contains(&format!("at most {LINES_PER_SECOND} in a second")));
        let directive = "info,wad::events::summary=warn";
        assert!(page.contains(&format!("`WAD_LOG={directive}`")));
        let lines = logged(directive, || {
            let mut summaries = Summaries::default();
            (0..100).for_each(|_| summaries.ended(&event(), &owner(), "bob"));
            summaries.report_held_back();
            tracing::info!(target: "wad_observing::events", "another line");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn a_flow_that_left_is_not_said_to_have_closed() {
        let mut left = event();
        left.kind = Kind::Leave as u32;
        left.flow.role = Role::Running as u32;
        let lines = logged("", || Summaries::default().ended(&left, &owner(), "(removed)"));
        assert_eq!(lines[0]["message"], "flow left its path");
        assert_eq!(lines[0]["role"], "running");
    }

    #[test]
    fn what_was_refused_is_named_where_anything_was() {
        let mut refused = event();
        refused.flow.refused.note(SocketSetting::Pacing, Err(-libc::EINVAL));
        let lines = logged("", || Summaries::default().ended(&refused, &owner(), "bob"));
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(lines[0]["refused"], "pacing (EINVAL)");
    }

    #[test]
    fn flows_left_alone_are_no_news_and_cost_nothing() {
        let mut untuned = event();
        for (outcome, level) in
            [(Outcome::Observed, "DEBUG"), (Outcome::TooMany, "DEBUG"), (Outcome::Tuned, "INFO")]
        {
            untuned.flow.outcome = outcome as u32;
            let lines = logged("debug", || Summaries::default().ended(&untuned, &owner(), "bob"));
            assert_eq!(lines[0]["level"], level);
        }
        untuned.flow.outcome = Outcome::TooMany as u32;
        let mut summaries = Summaries::default();
        (0..100).for_each(|_| summaries.ended(&untuned, &owner(), "bob"));
        assert_eq!(logged("", || summaries.report_held_back()).len(), 0);
    }
}
