//! Flows for people: a line for each.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use wad_instruments::{Flow, Reading, Span, name, phase};
use wad_toolbox::{refusals, text_table::TextTable};

use crate::output;

/// Columns hold what is shown beside the usual.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Instruments or fields.
    pub more: Vec<String>,
    /// The flows stay in the order that they are in; else they are sorted by path.
    pub is_sorted: bool,
}

const TITLES: [&str; 11] = [
    "PATH",
    "REMOTE",
    "LOCAL",
    OWNER,
    "STATE",
    "PHASE",
    "CWND",
    "RTT",
    "RATE",
    "RETRANSMITTED",
    "LIMITED BY",
];
const OWNER: &str = "OWNER";
/// This stands behind the owner where any flow is of a pod whose name is known.
const POD: &str = "POD/CONTAINER";
/// The first so many are words, aligned to the left.
const WORDS: usize = 6;

/// Rates are those since the reading before, if there is one.
pub fn write(
    now: &Reading,
    before: Option<&Reading>,
    columns: &Columns,
    out: &mut dyn Write,
) -> io::Result<()> {
    if now.flows.is_empty() {
        return writeln!(out, "no flows");
    }
    let before: HashMap<u64, &Flow> = before
        .into_iter()
        .flat_map(|reading| &reading.flows)
        .map(|flow| (flow.cookie, flow))
        .collect();
    let mut flows: Vec<&Flow> = now.flows.iter().collect();
    if !columns.is_sorted {
        flows.sort_by_key(|flow| (&flow.path, flow.remote, flow.local));
    }
    let has_pods = flows.iter().any(|flow| pod(flow).is_some());
    let behind_owner = |title| [Some(title), (title == OWNER && has_pods).then_some(POD)];
    let titles = TITLES.into_iter().flat_map(behind_owner).flatten().map(str::to_owned);
    let titles = titles.chain(columns.more.iter().cloned());
    let rows = flows.into_iter().map(|now| {
        let span = Span { now, before: before.get(&now.cookie).copied() };
        row(&span, has_pods, &columns.more)
    });
    let words = WORDS + usize::from(has_pods);
    output::write(out, TextTable::new(titles).with_figures_behind(words).with_rows(rows))
}

/// Returns the names of the pod and the container that a flow is of: "transfer/dtn-0/ftp".
fn pod(flow: &Flow) -> Option<String> {
    let names = &flow.owner.place.names;
    let pod = names.pod()?;
    Some(match &names.container_name {
        Some(container) => format!("{pod}/{}", container.escape_debug()),
        None => pod,
    })
}

/// Puts the flows with most of an instrument, or field, first.
pub fn sort(name: &str, flows: &mut [Flow]) {
    let value = |flow: &Flow| flow.instruments.get(name).unwrap_or(f64::NEG_INFINITY);
    flows.sort_by(|a, b| value(b).total_cmp(&value(a)));
}

fn row(span: &Span<'_>, has_pods: bool, more: &[String]) -> Vec<String> {
    let flow = span.now;
    let value = |name: &str| flow.instruments.get(name);
    let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let segments = value(name::CUR_CWND).zip(value(name::CUR_MSS)).filter(|(_, mss)| *mss > 0.0);
    let mut row = vec![
        if flow.path.is_empty() { "-".to_owned() } else { flow.path.escape_debug().to_string() },
        flow.remote.to_string(),
        flow.local.to_string(),
        shown(flow.owner.short()),
    ];
    row.extend(has_pods.then(|| shown(pod(flow))));
    row.extend([
        outcome(flow),
        shown(value(name::PHASE).and_then(phase).map(|phase| phase.name().to_owned())),
        shown(segments.map(|(cwnd, mss)| format!("{:.0}", cwnd / mss))),
        shown(value(name::SMOOTHED_RTT).map(|us| format!("{:.1} ms", us / 1e3))),
        shown(span.bits_per_second().map(rate)),
        shown(span.retransmitted().map(|part| format!("{:.3}%", part * 100.0))),
        shown(span.limited_by().map(str::to_owned)),
    ]);
    row.extend(more.iter().map(|name| shown(value(name).map(|value| value.to_string()))));
    row
}

