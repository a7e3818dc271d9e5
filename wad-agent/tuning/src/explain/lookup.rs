//! Makes the same lookup that the BPF program does for a flow, step by step, so that
//! each rule on the way can be told.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use wad_common::{
    policy::{ANY_USER, Policy, Rule, RuleRun},
    ports::PortRange,
};
use wad_policy::{
    config::{CgroupSelector, InForce, Mark, Origin, Settings},
    pod::Pods,
};

use super::{
    answer::{Answer, Basis, PathAnswer, Tried, Verdict},
    query::Query,
    why,
};
use crate::{policy_set::Patterns, readings::PathState};

/// A policy set, wherever it is.
pub trait RuleSet {
    type Error;

    /// The run of the longest prefix that has an address and is no longer than
    /// `bits`. IPv4 is mapped into IPv6.
    fn run(&self, address: u128, bits: u8) -> Result<Option<RuleRun>, Self::Error>;
    fn rule(&self, index: u32) -> Result<Rule, Self::Error>;
    fn policy(&self, index: u32) -> Result<Known, Self::Error>;
    fn patterns(&self) -> &Patterns;
    /// Returns the pods that rules may depend on; None where nobody knows.
    fn pods(&self) -> Option<Arc<Pods>>;
}

/// A policy as its path has it, in force or not.
#[derive(Clone, Debug)]
pub struct Known {
    pub policy: Policy,
    pub state: PathState,
    pub origin: Origin,
}

/// A rule that applies to an address, by this prefix.
struct Candidate {
    prefix: IpNet,
    rule: Rule,
}

/// Returns which rule a flow falls under, and what follows.
pub fn explain<S: RuleSet>(set: &S, query: &Query, from: Basis) -> Result<Answer, S::Error> {
    let mut answer = Answer::new(query, from);
    let (patterns, pods) = (set.patterns(), set.pods());
    let pods = pods.as_deref();
    for Candidate { prefix, rule } in candidates(set, mapped(query.remote.address))? {
        let known = set.policy(rule.policy)?;
        let verdict = fit(&rule, query, (patterns, pods));
        if verdict == Verdict::Taken {
            let Known { policy, state, origin } = known;
            let name = why::name(&policy);
            // Its other rules were tried for other ports of its own.
            answer.tried.retain(|tried| tried.path != name);
            answer.path = Some(PathAnswer {
                name,
                prefix,
                state,
                settings: Settings::explained(InForce { policy: &policy, origin: &origin }),
                why: why::of(&policy, &origin, state),
                peers: why::peers(&origin),
                refused: Vec::new(),
            });
            return Ok(answer);
        }
        answer.tried.push(Tried { path: why::name(&known.policy), prefix, verdict });
    }
    Ok(answer)
}

/// The rules of an address in their order. Each run has those of the prefixes around
/// its own at its end.
fn candidates<S: RuleSet>(set: &S, address: u128) -> Result<Vec<Candidate>, S::Error> {
    let mut candidates = Vec::new();
    let mut within = Some(128);
    while let Some(most_bits) = within {
        let Some(run) = set.run(address, most_bits)? else { break };
        let bits = own_bits(set, address, most_bits, run)?;
        within = bits.checked_sub(1);
        let outer = match within {
            Some(most_bits) => set.run(address, most_bits)?.map_or(0, |run| run.count.into()),
            None => 0,
        };
        let prefix = network(address, bits);
        for index in run.first..run.first + u32::from(run.count).saturating_sub(outer) {
            candidates.push(Candidate { prefix, rule: set.rule(index)? });
        }
    }
    Ok(candidates)
}

/// The length of the prefix that a run was found by: the least that finds it.
fn own_bits<S: RuleSet>(
    set: &S,
    address: u128,
    found_bits: u8,
    run: RuleRun,
) -> Result<u8, S::Error> {
    let (mut less, mut enough) = (0, found_bits);
    while less < enough {
        let middle = less + (enough - less) / 2;
        if set.run(address, middle)? == Some(run) {
            enough = middle;
        } else {
            less = middle + 1;
        }
    }
    Ok(enough)
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The prefix of that length that has the address.
fn network(address: u128, bits: u8) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    let address = Ipv6Addr::from_bits(address);
    let v4 = address.to_ipv4_mapped().zip(bits.checked_sub(MAPPED_BITS));
    let net = match v4 {
        Some((address, bits)) => Ipv4Net::new(address, bits).map(IpNet::V4),
        None => Ipv6Net::new(address, bits).map(IpNet::V6),
    };
    net.expect("a length within the address").trunc()
}

