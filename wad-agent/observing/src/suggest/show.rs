//! Suggestions for people: TOML to paste, with what was seen as comments.

use std::fmt::{self, Display};

use wad_toolbox::amounts::{Bytes, Rate, Time};

use super::{LeftOut, Suggestion, Suggestions};
use crate::diagnose::percent;

impl Display for Suggestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Connections were watched for {}.", Time(self.seconds))?;
        let LeftOut { tuned, too_short, idle, beyond_bound } = self.left_out;
        for (connections, what) in [
            (tuned, "are on paths that tune them already"),
            (too_short, "ended before they could be judged"),
            (idle, "had nothing to send or receive"),
            (beyond_bound, "are to more addresses than are told apart"),
        ] {
            if connections > 0 {
                writeln!(f, "# Not judged: {connections} {what}.")?;
            }
        }
        let helped = || self.suggestions.iter().filter(|it| it.path.is_some());
        if helped().next().is_none() {
            writeln!(f, "# Nothing here would help any of them.")?;
        }
        helped().try_for_each(|suggestion| write!(f, "\n{suggestion}"))?;
        let others = self.suggestions.iter().filter(|it| it.path.is_none());
        others.into_iter().try_for_each(|suggestion| write!(f, "\n{suggestion}"))
    }
}

impl Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remote, connections, sent_bytes, received_bytes, .. } = self;
        let s = if *connections == 1 { "" } else { "s" };
        writeln!(
            f,
            "# {remote}: {connections} connection{s}, {} sent, {} received,",
            Bytes(*sent_bytes),
            Bytes(*received_bytes)
        )?;
        write!(f, "# {} the fastest", Rate(self.fastest_bits_per_second))?;
        match self.rtt_seconds {
            Some(rtt) => writeln!(f, ", RTT {}", Time(rtt))?,
            None => writeln!(f)?,
        }
        for limited in &self.limits {
            write!(
                f,
                "# limited by {} {} of the time",
                limited.limit.words(),
                percent(limited.share)
            )?;
            match &limited.evidence {
                Some(evidence) => writeln!(f, ":\n#   {evidence}")?,
                None => writeln!(f)?,
            }
        }
        if self.path.is_none() {
            writeln!(f, "# Nothing here helps:")?;
        }
        for note in &self.notes {
            writeln!(f, "# - {note}")?;
        }
        match &self.path {
            Some(path) => f.write_str(&path.toml),
            None => Ok(()),
        }
    }
}
