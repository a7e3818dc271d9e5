//! The state is what `wad top` shows, and what keys do to it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use wad_agent::status::Evidence;
use wad_instruments::Reading;

use super::{
    columns::{Column, FLOWS, PATHS},
    rows::{self, FlowRow, PathRow},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Flows,
    Paths,
}

/// Says what the terminal is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    GoOn,
    Quit,
    Suspend,
}

#[derive(Debug)]
pub struct TopState {
    pub view: View,
    pub flows: Vec<FlowRow>,
    pub paths: Vec<PathRow>,
    latest: Option<Reading>,
    /// Column by which each view is sorted.
    sort: [usize; 2],
    pub is_reversed: bool,
    pub filter: String,
    /// Keys are written into the filter.
    pub is_filtering: bool,
    pub is_paused: bool,
    pub shows_help: bool,
    /// Rows above the first that is shown.
    pub above: usize,
    /// Rows that fit, for turning pages.
    pub page: usize,
    /// Paths whose policies guards restrain.
    pub restrained: usize,
    /// Why there is nothing newer.
    pub trouble: Option<String>,
}

impl TopState {
    #[must_use]
    pub fn new(first: Reading, evidence: &Evidence) -> Self {
        let mut state = Self {
            view: View::Flows,
            flows: Vec::new(),
            paths: Vec::new(),
            latest: None,
            sort: [0; 2],
            is_reversed: false,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            shows_help: false,
            above: 0,
            page: 1,
            restrained: 0,
            trouble: None,
        };
        state.take(Ok(first), evidence);
        state
    }

    /// Takes what the agent answered. While it is paused, nothing changes.
    pub fn take(&mut self, answer: anyhow::Result<Reading>, evidence: &Evidence) {
        if self.is_paused {
            return;
        }
        match answer {
            Ok(reading) => {
                self.flows = rows::flows(self.latest.as_ref(), &reading);
                self.paths = rows::paths(&self.flows, evidence);
                self.restrained = evidence.guards.iter().filter(|guard| guard.is_away()).count();
                self.latest = Some(reading);
                self.trouble = None;
            }
            // It may be back soon, as after an upgrade.
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    #[must_use]
    pub fn sorted_by(&self) -> usize {
        self.sort[self.view as usize]
    }

    /// Returns the flows that the filter leaves, in their order.
    #[must_use]
    pub fn shown_flows(&self) -> Vec<&FlowRow> {
        self.shown(&self.flows, &FLOWS)
    }

    #[must_use]
    pub fn shown_paths(&self) -> Vec<&PathRow> {
        self.shown(&self.paths, &PATHS)
    }

    /// A row is left where one of its cells has the text.
    fn shown<'r, R>(&self, rows: &'r [R], columns: &[Column<R>]) -> Vec<&'r R> {
        let wanted = self.filter.to_lowercase();
        let fits = |row: &&R| {
            wanted.is_empty()
                || columns.iter().any(|column| (column.cell)(row).to_lowercase().contains(&wanted))
        };
        let mut shown: Vec<&R> = rows.iter().filter(fits).collect();
        let order = columns[self.sorted_by()].order;
        shown.sort_by(|a, b| if self.is_reversed { order(b, a) } else { order(a, b) });
        shown
    }

    fn rows(&self) -> usize {
        match self.view {
            View::Flows => self.shown_flows().len(),
            View::Paths => self.shown_paths().len(),
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Then {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Then::Quit,
                KeyCode::Char('z') => Then::Suspend,
                _ => Then::GoOn,
            };
        }
        if self.is_filtering {
            self.filter_key(key.code);
            return Then::GoOn;
        }
        if self.shows_help {
            self.shows_help = false;
            return Then::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return Then::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('f') => self.look_at(View::Flows),
            KeyCode::Char('p') => self.look_at(View::Paths),
            KeyCode::Tab => self.look_at(match self.view {
                View::Flows => View::Paths,
                View::Paths => View::Flows,
            }),
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            other => self.scroll(other),
        }
        Then::GoOn
    }

    fn filter_key(&mut self, code: KeyCode) {
        self.above = 0;
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    fn look_at(&mut self, view: View) {
        self.view = view;
        self.above = 0;
    }

    fn sort_by_next(&mut self) {
        let columns = match self.view {
            View::Flows => FLOWS.len(),
            View::Paths => PATHS.len(),
        };
        let sort = &mut self.sort[self.view as usize];
        *sort = (*sort + 1) % columns;
        self.above = 0;
    }

    fn scroll(&mut self, code: KeyCode) {
        let above = match code {
            KeyCode::Up | KeyCode::Char('k') => self.above.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.above.saturating_add(1),
            KeyCode::PageUp => self.above.saturating_sub(self.page),
            KeyCode::PageDown => self.above.saturating_add(self.page),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => return,
        };
        self.above = above.min(self.rows().saturating_sub(self.page));
    }
}
