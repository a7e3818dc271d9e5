//! Checks what only shows once all of the file is read: peers among each other, and with
//! `[peers]`.

use std::collections::HashMap;

use super::{
    super::{
        fault::{Fault, Problems, Span},
        unread::Unread,
    },
    Peers,
    known_by::KnownBy,
    peer::{Peer, Site},
};

/// Most peers: each has metrics of its own, and is asked by a task of its own.
pub const MAX_PEERS: usize = 256;

/// Checks the peers, and puts them into what `[peers]` says, which stands there if it does.
pub fn check(
    (own, place): (&mut Option<Peers>, Option<Span>),
    (peers, sites, unread): (Vec<Peer>, &[Site], &Unread),
    problems: &mut Problems,
) {
    if let Some(site) = sites.get(MAX_PEERS) {
        let title = format!("{} peers", sites.len());
        problems.push(Fault::new(title, format!("at most {MAX_PEERS}")).at(site.name));
        return;
    }
    let (mut names, mut known) = (HashMap::new(), HashMap::new());
    for (peer, site) in peers.iter().zip(sites) {
        if let Some(before) = names.insert(&peer.name, site.name) {
            let fault = Fault::new("two peers have the same name", "the second");
            let fault = fault.help("rename one of them").at(site.name);
            problems.push(fault.also(before, "the first"));
        }
        if let Some(before) = known.insert(&peer.known_by, site.known_by) {
            let fault = Fault::new("two peers are known by the same", "which one is it?");
            let fault = fault.help("leave one of them out").at(site.known_by);
            problems.push(fault.also(before, "the first"));
        }
    }
    match own {
        // That [peers] is wrong has been said.
        None if place.is_some() => {}
        None => {
            if let Some(site) = sites.first() {
                let fault = Fault::new("[[peer]] without [peers]", "who talks with it?");
                let help = "add [peers] with `certificate` and `key`; `wad peer init` makes them";
                problems.push(fault.help(help).at(site.table));
            }
        }
        Some(own) => {
            for (peer, site) in peers.iter().zip(sites) {
                check_with(own, peer, site, problems);
            }
            if let Some(place) = place.filter(|_| peers.is_empty() && unread.is_empty()) {
                let fault =
                    Fault::new("[peers] without a [[peer]]", "there is nobody to talk with");
                problems.push(fault.help("add a [[peer]], or leave it out").at(place));
            }
            own.peers = peers;
        }
    }
}

fn check_with(own: &Peers, peer: &Peer, site: &Site, problems: &mut Problems) {
    if matches!(peer.known_by, KnownBy::Name(_)) && own.ca.is_none() {
        let fault = Fault::new("`identity` needs `ca`", "whose word is it?");
        let help = "add ca = \"/etc/wad/peer/ca.crt\" to [peers], or know the peer by its `key`";
        problems.push(fault.help(help).at(site.known_by));
    }
    if peer.address.is_none() && own.listen.is_none() {
        let fault = Fault::new("neither end asks the other", "nothing would be said");
        let help = "add address = \"dtn.example.org:4825\", or listen = \"[::]:4825\" to [peers]";
        problems.push(fault.help(help).at(site.table));
    }
}
