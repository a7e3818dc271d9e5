//! Shows what a reload changed, or would change, for people.

use anyhow::Result;
use wad_agent::reload::{Changes, Diff, Names, PathPreview, SettingPreview};
use wad_policy::config::Value;
use wad_tuning::preview::{HostPreview, Move};

use crate::output;

pub fn print(policy_set: u64, diff: &Diff) -> Result<()> {
    output::print(text(policy_set, diff))
}

/// Returns what would change.
pub fn preview(changes: &Changes) -> String {
    let Changes { diff, flows, host } = changes;
    let mut text = differences("it would be in force", diff, Listed::All);
    for PathPreview { path, settings } in flows {
        for SettingPreview { name, before, after } in settings {
            let value = |value: &Option<Value>| {
                value.as_ref().map_or_else(|| "the kernel's".to_owned(), ToString::to_string)
            };
            let (before, after) = (value(before), value(after));
            text += &format!("path {}: {name} {before} -> {after}\n", path.escape_debug());
        }
    }
    let HostPreview { modules, congestion_controls, sysctls, transmit_queues, rules } = host;
    if !modules.is_empty() {
        text += &format!("the kernel would load {}\n", modules.join(", "));
    }
    if !congestion_controls.is_empty() {
        text += &format!("the kernel would get {}\n", congestion_controls.join(", "));
    }
    for Move { name, before, after } in sysctls {
        text += &format!("{name} {} -> {}\n", spaced(before), spaced(after));
    }
    for Move { name, before, after } in transmit_queues {
        text += &format!("transmit queue of {name} {before} -> {after} packets\n");
    }
    if let Some(Move { before, after, .. }) = rules {
        text += &format!("rules of routes {before} -> {after}\n");
    }
    text
}

/// The kernel separates numbers by tabs.
fn spaced(value: &str) -> String {
    value.replace('\t', " ")
}

fn text(policy_set: u64, diff: &Diff) -> String {
    differences(&format!("policy set {policy_set} is in force"), diff, Listed::First)
}

/// Says which names of a long list are shown.
#[derive(Clone, Copy)]
enum Listed {
    First,
    All,
}

fn differences(what: &str, diff: &Diff, listed: Listed) -> String {
    let mut text = format!(
        "{what}: {} added, {} changed, {} removed, {} as before\n",
        diff.added.len(),
        diff.changed.len(),
        diff.removed.len(),
        diff.unchanged
    );
    for (what, names) in [
        ("added", &diff.added),
        ("changed", &diff.changed),
        ("removed", &diff.removed),
        ("set", &diff.settings),
        ("added sink", &diff.sinks.added),
        ("changed sink", &diff.sinks.changed),
        ("removed sink", &diff.sinks.removed),
        ("added trace", &diff.traces.added),
        ("changed trace", &diff.traces.changed),
        ("removed trace", &diff.traces.removed),
    ] {
        if !names.is_empty() {
            let names = match listed {
                Listed::First => Names(names).to_string(),
                Listed::All => names.join(", "),
            };
            text += &format!("{what:<8} {names}\n");
        }
    }
    if diff.reordered {
        text += "paths stand in another order\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_has_old_and_new_values() {
        let diff = Diff { changed: vec!["a".to_owned()], unchanged: 1, ..Diff::default() };
        let setting = SettingPreview {
            name: "sndbuf_bytes".to_owned(),
            before: None,
            after: Some(Value::Whole(1_048_576)),
        };
        let flows = vec![PathPreview { path: "a".to_owned(), settings: vec![setting] }];
        let host = HostPreview {
            modules: vec!["tcp_bbr".to_owned()],
            congestion_controls: vec!["wad_aimd".to_owned()],
            sysctls: Move::of("net.core.wmem_max", "212992", "1048576").into_iter().collect(),
            transmit_queues: Move::of("eth0", "1000", "9000").into_iter().collect(),
            rules: Move::of("rules", "0", "2"),
        };
        assert_eq!(
            preview(&Changes { diff, flows, host }),
            "it would be in force: 0 added, 1 changed, 0 removed, 1 as before\nchanged  a\n\
             path a: sndbuf_bytes the kernel's -> 1048576\nthe kernel would load tcp_bbr\n\
             the kernel would get wad_aimd\nnet.core.wmem_max 212992 -> 1048576\n\
             transmit queue of eth0 1000 -> 9000 packets\nrules of routes 0 -> 2\n"
        );
    }

    #[test]
    fn only_what_differs_is_listed() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let diff = Diff {
            added: names(&["a", "b"]),
            removed: names(&["c"]),
            unchanged: 7,
            reordered: true,
            ..Diff::default()
        };
        assert_eq!(
            text(5, &diff),
            "policy set 5 is in force: 2 added, 0 changed, 1 removed, 7 as before\n\
             added    a, b\nremoved  c\npaths stand in another order\n"
        );
    }
}
