//! Rows as people read them.

use wad_probing::{
    answers::Run,
    measurement::{Bandwidth, Measurement},
};
use wad_toolbox::{
    amounts::{Rate, Time},
    text_table::TextTable,
};

pub const MISSED: &str = "missed";

/// Makes a table of runs, in their order.
pub fn table<'r>(runs: impl IntoIterator<Item = &'r Run>) -> TextTable {
    let rows = runs.into_iter().map(|run| {
        let period = run.period.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
        [
            period,
            run.task.clone(),
            run.tool.clone(),
            run.host.clone(),
            run.ending.clone(),
            result(run),
        ]
    });
    TextTable::new(["PERIOD", "TASK", "TOOL", "HOST", "ENDED", "RESULT"]).with_rows(rows)
}

fn result(run: &Run) -> String {
    if let Some(measured) = &run.measured {
        return measurement(measured);
    }
    if let (Some(lock), Some(holder)) = (&run.lock, &run.holder) {
        return format!("{lock} was held by or kept for {holder}");
    }
    let reason = run.reason.as_deref().unwrap_or_default();
    if run.ending != MISSED {
        return reason.to_owned();
    }
    if run.periods > 1 {
        return format!("there was no service, nor for {} more periods", run.periods - 1);
    }
    match reason {
        "stopped" => "there was no service",
        "known-from-flows" => "the path's own connections have shown it",
        "not-running" => "the host was suspended, or the service ended",
        "backing-off" => "it waits after failures",
        other => other,
    }
    .to_owned()
}

fn measurement(measured: &Measurement) -> String {
    let percent = |part: f64| format!("{:.3}%", 100.0 * part);
    let Measurement { rtt, loss, reordering, path_mtu_bytes, bandwidth, .. } = measured;
    let bandwidth = bandwidth.as_ref().map(|bandwidth| {
        let Bandwidth { bits_per_second, confidence, .. } = bandwidth;
        format!("{} ({})", Rate(*bits_per_second), confidence.word())
    });
    let rtt = rtt.map(|rtt| {
        let [min, median, max] = [rtt.min_seconds, rtt.median_seconds, rtt.max_seconds]
            .map(|time| Time(time).to_string());
        format!("rtt {min} / {median} / {max}")
    });
    let share = |name: &str, share: Option<f64>| Some(format!("{name} {}", percent(share?)));
    [
        bandwidth,
        rtt,
        share("loss", loss.and_then(|loss| loss.fraction())),
        share("reordering", reordering.and_then(|share| share.fraction())),
        path_mtu_bytes.map(|bytes| format!("path MTU {bytes}")),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}
