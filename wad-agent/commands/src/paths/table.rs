//! Shows what is known of paths, for people: a table of the sources, one of the
//! paths.

use std::{
    fmt::Display,
    io::{self, Write},
};

use wad_agent::{
    heard::words,
    paths::{
        ConditionsInfo, Known, LearnedInfo, MeasuredInfo, PathInfo, Paths, RefusedInfo, SourceInfo,
    },
};
use wad_peers::told::{TextValue, Value};
use wad_policy::config::fields;
use wad_toolbox::text_table::TextTable;

use crate::output;

/// Rows of paths before the rest is only counted.
const MOST_PATHS: usize = 50;

pub fn write(paths: &Paths, out: &mut dyn Write) -> io::Result<()> {
    if !paths.sources.is_empty() {
        let titles = ["SOURCE", "KIND", "POLLS", "ERRORS", "LAST VALUE", "URL"];
        let rows = paths.sources.iter().map(source);
        output::write(out, TextTable::new(titles).with_rows(rows))?;
        for source in &paths.sources {
            if let Some(error) = &source.error {
                writeln!(out, "{}: {error}", source.name.escape_debug())?;
            }
        }
        writeln!(out)?;
    }
    let known = ["PATH", "BANDWIDTH", "RTT", "LOSS", "REORDERED", "POLICY FOR"];
    let titles = known.into_iter().chain(columns().map(|(title, _)| title));
    let rows = paths.paths.iter().take(MOST_PATHS).map(path);
    output::write(out, TextTable::new(titles).with_rows(rows))?;
    match paths.paths.len().saturating_sub(MOST_PATHS) {
        0 => {}
        more => writeln!(out, "and {more} more paths; --json has them all")?,
    }
    write_learned(&paths.paths, out)?;
    write_peers(paths, out)?;
    write_refused(&paths.paths, out)
}

/// Shows what peers say, from where they have it, and which paths follow it.
fn write_peers(paths: &Paths, out: &mut dyn Write) -> io::Result<()> {
    let by_peer =
        paths.paths.iter().filter_map(|path| Some((path, path.by_peer.as_ref()?.words()?)));
    let lines: Vec<_> =
        by_peer.map(|(path, it)| format!("{}: {it}", path.name.escape_debug())).collect();
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().take(MOST_PATHS).try_for_each(|line| writeln!(out, "{line}"))?;
    match lines.len().saturating_sub(MOST_PATHS) {
        0 => {}
        more => writeln!(out, "and {more} more by a peer's word; --json has them all")?,
    }
    let heard = || paths.peers.iter().filter_map(|it| Some((&it.name, it.heard.as_ref()?)));
    if heard().next().is_none() {
        return Ok(());
    }
    writeln!(out)?;
    let titles = ["PEER", "SAYS OF", "LAW", "NEEDS HERE", "BANDWIDTH", "RTT", "BEST RATE"];
    let rows = heard().flat_map(|(name, heard)| {
        [("sending", &heard.sending), ("receiving", &heard.receiving)].map(|(direction, said)| {
            let law =
                |law: &TextValue| sourced(law.value.escape_debug(), &law.source, law.age_seconds);
            let number = |said: &Option<Value>, shown: fn(f64) -> String| {
                let shown = |it: &Value| sourced(shown(it.value), &it.source, it.age_seconds);
                said.as_ref().map_or_else(|| "-".to_owned(), shown)
            };
            [
                name.escape_debug().to_string(),
                direction.to_owned(),
                said.law.as_ref().map_or_else(|| "-".to_owned(), law),
                number(&said.wanted_window_bytes, |bytes| format!("{bytes:.0}")),
                number(&said.bandwidth_bits_per_second, bit_rate),
                number(&said.min_rtt_seconds, milliseconds),
                number(&said.best_rate_bits_per_second, bit_rate),
            ]
        })
    });
    output::write(out, TextTable::new(titles).with_rows(rows))?;
    heard()
        .try_for_each(|(name, it)| writeln!(out, "{}", words(&name.escape_debug().to_string(), it)))
}

/// A value, where the peer has it from, and how old it is.
fn sourced(value: impl Display, source: &str, age_seconds: f64) -> String {
    format!("{value} {} {}", source.escape_debug(), time(age_seconds))
}
/// Says why paths are in force that no file has.
fn write_learned(paths: &[PathInfo], out: &mut dyn Write) -> io::Result<()> {
    let learned = paths.iter().filter_map(|path| Some((&path.name, path.learned.as_ref()?)));
    let mut lines = learned
        .map(|(name, learned)| format!("{}: {}", name.escape_debug(), learned.evidence))
        .peekable();
    if lines.peek().is_some() {
        writeln!(out)?;
    }
    lines.by_ref().take(MOST_PATHS).try_for_each(|line| writeln!(out, "{line}"))?;
    match lines.count() {
        0 => Ok(()),
        more => writeln!(out, "and {more} more that are learned; --json has them all"),
    }
}

/// Says which values do not count.
fn write_refused(paths: &[PathInfo], out: &mut dyn Write) -> io::Result<()> {
    let refused = |path: &PathInfo| {
        let refused = path.measured.as_ref().map_or(&[][..], |measured| &measured.refused[..]);
        let line =
            |refused: &RefusedInfo| format!("{}: {}", path.name.escape_debug(), refused.text);
        refused.iter().map(line).collect::<Vec<_>>()
    };
    let lines: Vec<_> = paths.iter().flat_map(refused).collect();
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().take(MOST_PATHS).try_for_each(|line| writeln!(out, "{line}"))?;
    match lines.len().saturating_sub(MOST_PATHS) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more values that do not count; --json has them all"),
    }
}

