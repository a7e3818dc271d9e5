//! The agent's configuration for an experiment is made of the few keys that a scenario
//! states: the addresses and ports are the lab's own.

use std::fmt::Write;

use toml::{Table, Value};
use wad_testbed::emulated::path::Path;

use super::group::Group;

/// This network has all addresses between which data is sent over the lab's path.
pub const REMOTE: &str = "10.77.0.0/16";
/// This network has those of a second path beside it.
const SECOND: &str = "10.78.0.0/16";
/// Receivers need these keys.
const BUFFERS: [&str; 2] = ["sndbuf", "rcvbuf"];

/// Tells whether what the path carries is not written down, but measured.
fn is_measured(keys: &Table) -> bool {
    keys.get("mode").and_then(Value::as_str) == Some("measured")
}

/// Tells whether it takes metrics of routes.
#[must_use]
pub fn is_routed(keys: &Table) -> bool {
    keys.contains_key("reorder")
}

/// Returns the configuration for these groups of flows, each with its table of keys or
/// none; none at all if no group has one: no agent runs then. A group's keys go before
/// those that are `common` to all. Limits are the agent's own, as everyone has them.
#[must_use]
pub fn text(common: &Table, groups: &[(&Group, Option<&Table>)], path: &Path) -> Option<String> {
    let mut text = String::new();
    // One group's path has no port, so that it is the receiver's, too. But a buffer
    // that is divided would be among both ends.
    let divides = |own: &Table| own.get("divide").and_then(Value::as_bool) == Some(true);
    let are_apart = groups.len() > 1 || groups.iter().any(|(_, own)| own.is_some_and(divides));
    for (group, own) in groups {
        let Some(own) = own else { continue };
        let mut keys = common.clone();
        keys.extend((*own).clone());
        let port = are_apart.then_some(group.port);
        text.push_str(&section(&group.name, (REMOTE, port), keys, path));
    }
    if text.is_empty() {
        return None;
    }
    if are_apart {
        let buffers = common.iter().filter(|(key, _)| BUFFERS.contains(&key.as_str()));
        let keys = buffers.map(|(key, value)| (key.clone(), value.clone())).collect();
        text.push_str(&section("receivers", (REMOTE, None), keys, path));
    }
    if groups.iter().any(|(_, own)| own.is_some_and(is_routed)) {
        text.push_str("[host]\nroutes = true\n\n");
    }
    Some(text)
}

/// Returns the section of a second path, for both of its ends.
#[must_use]
pub fn of_second(common: &Table, own: &Table, path: &Path) -> String {
    let mut keys = common.clone();
    keys.extend(own.clone());
    section("second", (SECOND, None), keys, path)
}

