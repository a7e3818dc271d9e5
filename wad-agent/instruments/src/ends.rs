//! The two ends of a flow, as the kernel side has them.

use std::net::SocketAddr;

use wad_common::instruments::Head;
use wad_toolbox::shown;

/// Returns this host's end.
pub fn local(head: &Head) -> SocketAddr {
    address(head.local, head.local_port)
}

/// The other end of a flow.
pub fn remote(head: &Head) -> SocketAddr {
    address(head.remote, head.remote_port)
}

fn address(words: [u32; 4], port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    for (place, word) in octets.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    shown::address(octets, port)
}
