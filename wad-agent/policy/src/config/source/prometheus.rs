//! Reads what a `[[source]]` asks Prometheus for.

use super::super::{
    fault::{Fault, Problems, quoted},
    quantity,
    table::{self, Table},
};

/// Keys of PromQL and what belongs to it.
pub const KEYS: [&str; 8] = [
    "label",
    "bandwidth",
    "bandwidth_unit",
    "rtt",
    "rtt_unit",
    "loss",
    "reordering",
    "measured_at",
];

/// Queries in PromQL, one for each metric; each gives a series for each path.
#[derive(Clone, Debug, PartialEq)]
pub struct Prometheus {
    /// The label's value is a path's name, or an address in the path's `remote`.
    pub label: String,
    pub queries: Vec<Query>,
    /// When it was measured, in seconds since 1970; where it is left out, what
    /// Prometheus' `timestamp()` says of each query.
    pub measured_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub metric: Metric,
    pub promql: String,
    /// Makes bit/s and seconds of what is asked for.
    pub factor: f64,
}

/// A metric is what is known of a path: bit/s, seconds, and fractions of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    Bandwidth,
    Rtt,
    Loss,
    Reordering,
}

impl Metric {
    pub const ALL: [Self; 4] = [Self::Bandwidth, Self::Rtt, Self::Loss, Self::Reordering];

    /// The key of its query.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Rtt => "rtt",
            Self::Loss => "loss",
            Self::Reordering => "reordering",
        }
    }

    const fn unit_key(self) -> Option<&'static str> {
        match self {
            Self::Bandwidth => Some("bandwidth_unit"),
            Self::Rtt => Some("rtt_unit"),
            Self::Loss | Self::Reordering => None,
        }
    }
}

/// Reads what is asked for, of the table of a source.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Prometheus {
    let label = table.read("label", problems, |value| parse_label(table::text(value)?));
    let queries = Metric::ALL.into_iter().filter_map(|metric| read_query(table, metric, problems));
    let queries: Vec<_> = queries.collect();
    if !table.has("bandwidth") && !table.has("rtt") {
        let fault = Fault::new("neither `bandwidth` nor `rtt`", "nothing follows from the others");
        let help = "add rtt = 'probe_duration_seconds', or the PromQL that has it for each path";
        problems.push(fault.help(help).at(table.at));
    }
    let measured_at = read_promql(table, "measured_at", problems);
    let label = label.map_or_else(|| "path".to_owned(), |label| label.value);
    Prometheus { label, queries, measured_at }
}

fn read_query(table: &Table<'_>, metric: Metric, problems: &mut Problems) -> Option<Query> {
    let promql = read_promql(table, metric.key(), problems);
    let factor = read_unit(table, metric, problems);
    Some(Query { metric, promql: promql?, factor: factor? })
}

/// Reads a unit; None where it is wrong or missing, and that was said.
fn read_unit(table: &Table<'_>, metric: Metric, problems: &mut Problems) -> Option<f64> {
    let Some(key) = metric.unit_key() else { return Some(1.0) };
    let (at, has_query) = (table.place(metric.key()), table.has(metric.key()));
    if let Some(unit) = table.place(key).filter(|_| !has_query) {
        let fault = Fault::new(format!("`{key}` without `{}`", metric.key()), "a unit of what?");
        problems.push(fault.help("leave it out, or add the query").at(unit));
    }
    if !table.has(key) {
        // Prometheus' own unit of times; of rates there are two.
        if metric == Metric::Rtt {
            return Some(1.0);
        }
        let fault = Fault::new("`bandwidth` needs `bandwidth_unit`", "in bits, or in bytes?");
        let help = "add bandwidth_unit = \"bit/s\", or \"B/s\" as is usual with Prometheus";
        at.into_iter().for_each(|at| problems.push(fault.clone().help(help).at(at)));
        return None;
    }
    let factor = table.read(key, problems, |value| {
        let one = format!("1{}", table::text(value)?);
        if metric == Metric::Rtt {
            quantity::seconds(&one)
        } else {
            quantity::bits_per_second(&one)
        }
    });
    factor.map(|factor| factor.value)
}

fn read_promql(table: &Table<'_>, key: &str, problems: &mut Problems) -> Option<String> {
    const MOST: usize = 4_000;
    let promql = table.read(key, problems, |value| {
        let text = table::text(value)?.trim();
        if text.is_empty() || text.len() > MOST {
            let label = format!("must have 1 to {MOST} bytes");
            return Err(Fault::new(format!("{} bytes of PromQL", text.len()), label));
        }
        Ok(text.to_owned())
    });
    promql.map(|promql| promql.value)
}

/// Prometheus' names of labels: `[a-zA-Z_][a-zA-Z0-9_]*`.
fn parse_label(text: &str) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(fits)
    {
        let title = format!("{} is no name of a label", quoted(text));
        return Err(Fault::new(title, "letters, digits and _ only"));
    }
    Ok(text.to_owned())
}