fn section(
    name: &str,
    (remote, remote_port): (&str, Option<u16>),
    mut keys: Table,
    path: &Path,
) -> String {
    // "auto" is made of these two, but not that of pacing; where nothing needs
    // them, they are refused. A measured path is to find out by itself.
    let is_auto =
        |(key, value): (&String, &Value)| key != "pacing" && value.as_str() == Some("auto");
    if keys.iter().any(is_auto) && !is_measured(&keys) {
        let rate = format!("{}bit", path.forward.rate.bits_per_second);
        keys.entry("bandwidth").or_insert(Value::String(rate));
        let rtt = format!("{}us", path.rtt.0.as_micros());
        keys.entry("rtt").or_insert(Value::String(rtt));
    }
    let mut text = format!("[[path]]\nname = \"{name}\"\nremote = \"{remote}\"\n");
    if let Some(port) = remote_port {
        let _ = writeln!(text, "remote_port = {port}");
    }
    for (key, value) in keys {
        let _ = writeln!(text, "{key} = {value}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wad_testbed::emulated::units::Span;

    fn path() -> Path {
        toml::from_str("rtt = '70ms'\nforward = { rate = '622Mbit', queue.bdp = 1 }").unwrap()
    }

    fn group(name: &str, port: u16) -> Group {
        Group { name: name.to_owned(), streams: 1, start: Span::default(), port }
    }

    #[test]
    fn one_group_gets_one_path_for_both_ends() {
        let common: Table = toml::from_str("sndbuf = 'auto'\ncongestion = 'reno'").unwrap();
        let own: Table = toml::from_str("congestion = 'bbr'").unwrap();
        let text = text(&common, &[(&group("lab", 5001), Some(&own))], &path()).unwrap();
        let parsed: Table = text.parse().unwrap();
        let policy = &parsed["path"][0];
        assert_eq!(policy["congestion"].as_str(), Some("bbr"));
        assert_eq!(policy["bandwidth"].as_str(), Some("622000000bit"));
        assert_eq!(policy["rtt"].as_str(), Some("70000us"));
        assert!(
            policy.get("remote_port").is_none() && parsed["path"].as_array().unwrap().len() == 1
        );
    }

    #[test]
    fn what_takes_routes_gets_them() {
        let text = |policy: &str| {
            let own: Table = policy.parse().unwrap();
            text(&Table::new(), &[(&group("lab", 5001), Some(&own))], &path()).unwrap()
        };
        let parsed: Table = text("reorder = 19").parse().unwrap();
        assert_eq!(parsed["host"]["routes"].as_bool(), Some(true));
        assert!(!text("sndbuf = '4MiB'").contains("[host]"));
    }

    #[test]
    fn what_is_measured_is_not_written_down() {
        let common: Table = toml::from_str("sndbuf = 'auto'").unwrap();
        let own: Table = toml::from_str("mode = 'measured'").unwrap();
        let text = text(&common, &[(&group("lab", 5001), Some(&own))], &path()).unwrap();
        assert!(!text.contains("bandwidth") && !text.contains("rtt"), "{text}");
    }

    #[test]
    fn several_groups_are_told_apart_by_port() {
        let common: Table = toml::from_str("rcvbuf = '8MiB'").unwrap();
        let own: Table = toml::from_str("congestion = 'bbr'").unwrap();
        let (one, two) = (group("cubic", 5001), group("bbr", 5002));
        let text = text(&common, &[(&one, None), (&two, Some(&own))], &path()).unwrap();
        let parsed: Table = text.parse().unwrap();
        let paths = parsed["path"].as_array().unwrap();
        assert_eq!(paths.len(), 2);
        assert_eq!(paths[0]["remote_port"].as_integer(), Some(5002));
        assert!(paths[0].get("rtt").is_none(), "nothing is \"auto\"");
        assert_eq!(paths[1]["name"].as_str(), Some("receivers"));
        assert!(paths[1].get("congestion").is_none());
    }

    #[test]
    fn receivers_have_no_part_of_what_senders_divide() {
        let common: Table = toml::from_str("sndbuf = '4MiB'\nrcvbuf = '8MiB'").unwrap();
        let own: Table = toml::from_str("divide = true").unwrap();
        let text = text(&common, &[(&group("lab", 5001), Some(&own))], &path()).unwrap();
        let parsed: Table = text.parse().unwrap();
        let [senders, receivers] = parsed["path"].as_array().unwrap().as_slice() else {
            panic!("{text}")
        };
        assert_eq!(senders["remote_port"].as_integer(), Some(5001));
        assert_eq!(receivers["rcvbuf"].as_str(), Some("8MiB"));
        assert!(receivers.get("divide").is_none());
    }

    #[test]
    fn a_second_path_has_the_same_policy() {
        let common: Table = toml::from_str("sndbuf = 'auto'\ncongestion = 'reno'").unwrap();
        let own: Table = toml::from_str("congestion = 'bbr'").unwrap();
        let parsed: Table = of_second(&common, &own, &path()).parse().unwrap();
        let policy = &parsed["path"][0];
        assert_eq!(policy["remote"].as_str(), Some("10.78.0.0/16"));
        assert_eq!(policy["congestion"].as_str(), Some("bbr"));
        assert_eq!(policy["bandwidth"].as_str(), Some("622000000bit"));
    }

    #[test]
    fn without_a_policy_no_agent_runs() {
        assert_eq!(text(&Table::new(), &[(&group("lab", 5001), None)], &path()), None);
    }
}
