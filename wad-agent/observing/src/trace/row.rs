//! A row is what a line of a trace says, and how it is written: as JSON or as CSV.

use std::{io, net::SocketAddr, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wad_instruments::{Flow, Owner, Place, PodNames, Values};
use wad_policy::config::TraceFormat;

use super::columns::{Column, Columns};

/// The form of traces; it changes when older programs cannot read them any more.
pub const VERSION: u32 = 1;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON lines
    Json,
    Csv,
}

impl From<TraceFormat> for Format {
    fn from(format: TraceFormat) -> Self {
        match format {
            TraceFormat::Json => Self::Json,
            TraceFormat::Csv => Self::Csv,
        }
    }
}

/// The first line of a trace in JSON.
#[derive(Debug, Serialize)]
pub struct Head<'a> {
    pub wad_trace: u32,
    pub version: &'static str,
    pub host: String,
    pub started: Timestamp,
    pub interval_ms: u64,
    pub instruments: Vec<&'a Column>,
}

/// CSV has these columns before the instruments.
pub const FLOW: [&str; 7] = ["time", "cookie", "netns", "path", "local", "remote", "congestion"];
/// These come after those; traces of before have none of them, or only the first four.
pub const OWNER: [&str; 7] =
    ["uid", "pid", "process", "cgroup", "namespace", "pod_name", "container_name"];

/// A flow at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub time: Timestamp,
    pub cookie: u64,
    pub netns: u64,
    pub path: Arc<str>,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub congestion: Arc<str>,
    /// Whose it is; traces of before have none.
    #[serde(default)]
    pub owner: Owner,
    pub instruments: Values,
}

impl Row {
    pub fn new(time: Timestamp, flow: &Flow, columns: &Columns) -> Self {
        Self {
            time,
            cookie: flow.cookie,
            netns: flow.netns,
            path: Arc::clone(&flow.path),
            local: flow.local,
            remote: flow.remote,
            congestion: Arc::clone(&flow.congestion),
            owner: flow.owner.clone(),
            instruments: columns.values(flow),
        }
    }

    fn fields(&self) -> Vec<String> {
        let mut fields = vec![
            self.time.to_string(),
            self.cookie.to_string(),
            self.netns.to_string(),
            self.path.to_string(),
            self.local.to_string(),
            self.remote.to_string(),
            self.congestion.to_string(),
        ];
        let number = |number: Option<u32>| number.map_or_else(String::new, |n| n.to_string());
        let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
        let Owner { uid, pid, process, place } = &self.owner;
        let PodNames { namespace, pod_name, container_name } = &place.names;
        fields.extend([number(*uid), number(*pid), text(process), text(&place.cgroup)]);
        fields.extend([namespace, pod_name, container_name].map(text));
        let value =
            |(_, value): (_, Option<f64>)| value.map_or_else(String::new, |v| v.to_string());
        fields.extend(self.instruments.iter().map(value));
        fields
    }

    /// Makes a row from the fields of a line, with so many of its owner, and the names of its
    /// instruments.
    pub fn of_fields<'f>(
        mut fields: impl Iterator<Item = &'f str>,
        of_owner: usize,
        names: &[String],
    ) -> Result<Self, String> {
        let mut next = |name: &str| fields.next().ok_or_else(|| format!("has no {name}"));
        let row = Self {
            time: parsed("time", next("time")?)?,
            cookie: parsed("cookie", next("cookie")?)?,
            netns: parsed("netns", next("netns")?)?,
            path: next("path")?.into(),
            local: parsed("local", next("local")?)?,
            remote: parsed("remote", next("remote")?)?,
            congestion: next("congestion")?.into(),
            owner: owner(&mut next, of_owner)?,
            instruments: Values::default(),
        };
        let value = |name: &String| match next(name)? {
            "" => Ok((name.clone(), None)),
            text => parsed(name, text).map(|value: f64| (name.clone(), Some(value))),
        };
        let values: Result<_, String> = names.iter().map(value).collect();
        Ok(Self { instruments: values?, ..row })
    }
}

fn owner<'f>(
    next: &mut impl FnMut(&str) -> Result<&'f str, String>,
    of_owner: usize,
) -> Result<Owner, String> {
    let mut fields = [""; OWNER.len()];
    for (field, name) in fields.iter_mut().zip(OWNER).take(of_owner) {
        *field = next(name)?;
    }
    let [uid, pid, process, cgroup, namespace, pod_name, container_name] = fields;
    let number = |name, text: &str| match text {
        "" => Ok(None),
        text => parsed(name, text).map(Some),
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.into());
    let place = if cgroup.is_empty() { Place::default() } else { Place::of(cgroup) };
    let names = PodNames {
        namespace: text(namespace),
        pod_name: text(pod_name),
        container_name: text(container_name),
    };
    Ok(Owner {
        uid: number("uid", uid)?,
        pid: number("pid", pid)?,
        process: text(process),
        place: Place { names, ..place },
    })
}

