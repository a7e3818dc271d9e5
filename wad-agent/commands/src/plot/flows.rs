//! The flows of some traces, and which of them are drawn.

use std::{collections::HashMap, io::BufRead, net::SocketAddr, path::Path, sync::Arc};

use jiff::Timestamp;
use wad_instruments::name;
use wad_observing::trace::{
    Row,
    read::{Damage, Rows, TraceError},
};

/// Colours that can be told apart.
pub const MOST: usize = wad_svg::MOST_COLOURS;

#[derive(Debug, Default)]
pub struct Traces(Vec<Trace>);

/// A file, with those that it was rotated from.
#[derive(Debug)]
struct Trace {
    name: String,
    numbers: HashMap<Key, usize>,
    flows: Vec<Points>,
}

/// A key tells flows apart: no two flows of a boot have the same.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Key(u64, SocketAddr, SocketAddr);

#[derive(Debug)]
struct Points {
    local: SocketAddr,
    remote: SocketAddr,
    path: Arc<str>,
    congestion: Arc<str>,
    points: Vec<(Timestamp, Point)>,
}

/// A point holds what is drawn of a flow at a time, as far as it was traced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    pub acked_octets: Option<f64>,
    pub received_octets: Option<f64>,
    pub cwnd_octets: Option<f64>,
    pub ssthresh_octets: Option<f64>,
    pub rtt_us: Option<f64>,
    pub retransmitted: Option<f64>,
    pub phase: Option<f64>,
}

/// A flow of a picture.
#[derive(Debug)]
pub struct Flow {
    pub label: String,
    /// The points, by seconds since its trace began.
    pub points: Vec<(f64, Point)>,
}

#[derive(Debug)]
pub struct Drawn {
    pub flows: Vec<Flow>,
    pub left_out: usize,
}

impl Traces {
    /// Takes a file in, and says what of it cannot be read.
    pub fn read(&mut self, file: &Path) -> Result<Option<Damage>, TraceError> {
        Ok(self.take(file, Rows::open(file)?))
    }

    /// Takes the rows of a file that is open.
    pub fn take<R: BufRead>(&mut self, file: &Path, mut rows: Rows<R>) -> Option<Damage> {
        let name = name(file);
        let known = self.0.iter().position(|trace| trace.name == name);
        let number = known.unwrap_or_else(|| {
            self.0.push(Trace { name, numbers: HashMap::new(), flows: Vec::new() });
            self.0.len() - 1
        });
        for row in rows.by_ref() {
            self.0[number].add(row);
        }
        rows.damage().cloned()
    }

    pub fn title(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|trace| self.name_of(trace)).collect();
        let begun = self.0.iter().filter_map(Trace::begun).min();
        let begun = begun.map_or_else(String::new, |time| time.strftime(", %F %T UTC").to_string());
        format!("{}{begun}", names.join(", "))
    }

    /// The flows that carried most: the first of each trace, then the second of each,
    /// and so on.
    pub fn drawn(&self) -> Drawn {
        let mut ranked = Vec::new();
        for (number, trace) in self.0.iter().enumerate() {
            let mut flows: Vec<&Points> = trace.flows.iter().collect();
            flows.sort_by(|a, b| b.octets().total_cmp(&a.octets()));
            let ranks = flows.into_iter().enumerate();
            ranked.extend(ranks.map(|(rank, flow)| (rank, number, flow)));
        }
        ranked.sort_by_key(|(rank, number, _)| (*rank, *number));
        let left_out = ranked.len().saturating_sub(MOST);
        ranked.truncate(MOST);
        ranked.sort_by_key(|(rank, number, _)| (*number, *rank));
        let flow = |(_, number, flow): &(usize, usize, &Points)| {
            let trace = &self.0[*number];
            let is_only = ranked.iter().filter(|(_, other, _)| other == number).count() == 1;
            let begun = trace.begun().unwrap_or_default();
            Flow { label: self.label(trace, flow, is_only), points: flow.since(begun) }
        };
        Drawn { flows: ranked.iter().map(flow).collect(), left_out }
    }

    /// The name of its file, with the folder only where others have the same.
    fn name_of<'t>(&self, trace: &'t Trace) -> &'t str {
        let short = trace.short_name();
        let is_only = self.0.iter().filter(|other| other.short_name() == short).count() == 1;
        if is_only { short } else { without_extension(&trace.name) }
    }

    fn label(&self, trace: &Trace, flow: &Points, is_only: bool) -> String {
        let Points { local, remote, path, congestion, .. } = flow;
        match (self.0.len() > 1, is_only) {
            (true, true) if *self.name_of(trace) == **congestion => congestion.to_string(),
            (true, true) => format!("{} ({congestion})", self.name_of(trace)),
            (true, false) => format!("{}: {local} → {remote} ({congestion})", self.name_of(trace)),
            (false, _) => format!("{local} → {remote} ({path}, {congestion})"),
        }
    }
}

/// Returns what a file and those before it are called: without the number.
fn name(file: &Path) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = file.to_string_lossy();
    match name.rsplit_once('.') {
        Some((base, number)) if is_number(number) => base.to_owned(),
        _ => name.into_owned(),
    }
}

impl Trace {
    fn add(&mut self, row: Row) {
        let key = Key(row.cookie, row.local, row.remote);
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.flows.push(Points {
                local: row.local,
                remote: row.remote,
                path: Arc::clone(&row.path),
                congestion: Arc::default(),
                points: Vec::new(),
            });
            self.flows.len() - 1
        });
        let flow = &mut self.flows[number];
        flow.points.push((row.time, Point::of(&row)));
        flow.congestion = row.congestion;
    }

    fn begun(&self) -> Option<Timestamp> {
        self.flows.iter().flat_map(|flow| &flow.points).map(|(time, _)| *time).min()
    }

    /// Returns the name without folder and extension.
    fn short_name(&self) -> &str {
        let name = without_extension(&self.name);
        name.rsplit_once('/').map_or(name, |(_, name)| name)
    }
}

fn without_extension(name: &str) -> &str {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    [".jsonl", ".json", ".csv"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

impl Points {
    /// Returns the octets that it carried while it was traced, in either direction.
    fn octets(&self) -> f64 {
        let grown = |octets: fn(&Point) -> Option<f64>| {
            let mut known = self.points.iter().filter_map(|(_, point)| octets(point));
            let first = known.next().unwrap_or_default();
            known.fold(first, f64::max) - first
        };
        grown(|point| point.acked_octets).max(grown(|point| point.received_octets))
    }

    /// Returns the points in the order of time: clocks are set, and files may be
    /// named in any order.
    fn since(&self, begun: Timestamp) -> Vec<(f64, Point)> {
        let seconds = |time: Timestamp| time.duration_since(begun).as_secs_f64();
        let mut points: Vec<_> =
            self.points.iter().map(|(time, point)| (seconds(*time), *point)).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    }
}

impl Point {
    fn of(row: &Row) -> Self {
        // Whoever wrote the file: nothing that TCP counts is beyond this.
        let sane = |value: &f64| (0.0..1e18).contains(value);
        let get = |name| row.instruments.get(name).filter(sane);
        Self {
            acked_octets: get(name::HC_THRU_OCTETS_ACKED),
            received_octets: get(name::HC_THRU_OCTETS_RECEIVED),
            cwnd_octets: get(name::CUR_CWND),
            ssthresh_octets: get(name::CUR_SSTHRESH),
            rtt_us: get(name::SMOOTHED_RTT),
            retransmitted: get(name::SEGS_RETRANS),
            phase: get(name::PHASE),
        }
    }
}
