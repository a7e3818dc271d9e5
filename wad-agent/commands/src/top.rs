//! `wad top`: the flows and paths of the running agent, live on a terminal.

mod columns;
mod draw;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal as _},
    sync::mpsc::{Receiver, TryRecvError, sync_channel},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use wad_agent::{
    client::{self, Request},
    evidence::SUMMED_UP_AT,
    status::Evidence,
};
use wad_instruments::Reading;
use wad_observing::reading::Filter;
use wad_tuning::instance::Instance;

pub use self::draw::KEYS;
use self::{
    draw::{draw, page},
    screen::{Screen, Signals},
    state::{Then, TopState},
};
use crate::{
    arguments::{FlowFilter, InstanceName, parse_interval},
    diagnose::read_flows,
};

#[derive(Debug, Args)]
pub struct Top {
    /// From one reading to the next
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub filter: FlowFilter,
    #[command(flatten)]
    pub instance: InstanceName,
}

/// A signal waits for so long at most, and so does an answer of the agent.
const TICK: Duration = Duration::from_millis(50);

pub fn run(args: &Top) -> Result<()> {
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "`wad top` needs a terminal; `wad flows` is for files and pipes"
    );
    let (instance, filter) = (&args.instance.name, args.filter.to_filter());
    let (reading, evidence) = read(instance, &filter);
    let mut state = TopState::new(reading?, &evidence);
    let readings = follow(instance.clone(), filter, args.interval);
    let signals = Signals::catch().context("cannot handle signals")?;
    let mut screen = Screen::open().context("cannot use the terminal")?;
    show(&mut screen, &mut state, &readings, &signals).context("the terminal is gone")
}

/// Flows, and what experiments and guards say of their paths.
type Seen = (Result<Reading>, Evidence);

fn read(instance: &Instance, filter: &Filter) -> Seen {
    let reading = read_flows(instance, filter);
    // An agent of before knows nothing of it.
    (reading, client::ask_instance(instance, &Request::get(SUMMED_UP_AT)).unwrap_or_default())
}

/// Readings from now on. While nobody takes them, the agent is not asked.
fn follow(instance: Instance, filter: Filter, interval: Duration) -> Receiver<Seen> {
    let (sender, receiver) = sync_channel(0);
    thread::spawn(move || {
        loop {
            thread::sleep(interval);
            if sender.send(read(&instance, &filter)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Shows the screen until somebody ends it.
fn show(
    screen: &mut Screen,
    state: &mut TopState,
    readings: &Receiver<Seen>,
    signals: &Signals,
) -> io::Result<()> {
    let mut is_changed = true;
    while !signals.stop() {
        if is_changed {
            state.page = page(screen.0.size()?.height);
            screen.0.draw(|frame| draw(frame, state))?;
        }
        is_changed = false;
        let mut then = Then::GoOn;
        // A signal interrupts it.
        if event::poll(TICK)? {
            is_changed = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                then = state.key(key);
            }
        }
        match readings.try_recv() {
            Ok((answer, evidence)) => {
                state.take(answer, &evidence);
                is_changed = true;
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        match then {
            Then::Quit => return Ok(()),
            Then::GoOn if !signals.suspend() => {}
            Then::GoOn | Then::Suspend => {
                screen.suspend()?;
                is_changed = true;
            }
        }
    }
    Ok(())
}
