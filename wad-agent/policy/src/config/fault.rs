//! A problem is one thing that is wrong in a file: what, where, and what to do about
//! it.

use std::{
    fmt::{self, Display},
    ops::Range,
};

use wad_toolbox::url::UrlError;

/// Bytes of the file, end exclusive. 32 bits do: files are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// A range within a section that begins at `base_bytes` of the file.
    pub fn new(base_bytes: usize, range: Range<usize>) -> Self {
        let absolute = |offset: usize| u32::try_from(base_bytes + offset).unwrap_or(u32::MAX);
        Self { start: absolute(range.start), end: absolute(range.end) }
    }

    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Says what is wrong with a value, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub title: String,
    /// Stands under the place.
    pub label: String,
    pub help: Option<String>,
    pub nature: Nature,
}

/// Says what a fault is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nature {
    /// A value, with what stands beside it.
    #[default]
    InPlace,
    /// A value, whatever stands beside it.
    OfValue,
    /// A value that is right, but of no use where it is.
    Idle,
}

impl Fault {
    pub fn new(title: impl Into<String>, label: impl Into<String>) -> Self {
        Self { title: title.into(), label: label.into(), help: None, nature: Nature::default() }
    }

    /// Returns the fault of a value that is of no use here. It is none where other paths
    /// have the value as well.
    #[must_use]
    pub fn idle(self) -> Self {
        Self { nature: Nature::Idle, ..self }
    }

    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub const fn at(self, at: Span) -> Problem {
        Problem { fault: self, at, also: None }
    }
}

/// The fault is told in one line, for where there is no file to point into.
impl From<UrlError> for Fault {
    fn from(UrlError { title, label, help }: UrlError) -> Self {
        Self::new(title, label).help(help)
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, label, help, .. } = self;
        write!(f, "{title}: {label}")?;
        help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

/// A fault and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub fault: Fault,
    pub at: Span,
    /// A second place that has to do with it.
    pub also: Option<(Span, &'static str)>,
}

impl Problem {
    #[must_use]
    pub fn also(self, at: Span, label: &'static str) -> Self {
        Self { also: Some((at, label)), ..self }
    }
}

/// Beyond these, errors are only counted: a file of many megabytes can have
/// millions of them.
const KEPT: usize = 1_000;

/// All that is wrong in a file.
#[derive(Debug, Default)]
pub struct Problems {
    kept: Vec<Problem>,
    count: usize,
}

impl Problems {
    pub fn push(&mut self, problem: Problem) {
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(problem);
        }
    }

    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the places of values that are of no use.
    pub fn idle(&self) -> impl Iterator<Item = Span> {
        let idle = self.kept.iter().filter(|problem| problem.fault.nature == Nature::Idle);
        idle.map(|problem| problem.at)
    }

    /// Adds those of a path, whose name is there. What is wrong with a value that it has from
    /// elsewhere is said with the path; of the value by itself, once.
    pub fn push_all_of(
        &mut self,
        path: Self,
        name: Span,
        is_from_elsewhere: impl Fn(Span) -> bool,
    ) {
        self.count += path.count - path.kept.len();
        for problem in path.kept {
            if !is_from_elsewhere(problem.at) {
                self.push(problem);
                continue;
            }
            let is_same = |other: &Problem| {
                other.at == problem.at && other.fault.title == problem.fault.title
            };
            let is_of_value = problem.fault.nature == Nature::OfValue;
            if !(is_of_value && self.kept.iter().any(is_same)) {
                self.push(problem.also(name, "for this path"));
            }
        }
    }

    /// Returns the problems in the order of the file.
    pub fn sorted(mut self) -> Vec<Problem> {
        self.kept.sort_by_key(|problem| problem.at.start);
        self.kept
    }
}

/// A user's text within a message: quoted, control characters escaped, cut.
pub fn quoted(text: &str) -> String {
    const MOST: usize = 64;
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(MOST).flat_map(char::escape_debug).collect();
    let more = if chars.next().is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}
