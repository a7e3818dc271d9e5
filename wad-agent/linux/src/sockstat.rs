//! Memory that TCP holds, as the kernel counts it: of the whole host, whatever network
//! namespace asks.

use std::{fs, io};

const FILE: &str = "/proc/net/sockstat";

/// Returns the bytes that all TCP sockets of the host hold.
pub fn tcp_held_bytes() -> io::Result<u64> {
    let pages = tcp_pages(&fs::read_to_string(FILE)?);
    let pages = pages.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{FILE} has no `mem`"))
    })?;
    Ok(pages * page_bytes())
}

/// Returns the bytes of a page, in which the kernel counts.
#[must_use]
pub fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// The number behind `mem` of the line of TCP. It may be below zero for a moment, as
/// processors count in advance.
fn tcp_pages(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == "mem")?;
    let pages: i64 = words.next()?.parse().ok()?;
    Some(u64::try_from(pages).unwrap_or(0))
}

#[cfg(test)]
mod tests {
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
}
