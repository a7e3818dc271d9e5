//! Reads the congestion controls that a path names: one, or a list of which it gets the
//! first that can be had.

use toml::de::DeValue;
use wad_common::policy::CONGESTION_BYTES;

use crate::{
    config::{
        Congestion, Host, Loadable, PassedOver,
        fault::{Fault, Problem, Problems, quoted},
        table::{self, Located, Table},
    },
    law::Law,
};

const KEY: &str = "congestion";

/// Every kernel with TCP has it (`tcp_congestion_default`, net/ipv4/tcp_cong.c).
const ALWAYS: &str = "reno";

/// Holds what a path names, and what it gets of that.
pub struct Named {
    pub chosen: Located<Congestion>,
    /// The rest of the list, be it there or not.
    pub others: Vec<Located<Congestion>>,
    /// The entries before the chosen one can't be had.
    pub passed_over: Vec<PassedOver>,
}

/// An entry of a list.
struct Entry {
    congestion: Congestion,
    lack: Option<PassedOver>,
}

/// Returns None where the file names none, or where something is wrong.
pub fn read(table: &Table<'_>, host: &Host, problems: &mut Problems) -> Option<Named> {
    if !table.is_array(KEY) {
        let chosen = table.read(KEY, problems, |value| one(table::text(value)?, host))?;
        return Some(Named { chosen, others: Vec::new(), passed_over: Vec::new() });
    }
    let before = problems.count();
    let entries = table.read_list(KEY, problems, |value| entry(value, host))?;
    (1..entries.len()).filter_map(|n| useless(&entries[..=n])).for_each(|p| problems.push(p));
    if problems.count() > before {
        return None;
    }
    let Some(place) = entries.iter().position(|entry| entry.value.lack.is_none()) else {
        let lacks: Vec<_> = entries.iter().filter_map(|entry| entry.value.lack.as_ref()).collect();
        let lacks: Vec<_> = lacks.into_iter().map(PassedOver::to_string).collect();
        let fault = Fault::new(format!("`{KEY}`: none of these can be had"), lacks.join(", "));
        let help = format!("add one at the end that every host has, such as \"{ALWAYS}\"");
        problems.push(fault.help(help).at(table.place(KEY)?));
        return None;
    };
    let passed_over = entries[..place].iter().filter_map(|entry| entry.value.lack.clone());
    let passed_over = passed_over.collect();
    let mut named =
        entries.into_iter().map(|Located { value, at }| Located { value: value.congestion, at });
    let mut others: Vec<_> = named.by_ref().take(place).collect();
    let chosen = named.next()?;
    others.extend(named);
    Some(Named { chosen, others, passed_over })
}

/// Returns a congestion control that has to be there.
fn one(name: &str, host: &Host) -> Result<Congestion, Fault> {
    if let Some(law) = law(name)? {
        return Ok(law);
    }
    let is_loaded = host.congestion_controls.iter().any(|known| known == name);
    let is_there = is_loaded || (is_name(name) && host.loadable.may_have(name));
    if !is_of_wad(name) && is_there {
        return Ok(Congestion::Kernel(name.to_owned()));
    }
    Err(no_such(name, host))
}

/// Tells whether a congestion control could be called so.
fn is_name(name: &str) -> bool {
    let is_known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    !name.is_empty() && name.len() < CONGESTION_BYTES && name.bytes().all(is_known)
}

/// Returns one that need not be there.
fn entry(value: &DeValue<'_>, host: &Host) -> Result<Entry, Fault> {
    let name = table::text(value)?;
    if let Some(congestion) = law(name)? {
        return Ok(Entry { congestion, lack: None });
    }
    if !is_name(name) {
        let title = format!("{} is no name of a congestion control", quoted(name));
        let label = format!("it takes 1 to {} letters, digits, _ and -", CONGESTION_BYTES - 1);
        return Err(Fault::new(title, label));
    }
    // No kernel has them by itself: it is a slip.
    if is_of_wad(name) {
        return Err(no_such(name, host));
    }
    let refused = host.refused.get(name).cloned();
    let is_loaded = host.congestion_controls.iter().any(|known| known == name);
    let is_there = is_loaded || (refused.is_none() && host.loadable.may_have(name));
    let lack = (!is_there).then(|| PassedOver { name: name.to_owned(), refused });
    Ok(Entry { congestion: Congestion::Kernel(name.to_owned()), lack })
}

/// Returns the law of that name, if it is one that `congestion` takes.
fn law(name: &str) -> Result<Option<Congestion>, Fault> {
    let Some(law) = Law::ALL.iter().copied().find(|law| law.name() == name) else {
        return Ok(None);
    };
    match law.entry().instead {
        None => Ok(Some(Congestion::Ours(law))),
        Some(help) => {
            let title = format!("{name} has a key of its own");
            Err(Fault::new(title, "not here").help(help))
        }
    }
}

/// An algorithm of another instance of wad goes when that does.
fn is_of_wad(name: &str) -> bool {
    name.starts_with("wad_")
}

