//! Lines of a journal that cannot be read: what they told of cannot be undone,
//! which is for a person to see to.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use wad_toolbox::whole_file;

/// Lines that are listed; of more, the number.
const LISTED: usize = 10;

/// Says what a journal does not tell any more. Lines are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    journal: PathBuf,
    kept: PathBuf,
    lines: Vec<usize>,
}

impl Damage {
    /// Keeps a copy of the journal beside it, which goes once it is undone.
    pub fn keep(journal: &Path, lines: Vec<usize>) -> io::Result<Self> {
        let kept = journal.with_extension("jsonl.damaged");
        whole_file::write(&kept, &fs::read(journal)?)?;
        Ok(Self { journal: journal.to_owned(), kept, lines })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<_> = self.lines.iter().take(LISTED).map(usize::to_string).collect();
        let more = match self.lines.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let s = if self.lines.len() == 1 { "" } else { "s" };
        write!(
            f,
            "line{s} {}{more} of the journal {} cannot be read, and what is told there not be \
             undone: check net.core.rmem_max and net.core.wmem_max; a copy is kept as {}",
            listed.join(", "),
            self.journal.display(),
            self.kept.display()
        )
    }
}