fn parsed<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no {name}"))
}

impl Format {
    /// Returns what a file begins with.
    pub fn head(self, head: &Head<'_>) -> Vec<u8> {
        match self {
            Self::Json => line_of_json(head),
            Self::Csv => {
                let named = |column: &&Column| match &column.unit {
                    Some(unit) => format!("{} ({unit})", column.name),
                    None => column.name.clone(),
                };
                let flow = FLOW.into_iter().chain(OWNER).map(str::to_owned);
                line_of_csv(flow.chain(head.instruments.iter().map(named)))
            }
        }
    }

    pub fn line(self, row: &Row) -> Vec<u8> {
        match self {
            Self::Json => line_of_json(row),
            Self::Csv => line_of_csv(row.fields()),
        }
    }
}

/// The instrument that a column of CSV has: its name is before the unit.
pub fn instrument(column: &str) -> &str {
    column
        .strip_suffix(')')
        .and_then(|column| column.rsplit_once(" ("))
        .map_or(column, |(name, _)| name)
}

fn line_of_json(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("neither keys nor values can fail");
    line.push(b'\n');
    line
}

fn line_of_csv(fields: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut line = Vec::new();
    let mut writer = csv::Writer::from_writer(&mut line);
    let written = writer.write_record(fields).and_then(|()| writer.flush().map_err(Into::into));
    written.map_err(io::Error::other).expect("memory takes all");
    drop(writer);
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::flow;

    fn row() -> Row {
        let flow =
            flow(7, [("CurCwnd", Some(14_480.0)), ("CurSsthresh", None), ("a.b", Some(0.5))]);
        let columns = Columns::new(["CurCwnd", "CurSsthresh", "a.b"]);
        Row::new("2026-11-21T22:16:00.125Z".parse().unwrap(), &flow, &columns)
    }

    #[test]
    fn lines_are_short_and_say_all() {
        assert_eq!(
            String::from_utf8(Format::Json.line(&row())).unwrap(),
            "{\"time\":\"2026-11-21T22:16:00.125Z\",\"cookie\":7,\"netns\":4026531840,\
             \"path\":\"to, \\\"b\\\"\",\"local\":\"[fd81::1]:40007\",\"remote\":\"[fd81::2]:5001\",\
             \"congestion\":\"cubic\",\"owner\":{\"uid\":1000,\"pid\":4711,\
             \"process\":\"globus-gridftp-\",\"cgroup\":\"system.slice/globus.service\",\
             \"unit\":\"globus.service\"},\"instruments\":{\"CurCwnd\":14480,\"CurSsthresh\":null,\
             \"a.b\":0.5}}\n"
        );
        assert_eq!(
            String::from_utf8(Format::Csv.line(&row())).unwrap(),
            "2026-11-21T22:16:00.125Z,7,4026531840,\"to, \"\"b\"\"\",[fd81::1]:40007,\
             [fd81::2]:5001,cubic,1000,4711,globus-gridftp-,system.slice/globus.service,,,,14480,,0.5\n"
        );
    }

    #[test]
    fn heads_have_units() {
        let columns = Columns::new(["CurCwnd", "a.b"]);
        let head = Head {
            wad_trace: VERSION,
            version: "1.2.3",
            host: "h".to_owned(),
            started: Timestamp::UNIX_EPOCH,
            interval_ms: 100,
            instruments: columns.iter().collect(),
        };
        assert_eq!(
            String::from_utf8(Format::Json.head(&head)).unwrap(),
            "{\"wad_trace\":1,\"version\":\"1.2.3\",\"host\":\"h\",\
             \"started\":\"1970-01-01T00:00:00Z\",\"interval_ms\":100,\"instruments\":\
             [{\"name\":\"CurCwnd\",\"unit\":\"octets\"},{\"name\":\"a.b\",\"unit\":null}]}\n"
        );
        assert_eq!(
            String::from_utf8(Format::Csv.head(&head)).unwrap(),
            "time,cookie,netns,path,local,remote,congestion,uid,pid,process,cgroup,namespace,pod_name,\
             container_name,CurCwnd (octets),a.b\n"
        );
        assert_eq!((instrument("CurCwnd (octets)"), instrument("a.b")), ("CurCwnd", "a.b"));
    }
}
