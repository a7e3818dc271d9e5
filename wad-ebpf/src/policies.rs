//! A flow's policy is found from its addresses.

use aya_ebpf::btf_maps::lpm_trie::Key;
use wad_common::{
    counter::Setting,
    flow::Flow,
    policy::{ANY_USER, Owner, Policy, RULES_PER_ADDRESS, RuleRun},
    share,
};

use crate::maps::{POLICY_SETS, PREFIX_SETS, RULE_SETS, SETTINGS};

/// The two ends of a flow. Addresses in network byte order, IPv4 mapped into
/// IPv6; ports in host byte order.
#[derive(Clone, Copy)]
pub struct Ends {
    pub remote: [u32; 4],
    pub local: [u32; 4],
    pub remote_port: u16,
    pub local_port: u16,
}

/// `::ffff:0:0/96`, the last word of the prefix, in network byte order.
pub const V4_MAPPED: u32 = 0xffff_u32.to_be();

impl Ends {
    /// Whether the packets are IPv4's, whatever the socket is.
    #[inline(always)]
    #[must_use]
    pub const fn is_v4(&self) -> bool {
        let [a, b, c, _] = self.remote;
        a == 0 && b == 0 && c == V4_MAPPED
    }

    /// Whether a flow between them is among this share.
    #[inline(always)]
    #[must_use]
    pub const fn are_in(&self, share: u32) -> bool {
        share::takes(share, self.remote, self.local, [self.remote_port, self.local_port])
    }
}

/// The number of the policy set in force.
#[inline(always)]
#[must_use]
pub fn generation() -> u64 {
    SETTINGS.get(Setting::Generation as u32).copied().unwrap_or(0)
}

/// Whether any flow of the set in force offers another receive window at first than one that
/// is untuned. It is asked for each SYN, and saves most of them the search for a policy.
#[inline(always)]
#[must_use]
pub fn offers() -> bool {
    let set = generation() & 1;
    SETTINGS.get(Setting::Offers as u32).is_some_and(|sets| *sets >> set & 1 != 0)
}

/// Index of the policy that a flow falls under in the set of that generation. Whose it
/// is, is asked only if a rule depends on it, with the set and what rules depend on; where
/// nobody knows that, no rule is settled.
#[inline(always)]
#[must_use]
pub fn find(generation: u64, ends: &Ends, whose: impl FnOnce(u32, u16) -> Owner) -> Option<u32> {
    let set = (generation & 1) as u32;
    let run = *run(set, ends)?;
    let rules = RULE_SETS.get(set)?;
    let local = words(ends.local);
    // Whatever this says, rules that depend on nobody fit. Of a constant the verifier would
    // follow all that comes after it once more.
    let mut owner = Owner { user: run.first, mark: run.first, patterns: run.first.into() };
    if run.by != 0 {
        owner = whose(set, run.by);
        if owner.user == ANY_USER {
            return None;
        }
    }
    for n in 0..RULES_PER_ADDRESS as u32 {
        if n >= u32::from(run.count) {
            break;
        }
        let rule = rules.get(run.first + n)?;
        if rule.matches(owner, local, ends.local_port, ends.remote_port) {
            return Some(rule.policy);
        }
    }
    None
}

/// Returns what the rules for the remote address depend on in the set of that generation, as
/// [`RuleRun::by`] has it.
#[inline(always)]
#[must_use]
pub fn depends_on(generation: u64, ends: &Ends) -> u16 {
    match run((generation & 1) as u32, ends) {
        Some(run) => run.by,
        None => 0,
    }
}

#[inline(always)]
fn run(set: u32, ends: &Ends) -> Option<&'static RuleRun> {
    let key = Key::new(128, bytes(ends.remote));
    let prefixes = PREFIX_SETS.get(set)?;
    prefixes.get(&key)
}

/// The policy of that index in the set of that generation; None where the path is
/// gone, whose place the agent leaves empty.
#[inline(always)]
#[must_use]
pub fn policy(generation: u64, index: u32) -> Option<&'static Policy> {
    let policy = POLICY_SETS.get((generation & 1) as u32)?.get(index)?;
    if policy.name[0] == 0 { None } else { Some(policy) }
}

/// The policy that a flow was matched with, for what it gets after that: of another
/// set it would get the rest of something else. The agent leaves a set where it is
/// for some seconds after the next one has come into force; None after that.
#[inline(always)]
#[must_use]
pub fn of_flow(flow: &Flow) -> Option<&'static Policy> {
    let policy = policy(flow.generation, flow.policy)?;
    if policy.generation == flow.generation { Some(policy) } else { None }
}

#[inline(always)]
fn bytes(address: [u32; 4]) -> [u8; 16] {
    // SAFETY: the same 16 bytes in the same order.
    unsafe { core::mem::transmute(address) }
}

#[inline(always)]
fn words([a, b, c, d]: [u32; 4]) -> [u64; 2] {
    [
        u64::from(u32::from_be(a)) << 32 | u64::from(u32::from_be(b)),
        u64::from(u32::from_be(c)) << 32 | u64::from(u32::from_be(d)),
    ]
}
