//! A flow that has closed, as an experiment takes it.

use std::{sync::LazyLock, time::Duration};

use wad_common::{
    event::Event,
    flow::{Outcome, Role},
    progress::Limits,
};
use wad_evidence::{
    metric::{FlowEnd, Kind},
    plan::Arm,
};
use wad_linux::tick::tick;

use crate::wall_clock;

/// Kernels of distributions have ticks of so long, if this one does not tell.
static TICK: LazyLock<Duration> = LazyLock::new(|| tick().unwrap_or(Duration::from_millis(4)));

/// Returns what its path gave a flow.
pub const fn arm_of(event: &Event) -> Arm {
    if event.flow.outcome == Outcome::Tuned as u32 { Arm::Tuned } else { Arm::Default }
}

/// Returns what a flow shows; None of one that was not seen from its beginning.
pub fn ended(event: &Event, kind: Kind) -> Option<FlowEnd> {
    let flow = &event.flow;
    if flow.role == Role::Running as u32 || flow.established_ns == 0 {
        return None;
    }
    let Limits { busy_ticks, rwnd_ticks, sndbuf_ticks } = event.limits.settled();
    let [busy, rwnd, sndbuf] = [busy_ticks, rwnd_ticks, sndbuf_ticks].map(f64::from);
    let all = busy + rwnd + sndbuf;
    let least_rtt = if event.min_rtt_us == u32::MAX { 0 } else { event.min_rtt_us };
    let bytes = |segments: u32| u64::from(segments) * u64::from(event.mss_bytes);
    Some(FlowEnd {
        kind,
        began: wall_clock::at(flow.matched_ns)?,
        ended: wall_clock::at(event.time_ns)?,
        bytes_acked: event.bytes_acked,
        bytes_sent: bytes(event.data_segs_out),
        bytes_resent: bytes(event.segs_retrans),
        // What is over within a tick takes half of one in the mean.
        active: TICK.mul_f64(all.max(0.5)),
        srtt: Duration::from_micros(event.srtt_us.into()),
        min_rtt: Duration::from_micros(least_rtt.into()),
        held_up: if all > 0.0 { rwnd / all } else { 0.0 },
        mss_bytes: event.mss_bytes,
    })
}

#[cfg(test)]
mod tests {
    use wad_tuning::bpf::testing::event;

    use super::*;

    #[test]
    fn a_flow_shows_its_time_at_work_and_who_held_it_up() {
        let event = event();
        let flow = ended(&event, Kind::Own(arm_of(&event))).unwrap();
        assert_eq!(flow.kind, Kind::Own(Arm::Tuned));
        // 15,900 ticks, of which the other end's window held it up for 800.
        assert_eq!(flow.active, TICK.mul_f64(15_900.0));
        assert!((flow.held_up - 800.0 / 15_900.0).abs() < 1e-12);
        let apart = flow.ended - flow.began;
        let lived = Duration::from_nanos(event.time_ns - event.flow.matched_ns);
        assert!(apart.abs_diff(lived) < Duration::from_secs(1), "{apart:?}");
        assert_eq!((flow.bytes_acked, flow.bytes_resent), (1_000_000_000, 3 * 1448));
    }

    #[test]
    fn what_was_not_seen_from_the_beginning_shows_nothing() {
        let mut running = event();
        running.flow.role = Role::Running as u32;
        assert_eq!(ended(&running, Kind::Neighbour), None);
    }

    #[test]
    fn nonsense_does_no_harm() {
        let mut odd = event();
        odd.limits = Limits { busy_ticks: u32::MAX, rwnd_ticks: 0, sndbuf_ticks: 0 };
        (odd.min_rtt_us, odd.flow.outcome) = (u32::MAX, 99);
        let flow = ended(&odd, Kind::Own(arm_of(&odd))).unwrap();
        assert_eq!((flow.active, flow.min_rtt, flow.held_up), (*TICK / 2, Duration::ZERO, 0.0));
        assert_eq!(flow.kind, Kind::Own(Arm::Default));
    }
}
