//! Shows what a reload changed, for people.

use anyhow::Result;
use wad_agent::reload::{Diff, Names};

use crate::output;

pub fn print(policy_set: u64, diff: &Diff) -> Result<()> {
    output::print(text(policy_set, diff))
}

fn text(policy_set: u64, diff: &Diff) -> String {
    let mut text = format!(
        "policy set {policy_set} is in force: {} added, {} changed, {} removed, {} as before\n",
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
    ] {
        if !names.is_empty() {
            text += &format!("{what:<8} {}\n", Names(names));
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
