//! Reads which congestion control a path gets, and which keys mean anything to it.

mod named;

use std::{collections::BTreeSet, iter, sync::LazyLock};

use self::named::Named;
use super::{
    Congestion, Host, PassedOver,
    fault::{Fault, Problems, Span},
    field::Field,
    table::{Located, Table},
};
use crate::law::Law;

/// Returns the law that a key of our laws implies where none is chosen: the one that most of the
/// world sends by, unless it is one of AIMD's two numbers.
fn implied(table: &Table<'_>) -> Law {
    let has_pair = ["additive_increase", "decrease"].iter().any(|key| table.has(key));
    if has_pair { Law::Aimd } else { Law::Cubic }
}

/// The keys that only our laws have.
fn keys() -> impl Iterator<Item = &'static str> {
    static KEYS: LazyLock<BTreeSet<&'static str>> =
        LazyLock::new(|| Law::ALL.iter().flat_map(|law| law.entry().keys).copied().collect());
    KEYS.iter().copied()
}

/// Holds what a path gets, and the place that says so.
#[derive(Debug, Default)]
pub struct Choice {
    /// The algorithm; None for the host's default, or where it could not be read.
    pub congestion: Option<Congestion>,
    /// The place in the file; None where a key of a law implies it.
    pub at: Option<Span>,
    /// The choice could not be read: nothing more is to be said about it.
    pub in_doubt: bool,
    /// The place that says that it gives way to [`Law::Leaky`] where that is measured to be
    /// right.
    pub auto_loss: Option<Span>,
    /// The rest of a list, which it may be on another host, or after the next start.
    pub others: Vec<Choice>,
    /// The entries of the list before it can't be had.
    pub passed_over: Vec<PassedOver>,
}

impl Choice {
    pub const fn law(&self) -> Option<Law> {
        match self.congestion {
            Some(Congestion::Ours(law)) => Some(law),
            _ => None,
        }
    }

    /// Returns all that it may be.
    pub fn candidates(&self) -> impl Iterator<Item = &Self> {
        iter::once(self).chain(&self.others)
    }

    fn new(congestion: Congestion, at: Option<Span>) -> Self {
        Self { congestion: Some(congestion), at, ..Self::default() }
    }
}

const AUTO: &str = "auto";

/// Reads `congestion` and `loss`, and what `dedicated` makes of them.
pub fn read(table: &Table<'_>, host: &Host, loss: &Field, problems: &mut Problems) -> Choice {
    let named = named::read(table, host, problems);
    if let Some(at) = table.place("dedicated") {
        check_dedicated(table, at, problems);
        return Choice::new(Congestion::Ours(Law::Dedicated), Some(at));
    }
    let loss = loss.word(table, problems);
    if named.is_none() && table.has("congestion") || loss.is_none() && table.has("loss") {
        return Choice { in_doubt: true, ..Choice::default() };
    }
    let auto_loss = loss.filter(|loss| loss.value == AUTO).map(|loss| loss.at);
    let (named, others, passed_over) = match named {
        Some(Named { chosen, others, passed_over }) => (Some(chosen), others, passed_over),
        None => (None, Vec::new(), Vec::new()),
    };
    let chosen = resolve(table, named, loss, problems);
    let others = others.into_iter().map(|other| resolve(table, Some(other), loss, problems));
    let choice = Choice { auto_loss, others: others.collect(), passed_over, ..chosen };
    check_keys(table, &choice, problems);
    choice
}

fn resolve(
    table: &Table<'_>,
    named: Option<Located<Congestion>>,
    loss: Option<Located<&str>>,
    problems: &mut Problems,
) -> Choice {
    let leaky = loss.filter(|loss| loss.value == "leaky");
    // It goes with any congestion control, the host's default too.
    let is_auto_loss = |key| key == "loss" && loss.is_some_and(|loss| loss.value == AUTO);
    match (named, leaky) {
        (
            None | Some(Located { value: Congestion::Ours(Law::Cubic | Law::Aimd), .. }),
            Some(leaky),
        ) => Choice::new(Congestion::Ours(Law::Leaky), Some(leaky.at)),
        (Some(named), leaky) => {
            // What has no `loss` at all is told so with the other keys.
            if let (Some(leaky), Congestion::Ours(law)) = (leaky, &named.value)
                && law.takes("loss")
            {
                let title = format!("loss = \"leaky\" is a law of its own, not {}", law.name());
                let fault = Fault::new(title, format!("this is {}", Law::Leaky.name()));
                let fault = fault.help("leave one of the two out");
                problems.push(fault.at(leaky.at).also(named.at, "chosen here"));
            }
            Choice::new(named.value, Some(named.at))
        }
        (None, None) if keys().any(|key| table.has(key) && !is_auto_loss(key)) => {
            Choice::new(Congestion::Ours(implied(table)), None)
        }
        (None, None) => Choice::default(),
    }
}

/// Keys without effect on what is chosen.
fn check_keys(table: &Table<'_>, choice: &Choice, problems: &mut Problems) {
    let Some(congestion) = &choice.congestion else { return };
    for key in keys() {
        let Some(at) = table.place(key) else { continue };
        let is_auto_loss = key == "loss" && choice.auto_loss.is_some();
        let takes = |it: &Choice| it.law().is_some_and(|law| law.takes(key));
        if is_auto_loss || choice.candidates().any(takes) {
            continue;
        }
        let laws = Law::with_key(key);
        let title = format!("`{key}` has no effect on {}", congestion.name());
        let have = if laws.len() == 1 { "has" } else { "have" };
        let fault = Fault::new(title, format!("only {} {have} it", listed(&laws))).idle();
        let problem = match choice.at {
            None => fault.help(format!("add congestion = \"{}\"", laws[0].name())).at(at),
            Some(chosen) => {
                let label = match congestion {
                    Congestion::Ours(_) => "chosen here",
                    Congestion::Kernel(_) => "one of the kernel's",
                };
                let help = match choice.law() {
                    Some(_) if key == "idle" => {
                        "leave it out: this law keeps its window when idle by itself"
                    }
                    _ => "leave one of the two out",
                };
                fault.help(help).at(at).also(chosen, label)
            }
        };
        problems.push(problem);
    }
}

/// "a, b and c".
fn listed(laws: &[Law]) -> String {
    match laws {
        [] => String::new(),
        [one] => one.name().to_owned(),
        [rest @ .., last] => {
            let rest: Vec<_> = rest.iter().map(|law| law.name()).collect();
            format!("{} and {}", rest.join(", "), last.name())
        }
    }
}

/// Nothing else is to be said about a path whose window and rate are fixed.
fn check_dedicated(table: &Table<'_>, dedicated: Span, problems: &mut Problems) {
    let keys = keys().chain(["congestion", "pacing", "bandwidth"]);
    for (key, at) in keys.filter_map(|key| table.place(key).map(|at| (key, at))) {
        let title = format!("`{key}` has no effect with `dedicated`");
        let fault =
            Fault::new(title, "rate and window are fixed").help("leave one of the two out").idle();
        problems.push(fault.at(at).also(dedicated, "by this"));
    }
}