fn no_such(name: &str, host: &Host) -> Fault {
    let title = format!("no congestion control {} on this host", quoted(name));
    let loaded = host.congestion_controls.iter().filter(|known| !is_of_wad(known));
    let ours = Law::named().map(|law| -> &str { law.name() });
    let known: Vec<_> = ours.chain(loaded.map(String::as_str)).collect();
    let mut help = format!("there are {}", known.join(", "));
    if let Loadable::Known(modules) = &host.loadable
        && !modules.is_empty()
    {
        help += &format!(", and as modules of the kernel's {}", modules.join(", "));
    }
    Fault::new(title, "the running kernel does not have it").help(help)
}

/// Returns what is wrong if the last of these entries is never chosen, on any host.
fn useless(entries: &[Located<Entry>]) -> Option<Problem> {
    let (last, before) = entries.split_last()?;
    let name = last.value.congestion.name();
    if let Some(first) = before.iter().find(|it| it.value.congestion == last.value.congestion) {
        let fault = Fault::new(format!("`{KEY}`: {name} is there twice"), "the second time");
        return Some(
            fault.help("leave one of the two out").at(last.at).also(first.at, "the first"),
        );
    }
    let always = before.iter().find(|it| match &it.value.congestion {
        Congestion::Ours(_) => true,
        Congestion::Kernel(name) => name == ALWAYS,
    })?;
    let fault = Fault::new(format!("`{KEY}`: {name} is never chosen"), "behind one that is there");
    let label = match &always.value.congestion {
        Congestion::Ours(_) => "`wad` brings this law itself",
        Congestion::Kernel(_) => "every kernel has it",
    };
    Some(fault.help("move it up, or leave it out").at(last.at).also(always.at, label))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Config, PathPolicy, testing::host};

    fn path(congestion: &str, host: &Host) -> PathPolicy {
        let path = "[[path]]\nname = 'p'\nremote = '10.0.0.1'\n";
        let consent = "allow = 'aggressive'\n";
        let consent = if congestion.contains("allow") { "" } else { consent };
        let text = format!("{path}{consent}{congestion}\n");
        let mut config = Config::parse("wad.toml", &text, host).expect("valid");
        config.paths.remove(0)
    }

    fn chosen(path: &PathPolicy) -> &str {
        path.congestion.as_ref().expect("one is chosen").name()
    }

    #[test]
    fn the_first_that_can_be_had_is_chosen() {
        let list = "congestion = ['brutal', 'bbr', 'cubic', 'reno']";
        let mut host = host();
        let path_here = path(list, &host);
        assert_eq!(chosen(&path_here), "bbr");
        let [brutal] = &path_here.origin.passed_over[..] else { panic!("{path_here:?}") };
        assert_eq!(brutal.to_string(), "the kernel has no brutal");

        host.refused = BTreeMap::from([("bbr".to_owned(), "not permitted".to_owned())]);
        let refused = path(list, &host);
        assert_eq!(chosen(&refused), "cubic");
        let words = refused.origin.passed_over_words().expect("two were passed over");
        let why = "the kernel has no brutal, the kernel did not load tcp_bbr (not permitted)";
        assert!(words.ends_with(why), "{words}");

        // Somebody else had it loaded by now.
        host.congestion_controls.push("bbr".to_owned());
        assert_eq!(chosen(&path(list, &host)), "bbr");
    }

    /// The kernel is asked then, and what it refuses is passed over.
    #[test]
    fn where_modules_are_not_known_any_name_may_be_one() {
        let mut host = host();
        host.loadable = Loadable::Unknown("no such file".to_owned());
        assert_eq!(chosen(&path("congestion = 'bbr'", &host)), "bbr");
        let list = "congestion = ['bbr', 'cubic']";
        assert_eq!(chosen(&path(list, &host)), "bbr");
        host.refused = BTreeMap::from([("bbr".to_owned(), "not permitted".to_owned())]);
        let refused = path(list, &host);
        assert_eq!(chosen(&refused), "cubic");
        let words = refused.origin.passed_over_words().expect("one was passed over");
        assert!(words.ends_with("the kernel did not load tcp_bbr (not permitted)"), "{words}");

        for no_name in ["wad_amid", "b br", "", "a_name_of_16_long"] {
            let text = format!("[[path]]\nname = 'p'\nremote = '::1'\ncongestion = '{no_name}'\n");
            let error = Config::parse("wad.toml", &text, &host).expect_err(no_name).to_string();
            assert!(error.contains("no congestion control"), "{error}");
        }
    }

    /// Its fields are in force where that law is chosen, and of no consequence elsewhere.
    #[test]
    fn what_is_a_laws_own_goes_with_that_law() {
        let keys = "equivalent_streams = 2\nallow = 'aggressive'";
        let list = format!("congestion = ['brutal', 'wad_aimd']\n{keys}");
        let alone = format!("congestion = 'wad_aimd'\n{keys}");
        let mut host = host();
        let (mut law, of_one) = (path(&list, &host), path(&alone, &host));
        assert_eq!(law.origin.passed_over.len(), 1);
        law.origin = of_one.origin.clone();
        assert_eq!(law, of_one);

        host.congestion_controls.push("brutal".to_owned());
        let kernels = path(&list, &host);
        assert_eq!(chosen(&kernels), "brutal");
        assert_eq!(kernels.control, path("congestion = 'reno'", &host).control);
        assert_eq!(kernels.initial_window_segments, None);
    }
}
