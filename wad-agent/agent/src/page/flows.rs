//! The flows that there are, by any column, a part at a time.

use std::net::IpAddr;

use ipnet::IpNet;
use maud::{Markup, html};
use wad_instruments::{Flow, Reading};
use wad_observing::reading::Filter;

use super::{
    columns::{COLUMNS, Column, Place, USUAL},
    layout::Page,
    pages::{self, Cut},
    query::{Link, Query},
    words::{self, or_dash},
};

/// Flows of one page, where nobody says otherwise.
const ROWS: usize = 50;
/// Numbers of flows of one page that one may choose.
const CHOICES: [usize; 3] = [50, 100, 200];
/// Words that count; each is looked for in every flow.
const MOST_WORDS: usize = 8;

/// The question: which flows, in which order.
pub struct Asked {
    path: Option<String>,
    /// The text of the field, as it was written there.
    text: Option<String>,
    words: Vec<Word>,
    all: bool,
    column: &'static Column,
    is_descending: bool,
    rows: usize,
}

/// A word that a flow has to fit.
enum Word {
    /// A part of anything that is shown of it, in small letters.
    Text(String),
    /// Where its other end is.
    Remote(IpNet),
}

impl Asked {
    pub fn of(query: &Query) -> Self {
        let named = |key: &str| COLUMNS.iter().find(|column| column.key == key);
        let column = query.get("sort").and_then(named).or_else(|| named(USUAL));
        let column = column.expect("the usual column is there");
        let text = query.get("q").map(str::to_owned);
        let words = query.get("q").unwrap_or_default().split_whitespace();
        Self {
            path: query.get("path").map(str::to_owned),
            words: words.take(MOST_WORDS).map(Word::of).collect(),
            text,
            all: query.get("all").is_some(),
            column,
            is_descending: match query.get("order") {
                Some("up") => false,
                Some("down") => true,
                _ => column.is_number(),
            },
            rows: query.number("rows").filter(|rows| CHOICES.contains(rows)).unwrap_or(ROWS),
        }
    }

    /// Returns what the flows are asked for by.
    pub fn filter(&self) -> Filter {
        Filter { paths: self.path.iter().cloned().collect(), all: self.all, ..Filter::default() }
    }

    /// The address of the same, but sorted otherwise.
    fn link(&self, sort: &str, is_descending: bool) -> Link {
        let rows = (self.rows != ROWS).then(|| self.rows.to_string());
        Link::to("/flows")
            .with("path", self.path.clone())
            .with("q", self.text.clone())
            .with("all", self.all.then_some("1"))
            .with("rows", rows)
            .with("sort", Some(sort))
            .with("order", Some(if is_descending { "down" } else { "up" }))
    }

    fn takes(&self, flow: &Flow) -> bool {
        let texts = COLUMNS.iter().filter(|column| !column.is_number());
        let shown = || texts.filter_map(|column| column.cell(flow)).collect::<Vec<_>>().join("\n");
        let shown = if self.words.is_empty() { String::new() } else { shown().to_lowercase() };
        self.words.iter().all(|word| match word {
            Word::Remote(prefix) => prefix.contains(&flow.remote.ip().to_canonical()),
            Word::Text(text) => shown.contains(text),
        })
    }
}

impl Word {
    fn of(text: &str) -> Self {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        match address.or_else(|_| text.parse()) {
            Ok(prefix) => Self::Remote(prefix),
            Err(_) => Self::Text(text.to_lowercase()),
        }
    }
}

/// Makes the page.
pub fn page(asked: &Asked, reading: &Reading, query: &Query) -> Page {
    let mut wanted: Vec<(Place, &Flow)> = reading
        .flows
        .iter()
        .filter(|flow| asked.takes(flow))
        .map(|flow| (asked.column.place(flow), flow))
        .collect();
    wanted.sort_unstable_by(|(one, flow), (other, of_other)| {
        one.order(other, asked.is_descending).then(flow.cookie.cmp(&of_other.cookie))
    });
    let cut = Cut::of(wanted.len(), asked.rows, query);
    let live = html! {
        @if wanted.is_empty() {
            p {
                @match (reading.flows.len() as u64, asked.all) {
                    (0, true) => "No connection is there now.",
                    (0, false) => "No connection is on a path now.",
                    (all, _) => { "None of " (words::count(all)) " flows fits." }
                }
            }
        } @else {
            (words::table("flows", &caption(asked, &cut, reading.flows.len()), &html! {
                thead { tr { @for column in COLUMNS { (heading(column, asked)) } } }
                tbody { @for (_, flow) in &wanted[cut.range()] { (row(flow)) } }
            }))
            (pages::links(&cut, &asked.link(asked.column.key, asked.is_descending)))
        }
    };
    Page { at: "/flows", title: "Flows".to_owned(), form: form(asked), live }
}

fn caption(asked: &Asked, cut: &Cut, all: usize) -> String {
    let of = match (&asked.path, asked.all) {
        (Some(path), _) => format!(" of path {path}"),
        (None, true) => " of this host".to_owned(),
        (None, false) => " of all paths".to_owned(),
    };
    let among = match cut.of == all {
        true => String::new(),
        false => format!(", among {}", words::count(all as u64)),
    };
    let first = match (asked.column.is_number(), asked.is_descending) {
        (true, true) => ", highest first",
        (true, false) => ", lowest first",
        (false, true) => ", backwards",
        (false, false) => "",
    };
    format!("{cut} flows{of}{among}, by {}{first}", asked.column.title.to_lowercase())
}

fn form(asked: &Asked) -> Markup {
    html! {
        form action="/flows" {
            label {
                span { "Has" }
                input name="q" type="search" size="28" value=(asked.text.as_deref().unwrap_or_default())
                    placeholder="address, prefix, process, law …";
            }
            label {
                span { "Path" }
                input name="path" size="14" value=(asked.path.as_deref().unwrap_or_default())
                    placeholder="any";
            }
            label {
                span { "Sorted by" }
                select name="sort" {
                    @for column in COLUMNS {
                        option value=(column.key) selected[column.key == asked.column.key] {
                            (column.title)
                        }
                    }
                }
            }
            label {
                span { "Rows" }
                select name="rows" {
                    @for rows in CHOICES { option selected[rows == asked.rows] { (rows) } }
                }
            }
            label { input name="all" type="checkbox" value="1" checked[asked.all]; "On no path, too" }
            button { "Show" }
        }
    }
}

fn heading(column: &Column, asked: &Asked) -> Markup {
    let is_sorted = column.key == asked.column.key;
    let is_descending = if is_sorted { !asked.is_descending } else { column.is_number() };
    let sorted = is_sorted.then_some(if asked.is_descending { "descending" } else { "ascending" });
    html! {
        th class=(column.class()) scope="col" aria-sort=[sorted] {
            a href=(asked.link(column.key, is_descending)) title=(column.about) { (column.title) }
        }
    }
}

/// Returns where the page of a flow is.
pub fn link(cookie: u64) -> String {
    Link::to("/flow").with("cookie", Some(cookie.to_string())).to_string()
}

fn row(flow: &Flow) -> Markup {
    let (first, others) = COLUMNS.split_first().expect("there are columns");
    html! {
        tr {
            th.k scope="row" { a href=(link(flow.cookie)) { (or_dash(first.cell(flow))) } }
            @for column in others {
                td class=(column.class()) {
                    (or_dash(column.cell(flow)))
                }
            }
        }
    }
}
