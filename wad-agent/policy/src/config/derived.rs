//! Reads one `[[derived]]`: a number made of the instruments of a flow, and when it
//! is an event.

use std::{collections::HashSet, ops::RangeInclusive, time::Duration};

use toml::de::DeValue;
use wad_instruments::STANDARD;

use super::{
    fault::{Fault, Problem, Problems, Span, quoted},
    keys::{
        Key,
        LeftOut::{Means, Refused, Value},
        Takes::{Number, Switch, Text, Time},
        key,
    },
    quantity,
    table::{self, Located, Table},
    unread::Unread,
};
use crate::derived::{Definition, Derived, Limit, Mistake, Threshold};

pub const TABLE: &str = "derived";

pub const KEYS: &[Key] = &[
    key("name").takes(
        Text("a capital, then letters and digits, 32 at most"),
        Refused,
        "how it is called in tables, expressions, metrics and events",
    ),
    key("value").takes(
        Text("an expression: `+ - * / ( )`, `min`, `max`, `rate`"),
        Refused,
        "what it is made of, see [derived events](../derived-events.md)",
    ),
    key("unit").takes(Text("1 to 16 characters"), Means("no unit"), "shown beside it"),
    key("above").takes(
        Number,
        Means("no event"),
        "a line in the log and an [event](../events.md) when it is beyond that, told once until \
         it comes back; not beside `below`",
    ),
    key("below").takes(Number, Means("no event"), "the same, when it is less than that"),
    key("for").takes(Time(LASTING), Value("\"0s\""), "how long without a break"),
    key("paths").takes(
        Text("names of paths"),
        Means("all"),
        "paths whose connections are meant by `above` or `below`",
    ),
    key("metric").takes(
        Switch,
        Value("false"),
        "its mean over the path's connections that run is a metric; for 3 at most",
    ),
];

/// Most of them: each is worked out for every flow at each look.
pub const MAX_DERIVED: usize = 32;
/// Most that are metrics: a path has 30 series at most.
pub const MAX_METRICS: usize = 3;

const MAX_NAME_BYTES: usize = 32;
const MAX_UNIT_BYTES: usize = 16;
const LASTING: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

/// Where things stand of which only the whole file tells whether they are right.
pub struct Site {
    pub name: Span,
    pub metric: Option<Span>,
    /// The places of the threshold's paths, in their order.
    pub paths: Vec<Span>,
}

/// Reads one; `above` are those before it in the file. None without a name.
pub fn read(
    table: &Table<'_>,
    above: &Derived,
    problems: &mut Problems,
) -> Option<(Definition, Site)> {
    table.require("name", problems, "add name = \"AveBW\", or how it is to show");
    let help = "add value = \"8 * HCDataOctetsOut / ElapsedSecs\", or another expression";
    table.require("value", problems, help);
    let name = table.read("name", problems, |value| parse_name(table::text(value)?))?;
    let mut definition = read_value(table, &name.value, above, problems)
        .unwrap_or_else(|| Definition::in_doubt(&name.value));
    let unit = table.read("unit", problems, |value| parse_unit(table::text(value)?));
    let (threshold, paths) = read_threshold(table, problems);
    let has_metric = table.read("metric", problems, table::boolean);
    let has_metric = has_metric.filter(|metric| metric.value);
    let site = Site { name: name.at, metric: has_metric.map(|metric| metric.at), paths };
    definition.unit = unit.map(|unit| unit.value);
    definition.threshold = threshold;
    definition.has_metric = has_metric.is_some();
    Some((definition, site))
}

fn read_value(
    table: &Table<'_>,
    name: &str,
    above: &Derived,
    problems: &mut Problems,
) -> Option<Definition> {
    let text = table.read("value", problems, |value| table::text(value).map(str::to_owned))?;
    Definition::parse(name, &text.value, above)
        .map_err(|mistake| problems.push(at(mistake, &text)))
        .ok()
}

/// Points into the text, where that stands in the file as it is.
fn at(mistake: Mistake, text: &Located<String>) -> Problem {
    let Mistake { at, title, label, help } = mistake;
    let quotes = (text.at.range().len()).saturating_sub(text.value.len());
    let start = text.at.range().start + 1;
    let place = if quotes == 2 { Span::new(start, at) } else { text.at };
    Fault { help, ..Fault::new(format!("`value`: {title}"), label) }.at(place)
}

