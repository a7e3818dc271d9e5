//! Which cgroups fit the selectors of paths, as bits by the cgroups' numbers: what the kernel
//! side looks up of the cgroups around a socket.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use wad_linux::cgroup_tree::Cgroups;
use wad_policy::{config::CgroupSelector, pod::Pods};

use crate::policy_set::cgroup_bit;

/// The cgroups that there are, and the pods that some of them are of.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    pub cgroups: &'a Cgroups,
    pub pods: &'a Arc<Pods>,
}

/// The bits of the selectors that each cgroup fits, of those that fit any.
pub type Bits = HashMap<u64, u64>;

/// Returns them, with the bit of each selector by its place.
pub fn bits(selectors: &[CgroupSelector], groups: Groups<'_>) -> Bits {
    let of_each = groups.cgroups.iter().map(|(cgroup, id)| {
        let selectors = selectors.iter().enumerate();
        let fitting = selectors.filter(|(_, selector)| selector.fits(cgroup, groups.pods));
        (*id, fitting.fold(0, |bits, (number, _)| bits | cgroup_bit(number)))
    });
    of_each.filter(|(_, bits)| *bits != 0).collect()
}

/// Says how bits differ from those before.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The cgroups that fit none any more.
    pub gone: Vec<u64>,
    /// The cgroups that have others, with these.
    pub other: Vec<(u64, u64)>,
    /// Connections that run may fall under another path: a cgroup has other bits that is there.
    pub concerns_running: bool,
}

impl Difference {
    pub fn between(before: &Bits, now: &Bits, cgroups: &Cgroups) -> Self {
        let gone: Vec<u64> = before.keys().filter(|id| !now.contains_key(id)).copied().collect();
        let other = now.iter().filter(|(id, bits)| before.get(id) != Some(bits));
        let other: Vec<_> = other.map(|(id, bits)| (*id, *bits)).collect();
        // Connections of a cgroup that is gone have mostly gone with it.
        let stays = |gone: &[u64]| {
            let there: HashSet<&u64> = cgroups.values().collect();
            gone.iter().any(|id| there.contains(id))
        };
        let concerns_running = !other.is_empty() || !gone.is_empty() && stays(&gone);
        Self { gone, other, concerns_running }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wad_policy::{
        config::{CgroupPattern, PodSelector},
        pod::Pod,
    };

    use super::*;

    const UID: &str = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
    const OTHER: &str = "2f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";

    fn labels(app: Option<&str>) -> BTreeMap<String, String> {
        app.into_iter().map(|app| ("app".to_owned(), app.to_owned())).collect()
    }

    fn pods(of: &[(&str, Option<&str>)]) -> Arc<Pods> {
        let pod = |app| Pod {
            namespace: "transfer".to_owned(),
            name: "dtn-0".to_owned(),
            labels: labels(app),
            containers: BTreeMap::new(),
        };
        Arc::new(of.iter().map(|(uid, app)| ((*uid).to_owned(), pod(*app))).collect())
    }

    fn cgroups() -> Cgroups {
        let scope = format!("cri-containerd-{}.scope", "0".repeat(64));
        let pod = format!("kubepods/burstable/pod{UID}");
        [
            ("kubepods".to_owned(), 1),
            (format!("{pod}/{scope}"), 3),
            (pod, 2),
            (format!("kubepods/pod{OTHER}"), 4),
            ("system.slice/a.service".to_owned(), 5),
        ]
        .map(|(path, id)| (path.into(), id))
        .into()
    }

    fn selectors() -> [CgroupSelector; 3] {
        let of_pods = |namespace: Option<&str>, app| {
            let namespace = namespace.map(str::to_owned);
            CgroupSelector::OfPods(PodSelector { namespace, labels: labels(app) })
        };
        let unit = CgroupPattern::Unit("a.service".to_owned());
        [of_pods(Some("transfer"), None), unit.into(), of_pods(None, Some("dtn"))]
    }

    fn now(pods: &Arc<Pods>) -> Bits {
        bits(&selectors(), Groups { cgroups: &cgroups(), pods })
    }

    #[test]
    fn the_cgroup_of_a_pod_has_the_bits_of_all_that_mean_it() {
        let both = pods(&[(UID, Some("dtn")), (OTHER, None)]);
        assert_eq!(now(&both), [(2, 0b101), (4, 0b001), (5, 0b010)].into());
        assert_eq!(now(&Arc::default()), [(5, 0b010)].into());
        assert_eq!(now(&pods(&[("x", Some("dtn"))])), [(5, 0b010)].into());
    }

    #[test]
    fn running_connections_are_concerned_by_cgroups_that_are_there() {
        let (none, plain) = (now(&Arc::default()), now(&pods(&[(UID, None)])));
        let labelled = now(&pods(&[(UID, Some("dtn"))]));
        let there = cgroups();
        let difference = |before, after| Difference::between(before, after, &there);
        let of = |gone: &[u64], other: &[(u64, u64)]| {
            let (gone, other) = (gone.to_vec(), other.to_vec());
            Difference { gone, other, concerns_running: true }
        };
        assert_eq!(difference(&labelled, &labelled), Difference::default());
        assert_eq!(difference(&none, &plain), of(&[], &[(2, 0b001)]));
        assert_eq!(difference(&plain, &labelled), of(&[], &[(2, 0b101)]));
        // The label is taken away, or the pod is not known any more.
        assert_eq!(difference(&labelled, &plain), of(&[], &[(2, 0b001)]));
        assert_eq!(difference(&labelled, &none), of(&[2], &[]));
        // The cgroup has gone.
        let gone = Difference::between(&labelled, &none, &Cgroups::new());
        assert_eq!(gone, Difference { concerns_running: false, ..of(&[2], &[]) });
    }
}