fn source(source: &SourceInfo) -> [String; 6] {
    let errors: u64 = source.errors.values().fold(0, |sum, count| sum.saturating_add(*count));
    [
        source.name.escape_debug().to_string(),
        source.kind.clone(),
        source.polls.to_string(),
        errors.to_string(),
        source.age_seconds.map_or("never".to_owned(), |age| format!("{} ago", time(age))),
        source.url.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// The fields of the policy that have a column: its title, and the value's name.
fn columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    fields::shown_of_paths().iter().filter_map(|(_, shown)| Some((shown.title?, shown.name)))
}

fn path(path: &PathInfo) -> Vec<String> {
    let dash = || "-".to_owned();
    let mut row = vec![path.name.escape_debug().to_string()];
    let without = |policy_is_for| [dash(), dash(), dash(), dash(), policy_is_for];
    row.extend(match (&path.measured, &path.learned) {
        (Some(measured), _) => measurements(measured),
        (None, Some(LearnedInfo { bits_per_second, rtt_seconds, .. })) => {
            without(format!("{}, {}", bit_rate(*bits_per_second), milliseconds(*rtt_seconds)))
        }
        (None, None) => without("the file".to_owned()),
    });
    let setting = |name| path.policy.get(name).map_or_else(dash, ToString::to_string);
    row.extend(columns().map(|(_, name)| setting(name)));
    row
}

fn measurements(measured: &MeasuredInfo) -> [String; 5] {
    let policy_is_for = conditions(measured.policy_is_for);
    [
        known(measured.bandwidth_bits_per_second.as_ref(), bit_rate),
        known(measured.rtt_seconds.as_ref(), milliseconds),
        known(measured.loss.as_ref(), |loss| format!("{loss:.1e}")),
        known(measured.reordering.as_ref(), |part| format!("{part:.1e}")),
        policy_is_for,
    ]
}

/// The policy in force is made of this.
fn conditions(known: ConditionsInfo) -> String {
    let rate = known.bits_per_second.zip(known.rtt_seconds);
    let parts = [
        rate.map(|(rate, rtt)| format!("{}, {}", bit_rate(rate), milliseconds(rtt))),
        known.reorder_segments.map(|segments| format!("reordering by {segments}")),
        known.is_leaky.then(|| "losses without a queue".to_owned()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing known".to_owned() } else { parts.join(", ") }
}

/// The value, where it is from, and how old; in brackets where that is too old.
fn known(known: Option<&Known>, shown: impl Fn(f64) -> String) -> String {
    let Some(Known { value, source, age_seconds, is_stale }) = known else {
        return "-".to_owned();
    };
    let text = format!("{} {} {}", shown(*value), source.escape_debug(), time(*age_seconds));
    if *is_stale { format!("({text})") } else { text }
}

fn bit_rate(bits_per_second: f64) -> String {
    if bits_per_second >= 1e9 {
        format!("{:.2} Gbit/s", bits_per_second / 1e9)
    } else {
        format!("{:.1} Mbit/s", bits_per_second / 1e6)
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

/// Returns the time in the largest unit of which there are two.
fn time(seconds: f64) -> String {
    match seconds {
        0.0..120.0 => format!("{seconds:.0}s"),
        120.0..7_200.0 => format!("{:.0}min", seconds / 60.0),
        7_200.0..172_800.0 => format!("{:.0}h", seconds / 3_600.0),
        _ => format!("{:.0}d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use wad_agent::paths::testing::example;

    use super::*;

    #[test]
    fn is_as_agreed() {
        let mut out = Vec::new();
        write(&example(), &mut out).unwrap();
        let expected = "\
SOURCE   KIND        POLLS  ERRORS  LAST VALUE  URL
monitor  prometheus  12     3       never       https://prometheus.example.org
monitor: no whole answer within 10 s

PATH    BANDWIDTH                 RTT                     LOSS                 REORDERED  POLICY FOR               SNDBUF   RCVBUF  CONGESTION
bob     622.0 Mbit/s monitor 4s   (70.0 ms monitor 3min)  1.0e-5 monitor 119s  -          622.0 Mbit/s, 50.0 ms    4859375  -       wad_aimd
static  -                         -                       -                    -          the file                 1048576  -       -
learned-203.0.113.0/24 - - - - 1.40 Gbit/s, 70.0 ms 15312500 - -

learned-203.0.113.0/24: connections were limited by the send buffer 71% of the time

bob: a bandwidth of 6.22e-4 Mbit/s by source monitor does not count
";
        let normal = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(normal(&String::from_utf8(out).unwrap()), normal(expected));
    }

    #[test]
    fn what_a_policy_is_made_of_is_listed() {
        let nothing = ConditionsInfo {
            bits_per_second: None,
            rtt_seconds: Some(0.05),
            reorder_segments: None,
            is_leaky: false,
        };
        assert_eq!(conditions(nothing), "nothing known");
        let traits = ConditionsInfo { reorder_segments: Some(19), is_leaky: true, ..nothing };
        assert_eq!(conditions(traits), "reordering by 19, losses without a queue");
        let all = ConditionsInfo { bits_per_second: Some(1e9), ..traits };
        assert!(conditions(all).starts_with("1.00 Gbit/s, 50.0 ms, reordering"));
    }

    #[test]
    fn many_paths_are_counted_not_listed() {
        let mut paths = example();
        paths.paths = vec![paths.paths[1].clone(); 1_000];
        let mut out = Vec::new();
        write(&paths, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("and 950 more paths; --json has them all\n"), "{text}");
    }
}
