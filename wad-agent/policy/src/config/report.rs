//! Errors as text, and for other programs: place, line, what to do. Bounded, whatever the
//! file.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use schemars::JsonSchema;
use serde::Serialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    fault::{Fault, Problem, Span},
    sections::sections,
    texts::Texts,
};

/// Errors shown; the rest is a number.
const SHOWN: usize = 20;
/// Width in columns; a longer line is shown around the place in question.
const WIDTH: usize = 120;
/// The most of a place that is marked, in bytes.
const MARKED_BYTES: usize = WIDTH / 2;
/// The most of a line that is shown beyond the place, in bytes. More than the width,
/// so that the renderer sees there is more and says so.
const BEYOND_BYTES: usize = 4 * WIDTH;

/// The errors of these texts, and how many more there are.
pub fn render(texts: &Texts, problems: &[Problem], count: usize) -> String {
    let renderer = Renderer::plain().term_width(WIDTH);
    let mut shown: Vec<String> = problems
        .iter()
        .take(SHOWN)
        .map(|problem| renderer.render(&[group(texts, problem)]))
        .collect();
    if count > shown.len() {
        shown.push(format!("and {} more", count - shown.len()));
    }
    shown.join("\n\n")
}

/// One thing that is wrong in a file, for other programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mistake {
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// The column in characters, from 1 on.
    pub column: usize,
    /// The fault in a line.
    pub title: String,
    /// The fault of this place.
    pub label: String,
    /// The cure.
    pub help: Option<String>,
}

/// Returns the file and the line of a key, where a table of that name has it.
#[must_use]
pub fn line_of(texts: &Texts, table: &str, key: &str) -> Option<(String, usize)> {
    line(texts, |root| root.get(table)?.get_ref().as_table()?.get(key))
}

/// Returns those of a key of one table of several, which has this name.
#[must_use]
pub fn line_of_named(
    texts: &Texts,
    table: &str,
    (name, key): (&str, &str),
) -> Option<(String, usize)> {
    line(texts, |root| {
        let mut tables = root.get(table)?.get_ref().as_array()?.iter();
        let is_it = |table: &&DeTable<'_>| {
            table.get("name").and_then(|it| it.get_ref().as_str()) == Some(name)
        };
        tables.by_ref().filter_map(|table| table.get_ref().as_table()).find(is_it)?.get(key)
    })
}

fn line(
    texts: &Texts,
    find: impl for<'a, 't> Fn(&'a DeTable<'t>) -> Option<&'a Spanned<DeValue<'t>>>,
) -> Option<(String, usize)> {
    sections(texts).flatten().find_map(|section| {
        let parsed = DeTable::parse(section.text).ok()?;
        let span = find(parsed.get_ref())?.span();
        let line = Line::at(texts, Span::new(section.base_bytes, span));
        Some((line.file.to_owned(), line.number))
    })
}

/// Returns the errors with their places.
pub fn mistakes(texts: &Texts, problems: &[Problem]) -> Vec<Mistake> {
    let mistake = |problem: &Problem| {
        let line = Line::at(texts, problem.at);
        let Fault { title, label, help, .. } = problem.fault.clone();
        let column = 1 + line.text[..line.start].chars().count();
        Mistake { file: line.file.to_owned(), line: line.number, column, title, label, help }
    };
    problems.iter().map(mistake).collect()
}

fn group<'a>(texts: &'a Texts, problem: &'a Problem) -> Group<'a> {
    let Fault { title, label, help, .. } = &problem.fault;
    let place = |span, kind: AnnotationKind, label: &'a str| {
        let line = Line::at(texts, span);
        Snippet::source(line.text)
            .path(line.file)
            .line_start(line.number)
            .fold(false)
            .annotation(kind.span(line.start..line.end).label(label))
    };
    let mut group = Level::ERROR.primary_title(title.as_str()).element(place(
        problem.at,
        AnnotationKind::Primary,
        label,
    ));
    if let Some((at, label)) = problem.also {
        group = group.element(place(at, AnnotationKind::Context, label));
    }
    match help {
        Some(help) => group.element(Level::HELP.message(help.as_str())),
        None => group,
    }
}

/// The first line of a span, and where the span lies in it, in bytes.
struct Line<'a> {
    file: &'a str,
    text: &'a str,
    number: usize,
    start: usize,
    end: usize,
}

impl<'a> Line<'a> {
    /// Spans come from the parser of these texts; one that did not would be
    /// shown at the nearest character.
    fn at(texts: &'a Texts, span: Span) -> Self {
        let range = span.range();
        let found = texts.parts().rfind(|(begin, _)| *begin <= range.start);
        let (begin, file, text) =
            found.map_or((0, "", ""), |(begin, text)| (begin, text.file.as_str(), &text.text));
        let (start, end) = (range.start - begin, range.end.saturating_sub(begin));
        let start = text.floor_char_boundary(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let rest = text[start..].split('\n').next().unwrap_or_default();
        let line_end = start + rest.strip_suffix('\r').unwrap_or(rest).len();
        let end = text.floor_char_boundary(end.clamp(start, line_end));
        let end = end.min(text.floor_char_boundary(start + MARKED_BYTES));
        let line_end = line_end.min(text.floor_char_boundary(end + BEYOND_BYTES));
        Self {
            file,
            text: &text[line_start..line_end],
            number: 1 + text.as_bytes()[..line_start].iter().filter(|&&byte| byte == b'\n').count(),
            start: start - line_start,
            end: end - line_start,
        }
    }
}