fn read_threshold(table: &Table<'_>, problems: &mut Problems) -> (Option<Threshold>, Vec<Span>) {
    let number = |value: &DeValue<'_>| table::number(value, f64::MIN..=f64::MAX, "");
    let above = table.read("above", problems, number);
    let below = table.read("below", problems, number);
    let lasting = table.read("for", problems, |value| {
        quantity::duration(table::text(value)?, LASTING, "0s to 1d")
    });
    let paths = table.read_list("paths", problems, |value| table::text(value).map(str::to_owned));
    if let (Some(above), Some(below)) = (&above, &below) {
        let fault = Fault::new("`above` and `below`", "one event has one threshold");
        let fault = fault.help("write a second [[derived]], whose value is the first's name");
        problems.push(fault.at(below.at).also(above.at, "the other one"));
    }
    if !table.has("above") && !table.has("below") {
        for key in ["for", "paths"] {
            let Some(at) = table.place(key) else { continue };
            let fault = Fault::new(format!("`{key}` without a threshold"), "of which event?");
            problems.push(fault.help("add `above` or `below`, or leave it out").at(at));
        }
    }
    let limit = above.map(|above| Limit::Above(above.value));
    let limit = limit.or(below.map(|below| Limit::Below(below.value)));
    let (paths, places) =
        paths.unwrap_or_default().into_iter().map(|path| (path.value, path.at)).unzip();
    let lasting = lasting.map_or(Duration::ZERO, |lasting| lasting.value);
    (limit.map(|limit| Threshold { limit, lasting, paths }), places)
}

/// Reads a name: it is as instruments are called, so that expressions can have it;
/// and no field of the kernel's begins so.
fn parse_name(name: &str) -> Result<String, Fault> {
    let is_instrument = STANDARD.iter().any(|known| known.name == name);
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME_BYTES;
    if is_instrument {
        let title = format!("{} is an instrument", quoted(name));
        return Err(Fault::new(title, "would be two things").help("choose another name"));
    }
    if !is_name {
        let title = format!("{} is no name of a derived event", quoted(name));
        let label = format!("a capital, then letters and digits, {MAX_NAME_BYTES} at most");
        return Err(Fault::new(title, label).help("write it as AveBW"));
    }
    Ok(name.to_owned())
}

fn parse_unit(unit: &str) -> Result<String, Fault> {
    if unit.is_empty() || unit.len() > MAX_UNIT_BYTES || !unit.chars().all(|c| c.is_ascii_graphic())
    {
        let label = format!("1 to {MAX_UNIT_BYTES} characters without spaces, as bit/s");
        return Err(Fault::new(format!("{} is no unit", quoted(unit)), label));
    }
    Ok(unit.to_owned())
}

/// Checks what only shows once all of the file is read: names given twice, too many
/// of them, paths that are not there.
pub fn check(
    (derived, sites): (&Derived, &[Site]),
    (known, unread): (&HashSet<&str>, &Unread),
    problems: &mut Problems,
) {
    if let Some(site) = sites.get(MAX_DERIVED) {
        let label = format!("at most {MAX_DERIVED}");
        problems.push(Fault::new("too many derived events", label).at(site.name));
    }
    let metrics: Vec<_> = sites.iter().filter_map(|site| site.metric).collect();
    if let Some(at) = metrics.get(MAX_METRICS) {
        let title = format!("{} derived events are metrics", metrics.len());
        let fault = Fault::new(title, format!("at most {MAX_METRICS}"));
        problems.push(fault.help("Prometheus can work out the others from its own rules").at(*at));
    }
    for (index, (definition, site)) in derived.0.iter().zip(sites).enumerate() {
        let before = derived.0[..index].iter().position(|other| other.name == definition.name);
        if let Some(before) = before {
            let fault = Fault::new("two derived events have the same name", "the second");
            let fault = fault.help("rename one of them").at(site.name);
            problems.push(fault.also(sites[before].name, "the first"));
        }
        let paths = definition.threshold.iter().flat_map(|threshold| &threshold.paths);
        let is_known = |path: &str| known.contains(path) || unread.may_have(path);
        for (path, at) in paths.zip(&site.paths).filter(|(path, _)| !is_known(path)) {
            let title = format!("no path is called {}", quoted(path));
            let fault = Fault::new(title, "the event could never be");
            problems.push(fault.help("write the `name` of a [[path]]").at(*at));
        }
    }
}
