//! `wad flows --instruments`: what there is to be seen of a flow, and what is not.

use std::io::{self, Write};

use wad_common::law::ShownPhase;
use wad_instruments::{STANDARD, WITHOUT_EQUAL};

pub fn write(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Of every flow, by the names of RFC 4898:\n")?;
    for of in STANDARD {
        // Padding takes a string.
        let (unit, kind) = (of.unit.to_string(), of.kind.to_string());
        writeln!(out, "{:<20}  {unit:<8}  {kind:<7}  {}", of.name, of.about)?;
    }
    writeln!(out, "\nThe phases of the laws whose names begin with wad_:\n")?;
    for phase in ShownPhase::ALL {
        writeln!(out, "{:>4}  {:<20}  {}", phase as u8, phase.name(), phase.about())?;
    }
    writeln!(
        out,
        "\nAny other number of the kernel's `struct tcp_sock` is shown by --field, as snd_wl1,\n\
         inet_conn.icsk_ca_state or rtt_min.s[0].v.\n\nWhat RFC 4898 has, and Linux keeps no \
         equal of:\n"
    )?;
    for (names, why) in WITHOUT_EQUAL {
        writeln!(out, "{names}\n    {why}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_listed_once_and_lines_are_no_longer_than_a_terminal() {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for of in STANDARD {
            let lines = text.lines().filter(|line| line.split(' ').next() == Some(of.name));
            assert_eq!(lines.count(), 1, "{}", of.name);
        }
        let longest = text.lines().map(str::len).max();
        assert!(longest <= Some(100), "{longest:?}");
        for (names, _) in WITHOUT_EQUAL {
            assert!(STANDARD.iter().all(|of| !names.split(", ").any(|name| name == of.name)));
        }
    }
}
