//! The page of our congestion controls.

use wad_policy::{
    kernel_algorithm::{self, KernelAlgorithm},
    law::{Consent, Law},
};

use super::{head, row};

const OPENING: &str = "\
# Laws

These congestion controls are `wad`'s own. [Congestion control](../congestion-control.md) says when to take
which. `ss -i` shows them by these names; those of an instance other than the default have two characters more.

";

const KERNELS: &str = "
## The kernel's

Of the kernel's congestion controls these are known. `highspeed` and `scalable` are judged as `wad`'s laws of
those names. One that is in neither list needs `allow = \"aggressive\"`, as nothing is known of what it leaves
to CUBIC.

";

/// Makes the page.
pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &head(["Law", "What it is", "Fields that it takes", "`allow = \"aggressive\"`"]);
    for law in Law::ALL {
        let entry = law.entry();
        let keys: Vec<_> = entry.keys.iter().map(|key| format!("`{key}`")).collect();
        let keys = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let consent = match entry.consent {
            Consent::Never => "never needed",
            Consent::ByPair => "needed for increase and decrease above a CUBIC flow's share",
            Consent::ByPath => "needed on a path where it takes more than a CUBIC flow's share",
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
    page += KERNELS;
    page += &head(["Congestion control", "Beside CUBIC", "Source", "`allow = \"aggressive\"`"]);
    for KernelAlgorithm { name, about, source, needs_consent, .. } in kernel_algorithm::ALL {
        let consent = if *needs_consent { "always needed" } else { "never needed" };
        page += &row([&format!("`{name}`"), about, source, consent]);
    }
    page
}
