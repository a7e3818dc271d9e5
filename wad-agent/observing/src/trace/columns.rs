//! Says which instruments of each flow are traced.

use serde::Serialize;
use wad_instruments::{Flow, Reading, STANDARD, Unit, Values, name};
use wad_toolbox::nearest::nearest;

/// The instruments that are traced unless others are asked for: what `wad plot`
/// shows, and what may have limited the flow.
pub const USUAL: [&str; 10] = [
    name::HC_THRU_OCTETS_ACKED,
    name::HC_THRU_OCTETS_RECEIVED,
    name::SEGS_RETRANS,
    name::CUR_CWND,
    name::CUR_SSTHRESH,
    name::PIPE_SIZE,
    name::CUR_RWIN_RCVD,
    name::SMOOTHED_RTT,
    name::MIN_RTT,
    name::PHASE,
];

/// A column is a traced instrument, as the head of a trace has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: String,
    /// The unit; None where it is not known, as of members of `tcp_sock`.
    pub unit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// Makes the columns in the order in which they are named, each once.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut columns: Vec<Column> = Vec::new();
        for name in names {
            let name = name.as_ref();
            if columns.iter().all(|column| column.name != name) {
                columns.push(Column { name: name.to_owned(), unit: unit(name) });
            }
        }
        Self(columns)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Column> {
        self.0.iter()
    }

    pub fn values(&self, flow: &Flow) -> Values {
        let value = |column: &Column| (column.name.clone(), flow.instruments.get(&column.name));
        self.0.iter().map(value).collect()
    }

    /// Returns what is wrong with the names, as far as the flows of a reading tell:
    /// derived instruments are known to the agent only.
    pub fn check(&self, reading: &Reading) -> Result<(), Unknown> {
        let Some(flow) = reading.flows.first() else { return Ok(()) };
        match self.0.iter().find(|column| !flow.instruments.has(&column.name)) {
            None => Ok(()),
            Some(column) => {
                let known = flow.instruments.iter().map(|(name, _)| name);
                Err(Unknown::new(&column.name, known))
            }
        }
    }

    /// A name that only a flow can tell to be right, if there is one.
    pub fn unsure(&self, fields: &[String]) -> Option<Unknown> {
        let is_sure = |name: &str| is_standard(name) || fields.iter().any(|field| field == name);
        let column = self.0.iter().find(|column| !is_sure(&column.name))?;
        Some(Unknown::new(&column.name, STANDARD.iter().map(|instrument| instrument.name)))
    }
}

/// Whether it is in every reading, without being asked for.
pub fn is_standard(name: &str) -> bool {
    STANDARD.iter().any(|instrument| instrument.name == name)
}

fn unit(name: &str) -> Option<String> {
    let unit = STANDARD.iter().find(|instrument| instrument.name == name)?.unit;
    (unit != Unit::Number).then(|| unit.to_string())
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no instrument is called {name}{hint}; `wad flows --instruments` lists them")]
pub struct Unknown {
    name: String,
    hint: String,
}

impl Unknown {
    fn new<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Self {
        let hint = nearest(name, known)
            .map_or_else(String::new, |other| format!(", did you mean {other}?"));
        Self { name: name.to_owned(), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::flow;

    #[test]
    fn the_usual_ones_are_standard() {
        let columns = Columns::new(USUAL);
        assert_eq!(columns.iter().count(), USUAL.len());
        assert_eq!(columns.unsure(&[]), None);
        assert_eq!(columns.iter().next().unwrap().unit.as_deref(), Some("octets"));
    }

    #[test]
    fn a_name_counts_once_and_a_field_is_known_as_such() {
        let columns = Columns::new(["CurCwnd", "snd_wl1", "CurCwnd"]);
        assert_eq!(columns.iter().count(), 2);
        assert_eq!(columns.unsure(&["snd_wl1".to_owned()]), None);
        assert!(columns.unsure(&[]).is_some());
    }

    #[test]
    fn unknown_names_are_said_with_the_nearest() {
        let time = jiff::Timestamp::UNIX_EPOCH;
        let columns = Columns::new(["CurCwmd"]);
        let none = Reading { time, flows: Vec::new() };
        assert_eq!(columns.check(&none), Ok(()));
        let one = Reading { time, flows: vec![flow(1, [("CurCwnd", Some(1.0))])] };
        let said = columns.check(&one).unwrap_err().to_string();
        assert!(
            said.starts_with("no instrument is called CurCwmd, did you mean CurCwnd?"),
            "{said}"
        );
        assert_eq!(Columns::new(["CurCwnd"]).check(&one), Ok(()));
    }
}
