//! The picture: a function of the state alone.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Row, Table},
};
use wad_toolbox::amounts::Rate;

use super::{
    columns::{Column, FLOWS, PATHS},
    state::{TopState, View},
};

/// The text says what keys do: it is shown for `?`, and by `wad top --help`.
pub const KEYS: &str = "\
f, p, Tab     flows, paths, the other of the two
s             sort by the next column
r             the other way round
/             show only rows with this text: Enter keeps it, Esc ends it
space         pause, go on
Up, Down, PgUp, PgDn, Home, End
              scroll
?, h          these keys
q, Ctrl-C     quit
Ctrl-Z        suspend";

/// Lines that are no rows: the summary, titles, and the hint.
const OTHER_LINES: u16 = 3;

/// Rows that fit a terminal of this height.
#[must_use]
pub fn page(height: u16) -> usize {
    height.saturating_sub(OTHER_LINES).max(1).into()
}

pub fn draw(frame: &mut Frame<'_>, state: &TopState) {
    let [summary, table, hint] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(self::summary(state)), summary);
    match state.view {
        View::Flows => draw_table(frame, table, &FLOWS, (state, &state.shown_flows())),
        View::Paths => draw_table(frame, table, &PATHS, (state, &state.shown_paths())),
    }
    frame.render_widget(Paragraph::new(self::hint(state)), hint);
    if state.shows_help {
        draw_help(frame);
    }
}

fn summary(state: &TopState) -> Line<'static> {
    let sum = |rates: Vec<f64>| Rate(rates.iter().sum());
    let sent = sum(state.paths.iter().map(|path| path.sent).collect());
    let received = sum(state.paths.iter().map(|path| path.received).collect());
    let (flows, paths) = (counted(state.flows.len(), "flow"), counted(state.paths.len(), "path"));
    let paused = if state.is_paused { ", paused" } else { "" };
    let restrained = match state.restrained {
        0 => String::new(),
        paths => format!(", {paths} held back"),
    };
    Line::styled(
        format!("wad top: {flows}, {paths}, send {sent}, receive {received}{paused}{restrained}"),
        Modifier::BOLD,
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn hint(state: &TopState) -> Line<'static> {
    if let Some(trouble) = &state.trouble {
        return Line::styled(trouble.clone(), Modifier::REVERSED);
    }
    if state.is_filtering {
        return Line::raw(format!("/{}_", state.filter));
    }
    let filtered = match state.filter.as_str() {
        "" => String::new(),
        text => format!("only rows with \"{text}\", Esc ends that; "),
    };
    Line::raw(format!("{filtered}f flows  p paths  s sort  / filter  space pause  ? keys  q quit"))
}

fn draw_table<R>(
    frame: &mut Frame<'_>,
    area: Rect,
    columns: &[Column<R>],
    (state, rows): (&TopState, &[&R]),
) {
    let columns: Vec<(usize, &Column<R>)> =
        columns.iter().enumerate().filter(|(_, column)| column.from_width <= area.width).collect();
    let titles = columns.iter().map(|(index, column)| {
        let style = match *index == state.sorted_by() {
            true => Modifier::REVERSED,
            false => Modifier::UNDERLINED,
        };
        Span::styled(column.title, style)
    });
    let fits = usize::from(area.height.saturating_sub(1));
    let above = state.above.min(rows.len().saturating_sub(fits));
    let lines = rows.iter().skip(above).take(fits).map(|row| {
        Row::new(columns.iter().map(|(_, column)| (column.cell)(row)).collect::<Vec<_>>())
    });
    let widths = columns.iter().map(|(_, column)| match column.grows {
        true => Constraint::Min(column.width),
        false => Constraint::Length(column.width),
    });
    let table = Table::new(lines, widths).header(Row::new(titles)).column_spacing(1);
    frame.render_widget(table, area);
    if rows.is_empty() && area.height > 2 {
        let text = match state.filter.is_empty() {
            true => "no flow of any path; `wad explain ADDRESS` says which path one would have",
            false => "nothing with this text",
        };
        frame.render_widget(Paragraph::new(text), Rect { y: area.y + 2, height: 1, ..area });
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let lines = u16::try_from(KEYS.lines().count()).unwrap_or(u16::MAX);
    let widest = KEYS.lines().map(str::len).max().and_then(|width| u16::try_from(width).ok());
    let width = widest.unwrap_or(u16::MAX).saturating_add(4).min(area.width);
    let height = lines.saturating_add(2).min(area.height);
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let inside = Rect { x: area.x + x, y: area.y + y, width, height };
    let block = Block::bordered().title(" Keys; any of them ends this ");
    frame.render_widget(Clear, inside);
    frame.render_widget(Paragraph::new(KEYS).block(block).style(Style::new()), inside);
}
