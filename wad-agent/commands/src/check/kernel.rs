//! `wad check --host`: which BPF programs this kernel takes, and what goes without the others.

use std::{
    fmt::{self, Display},
    fs,
};

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::Serialize;
use wad_linux::privileges;
use wad_toolbox::text_table::TextTable;
use wad_tuning::bpf::trial::{self, Need, Trial};

use crate::output;

/// This kernel and the programs that it takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Kernel {
    release: String,
    /// How much the kernel is locked down; null where it does not say.
    lockdown: Option<String>,
    /// The capabilities that this process lacks, each with what goes without it.
    lacking: Vec<String>,
    programs: Vec<Trial>,
}

/// Loads each program once, and prints what came of it. It fails where there can be no tuning.
pub fn run(json: bool) -> Result<()> {
    privileges::lift_locked_memory();
    let lacking = privileges::check()?.lacking().map(ToString::to_string).collect();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").ok();
    let lockdown = lockdown.as_deref().and_then(active).map(str::to_owned);
    let kernel = Kernel { release, lockdown, lacking, programs: trial::try_programs()? };
    if json {
        output::print_json(&kernel)?
    } else {
        output::print(&kernel)?
    }
    match kernel.programs.iter().find(|program| program.need == Need::Required) {
        Some(Trial { program, refusal: Some(reason), .. }) => {
            bail!("`wad run` cannot tune here: this kernel refuses {program}: {reason}")
        }
        _ => Ok(()),
    }
}

/// Returns the one of several words that stands in brackets.
fn active(words: &str) -> Option<&str> {
    words.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

impl Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { release, lockdown, lacking, programs } = self;
        let lockdown =
            lockdown.as_ref().map_or_else(String::new, |word| format!(", lockdown {word}"));
        writeln!(f, "kernel {release}{lockdown}")?;
        for lacking in lacking {
            writeln!(f, "{lacking}")?;
        }
        let row = |program: &Trial| {
            let taken = if program.refusal.is_none() { "yes" } else { "NO" };
            [&program.program, &program.kind, taken, &program.without].map(str::to_owned)
        };
        writeln!(f)?;
        let titles = ["BPF PROGRAM", "KIND", "TAKEN", "WITHOUT IT"];
        TextTable::new(titles).with_rows(programs.iter().map(row)).fmt(f)?;
        writeln!(f)?;
        let refused: Vec<_> =
            programs.iter().filter_map(|it| Some((it, it.refusal.as_ref()?))).collect();
        for (Trial { program, .. }, reason) in &refused {
            writeln!(f, "{program}: {reason}")?;
        }
        writeln!(
            f,
            "this kernel takes {} of {} programs",
            programs.len() - refused.len(),
            programs.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(program: &str, refusal: Option<&str>) -> Trial {
        Trial {
            program: program.to_owned(),
            kind: "iter/tcp".to_owned(),
            need: Need::Wanted,
            without: "flows that run already stay as they are".to_owned(),
            refusal: refusal.map(str::to_owned),
        }
    }

    #[test]
    fn refused_programs_are_listed_with_the_reason() {
        let programs = vec![trial("wad_a", None), trial("wad_b", Some("Operation not permitted"))];
        let lockdown = active("none [integrity] confidentiality\n").map(str::to_owned);
        let kernel =
            Kernel { release: "6.18.1".to_owned(), lockdown, lacking: Vec::new(), programs };
        assert_eq!(
            kernel.to_string(),
            "kernel 6.18.1, lockdown integrity\n\n\
             BPF PROGRAM  KIND      TAKEN  WITHOUT IT\n\
             wad_a        iter/tcp  yes    flows that run already stay as they are\n\
             wad_b        iter/tcp  NO     flows that run already stay as they are\n\n\
             wad_b: Operation not permitted\n\
             this kernel takes 1 of 2 programs\n"
        );
    }
}
