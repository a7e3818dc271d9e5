//! Ports as users write them: a number, a range in quotes, or a list of both.

use toml::de::DeValue;
use wad_common::{policy::RULES_PER_ADDRESS, ports::PortRange};

use super::{
    fault::{Fault, Problem, Problems, quoted},
    table::{self, Located, Table},
};

/// The ports that a connection can have.
const PORTS: std::ops::RangeInclusive<u64> = 1..=65_535;

/// Reads the ranges under a key: none for any port, or where something is wrong.
pub fn read(table: &Table<'_>, key: &str, problems: &mut Problems) -> Vec<PortRange> {
    let before = problems.count();
    // 0 is the papers' way to say any, where it is all that is said.
    let alone = !table.is_array(key);
    let read = table.read_list(key, problems, |value| parse(value, alone));
    let entries = read.unwrap_or_default();
    if let Some(beyond) = entries.get(RULES_PER_ADDRESS) {
        let fault = Fault::new(
            format!("`{key}`: {} entries", entries.len()),
            format!("at most {RULES_PER_ADDRESS} rules can apply to one remote address"),
        );
        let help = "join them to ranges: \"8000-8079\" is one entry";
        problems.push(fault.help(help).at(beyond.at));
    } else {
        (1..entries.len())
            .filter_map(|n| twice(key, &entries[..=n]))
            .for_each(|p| problems.push(p));
    }
    let is_any = entries.iter().any(|entry| entry.value == PortRange::ANY);
    if is_any || problems.count() > before {
        return Vec::new();
    }
    entries.into_iter().map(|entry| entry.value).collect()
}

/// A port or a range.
fn parse(value: &DeValue<'_>, alone: bool) -> Result<PortRange, Fault> {
    match value {
        DeValue::String(text) => range(text),
        DeValue::Integer(_) if alone => {
            let port = table::integer(value, 0..=*PORTS.end(), "(0 for any)")?;
            Ok(if port == 0 { PortRange::ANY } else { PortRange::only(port as u16) })
        }
        // In range, hence whole.
        DeValue::Integer(_) => {
            table::integer(value, PORTS, "in a list").map(|port| PortRange::only(port as u16))
        }
        _ if alone => {
            Err(table::wrong_type(value, "a port, a range such as \"50000-51000\", or a list"))
        }
        _ => Err(table::wrong_type(value, "a port, or a range such as \"50000-51000\"")),
    }
}

/// A range such as `50000-51000`.
fn range(text: &str) -> Result<PortRange, Fault> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some((first, last)) = text.split_once('-').filter(|(a, b)| is_number(a) && is_number(b))
    else {
        let fault = Fault::new(
            format!("{} is no range of ports", quoted(text)),
            "a range has its first and its last port, with - in between",
        );
        return Err(fault.help(if is_number(text) {
            "write one port without quotes, a range as \"50000-51000\""
        } else {
            "write \"50000-51000\"; names of services are not taken"
        }));
    };
    // What has too many digits for 64 bits is no port either.
    let port = |text: &str| {
        let port = text.parse().ok().filter(|port| PORTS.contains(port));
        port.map(|port| port as u16).ok_or_else(|| table::out_of_range(&PORTS, ""))
    };
    match (port(first)?, port(last)?) {
        (first, last) if first > last => Err(Fault::new(
            format!("{} is the wrong way round", quoted(text)),
            "its first port is above its last",
        )
        .help(format!("write \"{last}-{first}\""))),
        // No connection has port 0.
        (1, u16::MAX) => Ok(PortRange::ANY),
        (first, last) => Ok(PortRange { first, last }),
    }
}

/// Returns what is wrong if the last of these entries has ports that one before has.
fn twice(key: &str, entries: &[Located<PortRange>]) -> Option<Problem> {
    let (last, before) = entries.split_last()?;
    let (first, common) = before.iter().find_map(|first| {
        let common = first.value.common(last.value)?;
        Some((first, common))
    })?;
    let verb = if common.count() == 1 { "is" } else { "are" };
    let fault = Fault::new(format!("`{key}`: {common} {verb} there twice"), "the second time");
    let help = "leave one of the two out, or join them to one range";
    Some(fault.help(help).at(last.at).also(first.at, "the first"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        for (text, first, last) in [
            ("50000-51000", 50_000, 51_000),
            ("443-443", 443, 443),
            ("1-65534", 1, 65_534),
            ("2-65535", 2, 65_535),
            ("0080-0443", 80, 443),
        ] {
            assert_eq!(range(text), Ok(PortRange { first, last }), "{text}");
        }
        assert_eq!(range("1-65535"), Ok(PortRange::ANY));
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_to_do() {
        for (text, title) in [
            ("443", "`443` is no range of ports"),
            ("", "`` is no range of ports"),
            ("-", "`-` is no range of ports"),
            ("1-", "`1-` is no range of ports"),
            ("-5", "`-5` is no range of ports"),
            ("1-2-3", "`1-2-3` is no range of ports"),
            ("1 - 2", "`1 - 2` is no range of ports"),
            ("+1-2", "`+1-2` is no range of ports"),
            ("1:2", "`1:2` is no range of ports"),
            ("https", "`https` is no range of ports"),
            ("0-80", "out of range"),
            ("80-65536", "out of range"),
            ("80-99999999999999999999999", "out of range"),
            ("51000-50000", "`51000-50000` is the wrong way round"),
        ] {
            let fault = range(text).expect_err(text);
            assert_eq!(fault.title, title, "{text}");
        }
    }
}
