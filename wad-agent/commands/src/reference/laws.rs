//! The page of our congestion controls.

use wad_policy::law::{Consent, Law};

use super::{head, row};

const OPENING: &str = "\
# Laws

These congestion controls are `wad`'s own. [Congestion control](../congestion-control.md) says when to take
which. `ss -i` shows them by these names; those of an instance other than the default have two characters more.

";

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &head(["Law", "What it is", "Fields that it takes", "`allow = \"aggressive\"`"]);
    for law in Law::ALL {
        let entry = law.entry();
        let keys: Vec<_> = entry.keys.iter().map(|key| format!("`{key}`")).collect();
        let keys = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let consent = match entry.consent {
            Consent::Never => "never needed",
            Consent::ByPair => "needed for increase and decrease above a standard flow's share",
            Consent::ByPath => "needed on a path where it takes more than a standard flow's share",
            Consent::ByQueue => {
                "needed for a `standing_queue` above a 20th of the path, or above 45 segments \
                 where `bandwidth` and `rtt` are not given"
            }
            Consent::Always(_) => "always needed",
        };
        let about = match entry.instead {
            Some(instead) => format!("{} In a path, {instead} of `congestion`.", entry.doc.trim()),
            None => entry.doc.trim().to_owned(),
        };
        page += &row([&format!("`{}`", entry.name), &about, &keys, consent]);
    }
    page
}
