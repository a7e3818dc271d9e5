//! The table of the kernel's congestion controls: what `wad` knows of each beside CUBIC.
//!
//! Those that answer to losses as one of `wad`'s laws are judged as that law
//! ([`Law::as_kernels`](crate::law::Law::as_kernels)) and have no row. What has neither that nor a
//! row needs consent: nothing is known of it.

/// A row of the table.
pub struct KernelAlgorithm {
    /// The name in the kernel.
    pub name: &'static str,
    /// The clause that describes it beside a CUBIC flow, for errors and the book.
    pub about: &'static str,
    /// The source of that.
    pub source: &'static str,
    /// Whether a path has to allow it.
    pub needs_consent: bool,
    /// The part of its fair share that a CUBIC flow had beside it, first and last, in the lab's
    /// scenario `shared`: a path of 200 Mbit/s, at 20 and 120 ms, with queues of 0.1, 0.5 and 1
    /// times what that carries in a round trip. None where the lab has not measured it.
    pub left_to_cubic: Option<&'static str>,
}

/// A row that needs no consent.
const fn without_consent(
    name: &'static str,
    about: &'static str,
    source: &'static str,
) -> KernelAlgorithm {
    KernelAlgorithm { name, about, source, needs_consent: false, left_to_cubic: None }
}

/// A row that needs consent.
const fn with_consent(
    name: &'static str,
    about: &'static str,
    source: &'static str,
) -> KernelAlgorithm {
    KernelAlgorithm { name, about, source, needs_consent: true, left_to_cubic: None }
}

/// The table: those that take no more than CUBIC first.
pub const ALL: &[KernelAlgorithm] = &[
    without_consent("cubic", "it is the yardstick itself", "RFC 9438"),
    without_consent(
        "reno",
        "CUBIC takes no less at any round trip time",
        "RFC 5681; RFC 9438, section 4.3",
    ),
    without_consent(
        "vegas",
        "it adds no more than Reno, and yields before the queue is full",
        "Brakmo and Peterson, 1995",
    ),
    without_consent("lp", "it yields to other flows", "TCP-LP: Kuzmanovic and Knightly, 2003"),
    KernelAlgorithm {
        left_to_cubic: Some("0.02 to 0.28"),
        ..with_consent(
            "bbr",
            "it goes by its own model of the path, and left CUBIC 0.02 to 0.28 of its fair share",
            "the lab's scenario `shared`",
        )
    },
    with_consent(
        "bic",
        "it grows faster than CUBIC where round trips are short",
        "Ha, Rhee and Xu, 2008",
    ),
    with_consent(
        "dctcp",
        "it takes a mark for less than a loss, and is not for the public Internet",
        "RFC 8257, section 1",
    ),
    with_consent(
        "htcp",
        "it grows faster the longer ago its last loss is",
        "H-TCP: Leith and Shorten, 2004",
    ),
    with_consent(
        "hybla",
        "it grows as a flow with a round trip of 25 ms, whatever its own is",
        "Caini and Firrincieli, 2004",
    ),
    with_consent(
        "illinois",
        "it adds up to ten segments in a round trip while delays are short",
        "Liu, Basar and Srikant, 2006",
    ),
    with_consent(
        "veno",
        "it gives up a fifth of its window at a loss without a queue",
        "Fu and Liew, 2003",
    ),
    with_consent(
        "westwood",
        "after a loss it goes by its own estimate of the bandwidth",
        "Mascolo and others, 2001",
    ),
    with_consent(
        "yeah",
        "it grows as Scalable TCP while the queue is short",
        "Baiocchi, Castellani and Vacirca, 2007",
    ),
];

/// Returns why a path has to allow an algorithm of the kernel's; None where it need not.
pub fn consent_reason(name: &str) -> Option<&'static str> {
    match ALL.iter().find(|known| known.name == name) {
        Some(known) => known.needs_consent.then_some(known.about),
        None => Some("nothing is known of what it leaves to CUBIC"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Config, testing::host},
        law::Law,
    };

    #[test]
    fn no_algorithm_has_two_rows_or_is_judged_as_a_law_too() {
        for (n, known) in ALL.iter().enumerate() {
            assert!(ALL[..n].iter().all(|other| other.name != known.name), "{}", known.name);
            assert_eq!(Law::as_kernels(known.name), None, "{}", known.name);
            // What an error shows beside a line of the file.
            assert!(known.about.len() <= 90, "{}", known.about);
            let figures = known.left_to_cubic.unwrap_or_default();
            assert!(known.about.contains(figures), "{}", known.about);
        }
    }

    #[test]
    fn algorithms_of_unknown_share_need_consent_and_others_none() {
        let mut host = host();
        let named = ["cubic", "reno", "vegas", "lp", "bbr", "bbr3", "dctcp", "westwood", "brutal"];
        host.congestion_controls.extend(named.map(str::to_owned));
        for name in named {
            let path =
                format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\ncongestion = '{name}'\n");
            let refused = Config::parse("wad.toml", &path, &host);
            if ["cubic", "reno", "vegas", "lp"].contains(&name) {
                assert!(refused.is_ok(), "{name}");
                continue;
            }
            let error = refused.expect_err(name).to_string();
            let title = format!("error: {name} may take more than a CUBIC flow's share\n");
            assert!(error.contains(&title), "{error}");
            // The line, and the cure.
            assert!(error.contains(&format!("4 | congestion = '{name}'\n")), "{error}");
            assert!(error.contains("add allow = \"aggressive\""), "{error}");
            let allowed = path + "allow = 'aggressive'\n";
            assert!(Config::parse("wad.toml", &allowed, &host).is_ok(), "{name}");
        }
    }

    /// A file is right or wrong wherever it is read.
    #[test]
    fn an_entry_of_a_list_needs_the_same_consent_on_every_host() {
        let list = "[[path]]\nname = 'p'\nremote = '10.0.0.1'\ncongestion = ['brutal', 'cubic']\n";
        let refused = Config::parse("wad.toml", list, &host()).expect_err("no consent").to_string();
        assert!(refused.contains("brutal may take more than a CUBIC flow's share"), "{refused}");
    }
}
