//! The book says what was in force while each variant ran: the policy, the sysctls and the
//! queueing discipline. What is the same for all stands once.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::report::{Variant, called};

/// The policy stands among the settings under this name.
pub const POLICY: &str = "wad";

/// Returns the settings of variants that were run.
pub fn section(variants: &[&Variant]) -> String {
    let Some(first) = variants.first() else { return String::new() };
    let is_common = |(name, value): &(&String, &String)| {
        *name != POLICY && variants.iter().all(|variant| variant.settings.get(*name) == Some(value))
    };
    let common: BTreeMap<&String, &String> = first.settings.iter().filter(is_common).collect();
    let mut text = "Settings of all: ".to_owned() + &listed(common.iter().map(|(a, b)| (*a, *b)));
    text.push_str(".\n");
    for (own, names) in groups(variants, &common) {
        let _ = write!(text, "\n{}: ", called(variants, &names));
        let others = own.iter().filter(|(name, _)| name.as_str() != POLICY);
        let others = listed(others.map(|(name, value)| (*name, *value)));
        if !others.is_empty() {
            let _ = write!(text, "{others}; ");
        }
        match own.iter().find(|(name, _)| name.as_str() == POLICY) {
            Some((_, policy)) if policy.contains("[[") => {
                let _ = write!(text, "wad runs with\n\n```text\n{}\n```\n", policy.trim_end());
            }
            _ => text.push_str("wad does not run.\n"),
        }
    }
    text
}

type Settings<'a> = Vec<(&'a String, &'a String)>;

/// Returns what is not common, each with the names of the variants that have it.
fn groups<'a>(
    variants: &[&'a Variant],
    common: &BTreeMap<&String, &String>,
) -> Vec<(Settings<'a>, Vec<&'a str>)> {
    let mut groups: Vec<(Settings<'a>, Vec<&str>)> = Vec::new();
    for variant in variants {
        let own: Settings<'a> =
            variant.settings.iter().filter(|(name, _)| !common.contains_key(name)).collect();
        match groups.iter_mut().find(|(settings, _)| *settings == own) {
            Some((_, names)) => names.push(&variant.name),
            None => groups.push((own, vec![&variant.name])),
        }
    }
    groups
}

fn listed<'a>(settings: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    settings.map(|(name, value)| format!("`{name} = {value}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn policies_sysctls_and_qdisc_are_shown() {
        let mut report = report();
        for (variant, rmem) in report.variants.iter_mut().zip(["1 2 3", "1 2 9"]) {
            let settings = [("qdisc", "fq_codel"), ("net.ipv4.tcp_rmem", rmem), (POLICY, "none")];
            variant.settings =
                settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        }
        let policy = "[[path]]\nname = \"lab\"\n";
        report.variants[1].settings.insert(POLICY.to_owned(), policy.to_owned());
        let variants: Vec<&Variant> = report.variants.iter().collect();
        let text = section(&variants);
        assert!(text.starts_with("Settings of all: `qdisc = fq_codel`.\n"), "{text}");
        assert!(
            text.contains("\nreno: `net.ipv4.tcp_rmem = 1 2 3`; wad does not run.\n"),
            "{text}"
        );
        assert!(
            text.contains("`net.ipv4.tcp_rmem = 1 2 9`; wad runs with\n\n```text\n[[path]]\n"),
            "{text}"
        );
    }

    #[test]
    fn variants_that_are_alike_stand_together() {
        let mut report = report();
        report.variants.iter_mut().for_each(|variant| {
            variant.settings = [("qdisc".to_owned(), "fq_codel".to_owned())].into();
        });
        let variants: Vec<&Variant> = report.variants.iter().collect();
        assert!(section(&variants).contains("\nreno, wad_aimd: wad does not run.\n"));
        assert_eq!(section(&[]), "");
    }
}
