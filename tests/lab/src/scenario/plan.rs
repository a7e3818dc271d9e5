//! A variant's policy may be the one that `wad plan` or `wad suggest` prints for the path:
//! taken from what it prints as a user takes it, with nothing changed but, of a plan, the
//! network of the other end.

use serde::Deserialize;
use toml::{Table, Value};
use wad_testbed::emulated::path::Path;

use super::policy::REMOTE;

/// A policy begins with this line, and ends before an empty one.
const HEAD: &str = "[[path]]";

/// Tells which of the policies that are printed is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plan {
    /// The one that comes first, which is what most paste.
    First,
    /// The first that takes no consent of others.
    Fair,
    /// The first that takes the consent of who shares the path.
    Allowed,
    /// All of what `wad suggest` prints, which has watched connections of the path.
    Suggested,
}

impl Plan {
    /// Returns what it is called in a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::First => "policy",
            Self::Fair => "fair policy",
            Self::Allowed => "policy that takes consent",
            Self::Suggested => "path",
        }
    }

    /// Returns the arguments of `wad` for a path.
    #[must_use]
    pub fn arguments(self, path: &Path) -> Vec<String> {
        if self == Self::Suggested {
            return vec!["suggest".to_owned()];
        }
        let bits = path.forward.rate.bits_per_second;
        let rate = match bits.is_multiple_of(1_000_000) {
            true => format!("{}Mbit", bits / 1_000_000),
            false => format!("{bits}bit"),
        };
        let rtt = format!("{}ms", path.rtt.0.as_secs_f64() * 1e3);
        let mtu = path.mtu.to_string();
        let mut arguments =
            ["plan", "--rate", &rate, "--rtt", &rtt, "--mtu", &mtu].map(str::to_owned).to_vec();
        if path.forward.loss > 0.0 {
            arguments.extend(["--loss".to_owned(), format!("{:e}", path.forward.loss)]);
        }
        arguments
    }

    /// Returns the policy that is meant of those in a plan's text, for the lab's network;
    /// none where no such is printed.
    #[must_use]
    pub fn policy(self, printed: &str) -> Option<String> {
        let mut policies = policies(printed).into_iter();
        let policy = match self {
            Self::First => policies.next(),
            Self::Fair => policies.find(|policy| !takes_consent(policy)),
            Self::Allowed => policies.find(|policy| takes_consent(policy)),
            // Nothing is left for whoever pastes it to change.
            Self::Suggested => {
                return printed.contains("\n[[path]]").then(|| printed.to_owned());
            }
        };
        for_network(&policy?)
    }
}

fn policies(printed: &str) -> Vec<String> {
    let mut policies: Vec<String> = Vec::new();
    let mut is_within = false;
    for line in printed.lines() {
        if line == HEAD {
            policies.push(String::new());
        }
        is_within = line == HEAD || is_within && !line.trim().is_empty();
        if let Some(policy) = policies.last_mut().filter(|_| is_within) {
            policy.push_str(line);
            policy.push('\n');
        }
    }
    policies
}

fn takes_consent(policy: &str) -> bool {
    let table = policy.parse::<Table>().ok();
    table.is_some_and(|table| {
        table.get("path").and_then(|paths| paths.get(0)?.get("allow")).is_some_and(Value::is_str)
    })
}

/// Writes the lab's network where the plan leaves a place for it: the one line that
/// whoever pastes has to change.
fn for_network(policy: &str) -> Option<String> {
    let is_remote = |line: &&str| line.starts_with("remote = ");
    if policy.lines().filter(is_remote).count() != 1 {
        return None;
    }
    let lines = policy.lines().map(|line| match is_remote(&line) {
        true => format!("remote = \"{REMOTE}\"\n"),
        false => format!("{line}\n"),
    });
    Some(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "600 Mbit/s, 120 ms round trip\n\nThe policy to paste:\n\n\
        [[path]]\nname = \"planned\"\nremote = \"192.0.2.0/24\"  # the network of the other end\n\
        rtt = \"120ms\"\n\nWhere all who share it agree:\n\n\
        [[path]]\nname = \"planned\"\nremote = \"192.0.2.0/24\"\n# more\nallow = \"aggressive\"\n";

    #[test]
    fn a_policy_is_taken_as_it_is_printed() {
        let first = "[[path]]\nname = \"planned\"\nremote = \"10.77.0.0/16\"\nrtt = \"120ms\"\n";
        assert_eq!(Plan::First.policy(PRINTED).unwrap(), first);
        assert_eq!(Plan::Fair.policy(PRINTED).unwrap(), first);
        let allowed = "[[path]]\nname = \"planned\"\nremote = \"10.77.0.0/16\"\n# more\n\
                       allow = \"aggressive\"\n";
        assert_eq!(Plan::Allowed.policy(PRINTED).unwrap(), allowed);
    }

    #[test]
    fn what_is_not_printed_is_not_made_up() {
        let only = PRINTED.split("Where").next().unwrap();
        assert_eq!(Plan::Allowed.policy(only), None);
        assert_eq!(Plan::First.policy("no policy\n"), None);
        assert_eq!(Plan::First.policy("[[path]]\nname = \"planned\"\n"), None);
    }

    #[test]
    fn a_suggestion_is_pasted_as_it_is() {
        let suggested = "# Watched.\n\n# evidence\n[[path]]\nremote = \"10.77.0.2\"\n";
        assert_eq!(Plan::Suggested.policy(suggested).unwrap(), suggested);
        assert_eq!(Plan::Suggested.policy("# Nothing here would help any of them.\n"), None);
    }

    #[test]
    fn the_question_is_the_path() {
        let path = |text: &str| toml::from_str::<Path>(text).unwrap();
        let mut path = path("rtt = '120ms'\nforward = { rate = '600Mbit', queue.bdp = 1 }");
        let words = "plan --rate 600Mbit --rtt 120ms --mtu 1500";
        assert_eq!(Plan::First.arguments(&path).join(" "), words);
        path.forward.loss = 1e-5;
        let words = format!("{words} --loss 1e-5");
        assert_eq!(Plan::First.arguments(&path).join(" "), words);
    }
}
