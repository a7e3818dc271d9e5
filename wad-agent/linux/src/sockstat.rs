//! Memory that TCP holds, as the kernel counts it: of the whole host, whatever network
//! namespace asks; and whether a namespace has TCP sockets at all.

use std::{fs, io, path::Path};

const FILE: &str = "/proc/net/sockstat";

/// Returns the bytes that all TCP sockets of the host hold.
pub fn tcp_held_bytes() -> io::Result<u64> {
    let pages = tcp_pages(&fs::read_to_string(FILE)?);
    let pages = pages.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{FILE} has no `mem`"))
    })?;
    Ok(pages * page_bytes())
}

/// Tells whether the calling thread's network namespace has TCP sockets. A walk over
/// sockets goes through the table of the whole host for each namespace, in milliseconds;
/// this takes microseconds. Where it cannot be known, it has.
#[must_use]
pub fn has_tcp() -> bool {
    // Each processor counts for itself: one that opens a socket after it was asked, and
    // another that closes it before, hide a third socket. Hardly twice.
    (0..2).any(|_| has_tcp_by("sockstat", "TCP: ") || has_tcp_by("sockstat6", "TCP6: "))
}

/// In /proc/net are the files of the process's first thread.
fn has_tcp_by(file: &str, protocol: &str) -> bool {
    match fs::read_to_string(Path::new("/proc/thread-self/net").join(file)) {
        Ok(text) => number(&text, protocol, "inuse") != Some(0),
        // A kernel without IPv6 has no such file.
        Err(error) => file == "sockstat" || error.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns the bytes of a page, in which the kernel counts.
#[must_use]
pub fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Returns the pages of TCP. They may be below zero for a moment, as processors count in
/// advance.
fn tcp_pages(text: &str) -> Option<u64> {
    number(text, "TCP: ", "mem").map(|pages| u64::try_from(pages).unwrap_or(0))
}

/// The number behind a word of the line of a protocol.
fn number(text: &str, protocol: &str, word: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(protocol))?;
    let mut words = line.split_whitespace();
    words.find(|next| *next == word)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_number_of_tcp_is_found_among_the_others() {
        let text = |mem| {
            format!(
                "sockets: used 290\nTCP: inuse 9 orphan 0 tw 4 alloc 11 mem {mem}\n\
                 UDP: inuse 3 mem 7\n"
            )
        };
        assert_eq!(tcp_pages(&text("62")), Some(62));
        assert_eq!(tcp_pages(&text("-3")), Some(0));
        assert_eq!(tcp_pages(&text("")), None);
        assert_eq!(tcp_pages("UDP: inuse 3 mem 7\n"), None);
        tcp_held_bytes().unwrap();
    }

    #[test]
    fn a_socket_is_counted_where_it_is() {
        let _listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(has_tcp());
    }
}
