//! Which congestion control a path gets, and which keys mean anything to it.

use crate::law::Law;

use super::{
    Congestion, Host,
    fault::{Fault, Problems, Span, quoted},
    table::{self, Field, Table},
};

/// Those that `congestion` takes; the others have keys of their own.
const NAMED: [Law; 4] = [Law::Aimd, Law::HighSpeed, Law::Scalable, Law::Delay];

/// Under the kernel's own loss recovery.
const LOSS_BASED: &[Law] = &[Law::Aimd, Law::HighSpeed, Law::Scalable];
const LOSS_BASED_OR_LEAKY: &[Law] = &[Law::Aimd, Law::HighSpeed, Law::Scalable, Law::Leaky];
const ANY_BUT_DEDICATED: &[Law] =
    &[Law::Aimd, Law::HighSpeed, Law::Scalable, Law::Leaky, Law::Delay];

/// Keys that only laws of ours have, and which of them. Such a key implies
/// `wad_aimd` where no law is chosen.
const KEYS: &[(&str, &[Law])] = &[
    ("additive_increase", &[Law::Aimd]),
    ("decrease", &[Law::Aimd]),
    ("equivalent_streams", &[Law::Aimd]),
    ("loss", LOSS_BASED_OR_LEAKY),
    ("max_ssthresh", ANY_BUT_DEDICATED),
    ("initial_ssthresh", ANY_BUT_DEDICATED),
    ("max_cwnd", ANY_BUT_DEDICATED),
    ("idle", LOSS_BASED),
    ("ignore_local_stalls", LOSS_BASED),
    ("standing_queue", &[Law::Delay]),
];

/// What a path gets, and the place that says so.
#[derive(Debug, Default)]
pub struct Choice {
    /// None for the host's default, or where it could not be read.
    pub congestion: Option<Congestion>,
    /// None where a key of a law implies it.
    pub at: Option<Span>,
    /// It could not be read: nothing more is to be said about it.
    pub in_doubt: bool,
}

impl Choice {
    pub const fn law(&self) -> Option<Law> {
        match self.congestion {
            Some(Congestion::Ours(law)) => Some(law),
            _ => None,
        }
    }

    fn new(congestion: Congestion, at: Option<Span>) -> Self {
        Self { congestion: Some(congestion), at, in_doubt: false }
    }
}

impl Congestion {
    pub fn name(&self) -> &str {
        match self {
            Self::Ours(law) => law.name(),
            Self::Kernel(name) => name,
        }
    }
}

/// Reads `congestion` and `loss`, and what `dedicated` makes of them.
pub fn read(table: &Table<'_>, host: &Host, problems: &mut Problems) -> Choice {
    let named = table.read("congestion", problems, |value| parse(table::text(value)?, host));
    let loss = table.read("loss", problems, |value| match table::text(value)? {
        "congestion" => Ok(Loss::Congestion),
        "leaky" => Ok(Loss::Leaky),
        other => {
            let title = format!("{} is no cause of losses", quoted(other));
            Err(Fault::new(title, "it takes \"congestion\" or \"leaky\""))
        }
    });
    if let Some(at) = table.place("dedicated") {
        check_dedicated(table, at, problems);
        return Choice::new(Congestion::Ours(Law::Dedicated), Some(at));
    }
    if named.is_none() && table.has("congestion") || loss.is_none() && table.has("loss") {
        return Choice { in_doubt: true, ..Choice::default() };
    }
    let choice = resolve(table, named, loss, problems);
    check_keys(table, &choice, problems);
    choice
}

#[derive(Clone, Copy)]
enum Loss {
    Congestion,
    Leaky,
}

fn parse(name: &str, host: &Host) -> Result<Congestion, Fault> {
    if let Some(law) = NAMED.into_iter().find(|law| law.name() == name) {
        return Ok(Congestion::Ours(law));
    }
    let by_key = |help| Fault::new(format!("{name} has a key of its own"), "not here").help(help);
    if name == Law::Leaky.name() {
        return Err(by_key("write loss = \"leaky\" instead"));
    }
    if name == Law::Dedicated.name() {
        return Err(by_key("write dedicated = \"622Mbit\", or the path's rate, instead"));
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
    let known: Vec<_> =
        NAMED.map(Law::name).into_iter().chain(loaded.map(String::as_str)).collect();
    let mut help = format!("there are {}", known.join(", "));
    if !host.loadable.is_empty() {
        help += &format!(", and as modules of the kernel's {}", host.loadable.join(", "));
    }
    Fault::new(title, "the running kernel does not have it").help(help)
}

fn resolve(
    table: &Table<'_>,
    named: Option<Field<Congestion>>,
    loss: Option<Field<Loss>>,
    problems: &mut Problems,
) -> Choice {
    let leaky = loss.filter(|loss| matches!(loss.value, Loss::Leaky));
    match (named, leaky) {
        (None | Some(Field { value: Congestion::Ours(Law::Aimd), .. }), Some(leaky)) => {
            Choice::new(Congestion::Ours(Law::Leaky), Some(leaky.at))
        }
        (Some(named), leaky) => {
            // What has no `loss` at all is told so with the other keys.
            if let (Some(leaky), Congestion::Ours(law)) = (leaky, &named.value)
                && LOSS_BASED.contains(law)
            {
                let title = format!("loss = \"leaky\" is a law of its own, not {}", law.name());
                let fault = Fault::new(title, format!("this is {}", Law::Leaky.name()));
                let fault = fault.help("leave one of the two out");
                problems.push(fault.at(leaky.at).also(named.at, "chosen here"));
            }
            Choice::new(named.value, Some(named.at))
        }
        (None, None) if KEYS.iter().any(|(key, _)| table.has(key)) => {
            Choice::new(Congestion::Ours(Law::Aimd), None)
        }
        (None, None) => Choice::default(),
    }
}

/// Keys without effect on what is chosen.
fn check_keys(table: &Table<'_>, choice: &Choice, problems: &mut Problems) {
    let Some(congestion) = &choice.congestion else { return };
    for (key, laws) in KEYS {
        let Some(at) = table.place(key) else { continue };
        if choice.law().is_some_and(|law| laws.contains(&law)) {
            continue;
        }
        let title = format!("`{key}` has no effect on {}", congestion.name());
        let have = if laws.len() == 1 { "has" } else { "have" };
        let fault = Fault::new(title, format!("only {} {have} it", listed(laws)));
        let problem = match choice.at {
            None => fault.help(format!("add congestion = \"{}\"", laws[0].name())).at(at),
            Some(chosen) => {
                let label = match congestion {
                    Congestion::Ours(_) => "chosen here",
                    Congestion::Kernel(_) => "one of the kernel's",
                };
                let help = match choice.law() {
                    Some(_) if *key == "idle" => {
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
    let keys = KEYS.iter().map(|(key, _)| *key).chain(["congestion", "pacing", "bandwidth"]);
    for (key, at) in keys.filter_map(|key| table.place(key).map(|at| (key, at))) {
        let title = format!("`{key}` has no effect with `dedicated`");
        let fault = Fault::new(title, "rate and window are fixed").help("leave one of the two out");
        problems.push(fault.at(at).also(dedicated, "by this"));
    }
}
