//! Reads which congestion control a path gets, and which keys mean anything to it.

use std::{collections::BTreeSet, sync::LazyLock};

use super::{
    Congestion, Host,
    fault::{Fault, Problems, Span, quoted},
    field::Field,
    table::{self, Located, Table},
};
use crate::law::Law;

/// The law that a key of our laws implies where none is chosen.
const IMPLIED: Law = Law::Aimd;

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
}

impl Choice {
    pub const fn law(&self) -> Option<Law> {
        match self.congestion {
            Some(Congestion::Ours(law)) => Some(law),
            _ => None,
        }
    }

    fn new(congestion: Congestion, at: Option<Span>) -> Self {
        Self { congestion: Some(congestion), at, ..Self::default() }
    }
}

const AUTO: &str = "auto";

/// Reads `congestion` and `loss`, and what `dedicated` makes of them.
pub fn read(table: &Table<'_>, host: &Host, loss: &Field, problems: &mut Problems) -> Choice {
    let named = table.read("congestion", problems, |value| parse(table::text(value)?, host));
    if let Some(at) = table.place("dedicated") {
        check_dedicated(table, at, problems);
        return Choice::new(Congestion::Ours(Law::Dedicated), Some(at));
    }
    let loss = loss.word(table, problems);
    if named.is_none() && table.has("congestion") || loss.is_none() && table.has("loss") {
        return Choice { in_doubt: true, ..Choice::default() };
    }
    let auto_loss = loss.filter(|loss| loss.value == AUTO).map(|loss| loss.at);
    let choice = Choice { auto_loss, ..resolve(table, named, loss, problems) };
    check_keys(table, &choice, problems);
    choice
}

fn parse(name: &str, host: &Host) -> Result<Congestion, Fault> {
    if let Some(law) = Law::ALL.iter().copied().find(|law| law.name() == name) {
        return match law.entry().instead {
            None => Ok(Congestion::Ours(law)),
            Some(help) => {
                let title = format!("{name} has a key of its own");
                Err(Fault::new(title, "not here").help(help))
            }
        };
    }
    let (loaded, loadable) = (host.congestion_controls.iter(), host.loadable.iter());
    // An algorithm of another instance of wad goes when that does.
    if !name.starts_with("wad_") && loaded.chain(loadable).any(|known| known == name) {
        return Ok(Congestion::Kernel(name.to_owned()));
    }
    Err(no_such(name, host))
}

fn no_such(name: &str, host: &Host) -> Fault {
    let title = format!("no congestion control {} on this host", quoted(name));
    let loaded = host.congestion_controls.iter().filter(|known| !known.starts_with("wad_"));
    let ours = Law::named().map(|law| -> &str { law.name() });
    let known: Vec<_> = ours.chain(loaded.map(String::as_str)).collect();
    let mut help = format!("there are {}", known.join(", "));
    if !host.loadable.is_empty() {
        help += &format!(", and as modules of the kernel's {}", host.loadable.join(", "));
    }
    Fault::new(title, "the running kernel does not have it").help(help)
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
        (None | Some(Located { value: Congestion::Ours(IMPLIED), .. }), Some(leaky)) => {
            Choice::new(Congestion::Ours(Law::Leaky), Some(leaky.at))
        }
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
            Choice::new(Congestion::Ours(IMPLIED), None)
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
        if is_auto_loss || choice.law().is_some_and(|law| law.takes(key)) {
            continue;
        }
        let laws = Law::with_key(key);
        let title = format!("`{key}` has no effect on {}", congestion.name());
        let have = if laws.len() == 1 { "has" } else { "have" };
        let fault = Fault::new(title, format!("only {} {have} it", listed(&laws)));
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
        let fault = Fault::new(title, "rate and window are fixed").help("leave one of the two out");
        problems.push(fault.at(at).also(dedicated, "by this"));
    }
}