/// Returns what a rule says of a flow that is known in part.
fn fit(rule: &Rule, query: &Query, (patterns, pods): (&Patterns, Option<&Pods>)) -> Verdict {
    let local = query.local;
    let mut open = Vec::new();
    let mut against = Vec::new();
    for (what, wanted, known) in [
        ("remote", rule.ports.remote, query.remote.port),
        ("local", rule.ports.local, local.and_then(|local| local.port)),
    ] {
        match known {
            _ if wanted == PortRange::ANY => {}
            Some(port) if wanted.has(port) => {}
            Some(_) => against.push(format!("{what} port {wanted}")),
            None => open.push(format!("{what} port {wanted}")),
        }
    }
    if rule.local_mask != [0; 2] {
        let whole = |[high, low]: [u64; 2]| u128::from(high) << 64 | u128::from(low);
        let (prefix, mask) = (whole(rule.local_prefix), whole(rule.local_mask));
        let condition = format!("local address in {}", network(prefix, mask.leading_ones() as u8));
        match local {
            Some(local) if mapped(local.address) & mask == prefix => {}
            Some(_) => against.push(condition),
            None => open.push(condition),
        }
    }
    if rule.user != ANY_USER {
        let condition = format!("user {}", rule.user);
        match query.user {
            Some(user) if user == rule.user => {}
            Some(_) => against.push(condition),
            None => open.push(condition),
        }
    }
    let (cgroup, interface) = patterns.asked(rule.patterns);
    if let Some(selector) = cgroup {
        match is_within(selector, query, pods) {
            Some(true) => {}
            Some(false) => against.push(selector.to_string()),
            None => open.push(selector.to_string()),
        }
    }
    if rule.mark_mask != 0 {
        let wanted = Mark { value: rule.mark, mask: rule.mark_mask };
        match query.mark {
            Some(mark) if wanted.has(mark) => {}
            Some(_) => against.push(wanted.to_string()),
            None => open.push(wanted.to_string()),
        }
    }
    if let Some(pattern) = interface {
        match &query.interface {
            Some(name) if pattern.fits(name) => {}
            Some(_) => against.push(pattern.to_string()),
            None => open.push(pattern.to_string()),
        }
    }
    match (against.is_empty(), open.is_empty()) {
        (true, true) => Verdict::Taken,
        (true, false) => Verdict::OnlyIf(open),
        (false, _) => Verdict::OnlyFor(against),
    }
}

/// Whether the cgroup of a question is meant; None where that is open.
fn is_within(selector: &CgroupSelector, query: &Query, pods: Option<&Pods>) -> Option<bool> {
    if let (CgroupSelector::OfPods(selector), Some(asked)) = (selector, &query.pod) {
        return asked.among(pods?).map(|pod| selector.has(pod));
    }
    let cgroup = query.cgroup.as_ref()?;
    match pods {
        None if selector.is_of_pods() => None,
        None => Some(selector.has(cgroup, &Pods::new())),
        Some(pods) => Some(selector.has(cgroup, pods)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wad_policy::{config::PodSelector, pod::Pod};

    use super::*;

    #[test]
    fn pods_are_found_by_their_cgroup_or_by_their_name() {
        let uid = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
        let pod = Pod {
            namespace: "transfer".to_owned(),
            name: "dtn-0".to_owned(),
            labels: BTreeMap::new(),
            containers: BTreeMap::new(),
        };
        let pods = Pods::from([(uid.to_owned(), pod)]);
        let of = |namespace: &str| {
            let (namespace, labels) = (Some(namespace.to_owned()), BTreeMap::new());
            CgroupSelector::OfPods(PodSelector { namespace, labels })
        };
        let cgroup = format!("kubepods/burstable/pod{uid}/x");
        for (asked, is_meant, is_of_other) in [
            (format!("cgroup={cgroup}"), Some(true), Some(false)),
            ("cgroup=system.slice".to_owned(), Some(false), Some(false)),
            ("pod=transfer/dtn-0".to_owned(), Some(true), Some(false)),
            // It may be of another node.
            ("pod=transfer/dtn-1".to_owned(), None, None),
            ("user=0".to_owned(), None, None),
        ] {
            let query = Query::parse(&format!("remote=10.0.0.1&{asked}")).unwrap();
            let within = |namespace| is_within(&of(namespace), &query, Some(&pods));
            assert_eq!((within("transfer"), within("web")), (is_meant, is_of_other), "{asked}");
            assert_eq!(is_within(&of("transfer"), &query, None), None);
        }
    }
}
