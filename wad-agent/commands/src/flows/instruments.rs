//! `wad flows --instruments`: what there is to be seen of a flow, and what is not.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use wad_common::law::ShownPhase;
use wad_instruments::{STANDARD, WITHOUT_EQUAL};

/// The instruments, as `--json` lists them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Instruments {
    instruments: Vec<InstrumentInfo>,
    /// The phases of the laws whose names begin with `wad_`.
    phases: Vec<PhaseInfo>,
    /// Names of RFC 4898 that Linux keeps no equal of.
    without_equal: Vec<WithoutEqual>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InstrumentInfo {
    /// The name as in RFC 4898.
    name: &'static str,
    unit: String,
    /// It is a `counter`, which only grows, or a `gauge`.
    kind: String,
    about: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PhaseInfo {
    /// The value of the instrument `Phase`.
    value: u8,
    name: &'static str,
    about: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WithoutEqual {
    names: Vec<&'static str>,
    why: &'static str,
}

impl Instruments {
    pub fn all() -> Self {
        let instruments = STANDARD.iter().map(|of| InstrumentInfo {
            name: of.name,
            unit: of.unit.to_string(),
            kind: of.kind.to_string(),
            about: of.about,
        });
        let phases = ShownPhase::ALL.into_iter().map(|phase| PhaseInfo {
            value: phase as u8,
            name: phase.name(),
            about: phase.about(),
        });
        let without_equal = WITHOUT_EQUAL
            .iter()
            .map(|(names, why)| WithoutEqual { names: names.split(", ").collect(), why });
        Self {
            instruments: instruments.collect(),
            phases: phases.collect(),
            without_equal: without_equal.collect(),
        }
    }
}

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
