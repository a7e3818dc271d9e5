//! Lines on peers: those that have spoken, those that are silent, and certificates that end soon.

use std::io::{self, Write};

use wad_agent::status::{PeerStatus, PeersStatus};

use super::Uptime;

/// A certificate that ends within so many days is told of.
const SOON_DAYS: i64 = 14;

pub fn write(peers: &PeersStatus, out: &mut dyn Write) -> io::Result<()> {
    if let Some(why) = &peers.failing {
        writeln!(out, "behind   peers: {why}")?;
    }
    let ends =
        |days: i64| if days < 0 { "has ended".to_owned() } else { format!("ends in {days} days") };
    if let Some(days) = peers.certificate_ends_in_days.filter(|days| *days < SOON_DAYS) {
        writeln!(out, "behind   peers: the certificate of this end {}", ends(days))?;
    }
    for peer in &peers.peers {
        let name = &peer.name;
        match (peer.age_seconds, peer.silent_seconds) {
            (Some(age), _) => write_heard(peer, age, out)?,
            (None, Some(silent)) => {
                writeln!(out, "peer     {name}: silent for {}", Uptime(silent))?
            }
            (None, None) => {}
        }
        if let Some(why) = &peer.failing {
            writeln!(out, "behind   peer {name}: {why}")?;
        }
        if let Some(days) = peer.certificate_ends_in_days.filter(|days| *days < SOON_DAYS) {
            writeln!(out, "behind   peer {name}: its certificate {}", ends(days))?;
        }
    }
    match peers.strangers_refused {
        0 => Ok(()),
        count => writeln!(out, "counted  {count} connections of those that are no peer"),
    }
}

fn write_heard(peer: &PeerStatus, age: u64, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "peer     {}: heard {} ago", peer.name, Uptime(age))?;
    if let Some(seconds) = peer.ends_in_seconds {
        write!(out, ", which counts for another {}", Uptime(seconds))?;
    }
    if let Some(seconds) = peer.consent_ends_in_seconds {
        write!(out, ", its consent for {}", Uptime(seconds))?;
    }
    match peer.paths.as_slice() {
        [] => writeln!(out),
        paths => writeln!(out, "; by its word: {}", paths.join(", ").escape_debug()),
    }
}