/// Returns what became of it, and what it did not get.
fn outcome(flow: &Flow) -> String {
    match refusals::text(&flow.refused) {
        Some(refused) => format!("{} but {refused}", flow.outcome),
        None => flow.outcome.to_string(),
    }
}

fn rate(bits_per_second: f64) -> String {
    let mut units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"].iter();
    let (mut value, mut unit) = (bits_per_second, units.next());
    // 999.95 would be shown as 1000.0.
    while value >= 999.95
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1e3, Some(next));
    }
    format!("{value:.1} {}", unit.unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use wad_common::refused::{Refused, SocketSetting};
    use wad_instruments::{PodNames, testing::flow};

    use super::*;

    fn table(now: Vec<Flow>, before: Option<Vec<Flow>>, columns: &Columns) -> String {
        let reading = |flows| Reading { time: Timestamp::UNIX_EPOCH, flows };
        let mut out = Vec::new();
        let (now, before) = (reading(now), before.map(reading));
        write(&now, before.as_ref(), columns, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn is_as_agreed() {
        let columns = Columns { more: vec!["CurMSS".into(), "snd_wl1".into()], is_sorted: false };
        let expected = "\
PATH  REMOTE           LOCAL            OWNER                 STATE  PHASE               CWND      RTT         RATE  RETRANSMITTED  LIMITED BY  CurMSS  snd_wl1
bob   203.0.113.5:443  192.0.2.1:40000  globus-gridftp-/4711  tuned  limited_slow_start    10  75.1 ms  80.0 Mbit/s         0.100%     network    1448        -
";
        assert_eq!(table(vec![flow(1, 10.0, 1e8)], None, &columns), expected);
        assert_eq!(table(Vec::new(), None, &columns), "no flows\n");
    }

    #[test]
    fn pods_have_a_column_where_there_are_any() {
        let mut of_pod = flow(1, 10.0, 1e8);
        of_pod.owner.place.names = PodNames {
            namespace: Some("transfer".into()),
            pod_name: Some("dtn-0".into()),
            container_name: Some("ftp".into()),
        };
        let flows = vec![of_pod, flow(2, 10.0, 1e8)];
        let text = table(flows, None, &Columns::default());
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("  OWNER                 POD/CONTAINER       STATE  "), "{text}");
        let named = lines.iter().filter(|line| line.contains("/4711  transfer/dtn-0/ftp  tuned  "));
        assert_eq!(named.count(), 1, "{text}");
        let unnamed = lines.iter().filter(|line| line.contains("/4711  -                   tuned"));
        assert_eq!(unnamed.count(), 1, "{text}");
    }

    #[test]
    fn what_a_flow_did_not_get_is_named() {
        let mut refused = Refused::default();
        refused.note(SocketSetting::Dscp, Err(-libc::EAFNOSUPPORT));
        let flow = Flow { refused: refusals::of(&refused), ..flow(1, 10.0, 1e8) };
        let text = table(vec![flow], None, &Columns::default());
        assert!(text.contains("  tuned but dscp (EAFNOSUPPORT)  "), "{text}");
    }

    #[test]
    fn flows_are_sorted_and_found_again_by_their_cookies() {
        let columns = Columns { more: Vec::new(), is_sorted: true };
        let sorted = |mut flows: Vec<Flow>| {
            sort("HCThruOctetsAcked", &mut flows);
            flows
        };
        let before = vec![flow(1, 10.0, 2e6), flow(2, 10.0, 1e6)];
        let now = sorted(vec![flow(2, 11.0, 2e6), flow(1, 11.0, 3e6)]);
        let text = table(now, Some(before), &columns);
        let rates: Vec<_> =
            text.lines().skip(1).filter(|line| line.contains("8.0 Mbit/s")).collect();
        assert_eq!(rates.len(), 2, "{text}");
        let flows = sorted(vec![flow(3, 1.0, 1e3), flow(4, 1.0, 1e6)]);
        let since_start = table(flows, None, &columns);
        assert!(since_start.find("8.0 Mbit/s") < since_start.find("8.0 kbit/s"), "{since_start}");
    }

    #[test]
    fn rates_at_their_edges() {
        assert_eq!(rate(999.9), "999.9 bit/s");
        assert_eq!(rate(999.96), "1.0 kbit/s");
        assert_eq!(rate(4e11), "400.0 Gbit/s");
    }
}
