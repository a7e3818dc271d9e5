//! The page of metrics: their definitions, with the types and labels that a scrape of all
//! of them has.

use std::collections::BTreeSet;

use super::{head, row};

/// Scrapes that have every metric: of `[metrics]`, and of `[probe]`. The tests of the metrics
/// hold what is encoded against them, and that they lack none.
const SCRAPE: &str = include_str!("../../../observing/src/metrics/testdata/text.txt");
const PROBES: &str = include_str!("../../../probing/src/answers/testdata/metrics.txt");

const OPENING: &str = "\
# Metrics

What `/metrics` has; [the page about metrics](../metrics.md) says how to use them. Those with the label `path` have a
series for each path, at most `[metrics] max_paths`; the other paths together are `path=\"other\"`.

";

const OF_PROBES: &str = "
## Of probes

What the address of `[probe] listen` has at `/metrics`; see [Measure paths](../probe.md). Those with the label
`task` have a series for each of the first 1000 tasks, by name, where the task has found that out.

";

pub fn page() -> String {
    OPENING.to_owned() + &table(SCRAPE) + OF_PROBES + &table(PROBES)
}

fn table(scrape: &str) -> String {
    let mut table = head(["Metric", "Type", "Labels", "What it is"]);
    for metric in metrics(scrape) {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        table +=
            &row([&format!("`{}`", metric.name), metric.kind, &labels.join(", "), metric.help]);
    }
    table
}

struct Metric<'s> {
    name: &'s str,
    kind: &'s str,
    help: &'s str,
    labels: BTreeSet<&'s str>,
}

/// The metrics of a scrape in Prometheus' text format.
fn metrics(scrape: &str) -> Vec<Metric<'_>> {
    let mut metrics: Vec<Metric<'_>> = Vec::new();
    for line in scrape.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')) {
            metrics.push(Metric { name, kind: "", help, labels: BTreeSet::new() });
            continue;
        }
        let Some(metric) = metrics.last_mut() else { continue };
        if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            metric.kind = kind;
        } else if let Some((_, labels)) = line.split_once('{') {
            metric.labels.extend(names(labels).filter(|name| *name != "le"));
        }
    }
    metrics
}

/// The names in `name="value",…}`.
fn names(labels: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(labels);
    std::iter::from_fn(move || {
        let (name, value) = rest.take()?.split_once("=\"")?;
        // The value ends at a quote that is not escaped.
        let mut is_escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        rest = end.and_then(|end| value[end + 1..].strip_prefix(','));
        Some(name)
    })
}

#[cfg(test)]
mod tests {
    use wad_probing::answers::MAX_TASKS;

    use super::*;

    #[test]
    fn the_page_says_how_many_tasks_have_series() {
        assert!(OF_PROBES.contains(&format!("first {MAX_TASKS} tasks")));
    }

    #[test]
    fn a_scrape_is_read() {
        let scrape = "# HELP a_total One, two\n# TYPE a_total counter\n\
                      a_total{path=\"a \\\"=\\\", b\",reason=\"x\"} 1\n\
                      # HELP b Three\n# TYPE b gauge\nb 1\n";
        let [a, b] = &metrics(scrape)[..] else { panic!("two metrics") };
        assert_eq!((a.name, a.kind, a.help), ("a_total", "counter", "One, two"));
        assert_eq!(a.labels.iter().copied().collect::<Vec<_>>(), ["path", "reason"]);
        assert_eq!((b.name, b.kind, b.labels.len()), ("b", "gauge", 0));
    }
}
