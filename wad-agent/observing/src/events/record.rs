//! A record is one event for whoever keeps them: a line of JSON with the fields of
//! NetLogger (time, program, event, source host, destination host, values). The book
//! documents it under "Events"; [`SCHEMA`] rises when a reader would have to know.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use serde::Serialize;
use wad_policy::event_name::EventName;

pub const SCHEMA: u32 = 1;

/// A record holds what is told; whose it is and what makes it unique is added with
/// [`Record::line`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a, V> {
    pub time: Timestamp,
    pub event: EventName,
    /// The ends of the flow; None of what is about a path, as the next.
    pub ends: Option<Ends>,
    /// The socket's cookie, as `ss -e` shows it (sk:).
    pub cookie: Option<u64>,
    pub path: &'a str,
    /// An object.
    pub values: V,
}

/// The ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Who tells.
#[derive(Clone, Debug)]
pub struct Teller {
    pub host: String,
    pub instance: String,
    /// The run's name, which no other run of an agent has.
    pub run: String,
}

#[derive(Serialize)]
struct Line<'a, V> {
    schema: u32,
    id: String,
    ts: String,
    event: EventName,
    level: &'static str,
    prog: &'static str,
    host: &'a str,
    instance: &'a str,
    #[serde(flatten)]
    ends: Option<LineEnds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cookie: Option<u64>,
    path: &'a str,
    values: &'a V,
}

/// The ends as a line has them.
#[derive(Serialize)]
struct LineEnds {
    src_host: IpAddr,
    src_port: u16,
    dst_host: IpAddr,
    dst_port: u16,
}

impl From<Ends> for LineEnds {
    fn from(Ends { local, remote }: Ends) -> Self {
        Self {
            src_host: local.ip(),
            src_port: local.port(),
            dst_host: remote.ip(),
            dst_port: remote.port(),
        }
    }
}

impl<V: Serialize> Record<'_, V> {
    /// Returns the line with the final newline, and without any other. `number` is its
    /// own in this run.
    pub fn line(&self, teller: &Teller, number: u64) -> serde_json::Result<Vec<u8>> {
        let line = Line {
            schema: SCHEMA,
            id: format!("{}-{number}", teller.run),
            ts: format!("{:.6}", self.time),
            event: self.event,
            level: self.event.level(),
            prog: "wad",
            host: &teller.host,
            instance: &teller.instance,
            ends: self.ends.map(LineEnds::from),
            cookie: self.cookie,
            path: self.path,
            values: &self.values,
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        Ok(line)
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::Teller;

    pub fn teller() -> Teller {
        Teller { host: "node".to_owned(), instance: "default".to_owned(), run: "5f3c".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{testing::teller, *};

    #[test]
    fn a_record_is_one_line() {
        let record = Record {
            time: "2026-01-02T03:04:05Z".parse().unwrap(),
            event: EventName::Open,
            ends: Some(Ends {
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: "[2001:db8::1]:5201".parse().unwrap(),
            }),
            cookie: Some(17),
            path: "two\nlines \"quoted\"",
            values: json!({ "role": "connected" }),
        };
        let line = String::from_utf8(record.line(&teller(), 3).unwrap()).unwrap();
        let expected = concat!(
            r#"{"schema":1,"id":"5f3c-3","ts":"2026-01-02T03:04:05.000000Z","event":"open","#,
            r#""level":"Info","prog":"wad","host":"node","instance":"default","#,
            r#""src_host":"10.0.0.1","src_port":40000,"dst_host":"2001:db8::1","#,
            r#""dst_port":5201,"cookie":17,"path":"two\nlines \"quoted\"","#,
            r#""values":{"role":"connected"}}"#,
            "\n"
        );
        assert_eq!(line, expected);
    }
}
