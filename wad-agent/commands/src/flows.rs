//! `wad flows`: every flow of the paths, and what TCP knows of it.

mod instruments;
mod table;

use std::{
    io::{self, IsTerminal as _, Write as _},
    thread,
    time::Duration,
};

use anyhow::Result;
use clap::Args;
use wad_agent::client::{self, Request};
use wad_instruments::{Reading, STANDARD};
use wad_observing::reading::Filter;
use wad_toolbox::document::Document;
use wad_tuning::instance::Instance;

pub use self::instruments::Instruments;
use self::table::Columns;
use crate::{
    arguments::{Ask, FlowFilter, parse_interval},
    error::CommandError,
    output,
};

#[derive(Debug, Args)]
pub struct Flows {
    #[command(flatten)]
    pub filter: FlowFilter,
    /// Show this instrument, or member of the kernel's `struct tcp_sock`, too; may be
    /// given several times
    #[arg(long = "field", value_name = "NAME")]
    pub fields: Vec<String>,
    /// Put the flows with most of this instrument, or field, first
    #[arg(long, value_name = "NAME")]
    pub sort: Option<String>,
    /// Show them again and again, with what they did meanwhile
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = parse_interval)]
    pub watch: Option<Duration>,
    /// List the instruments, and what RFC 4898 has that Linux has not
    #[arg(long, conflicts_with_all = ["paths", "remotes", "cookies", "fields", "sort", "watch",
          "instance"])]
    pub instruments: bool,
    #[command(flatten)]
    pub ask: Ask,
}

/// Asks the running agent.
pub fn ask(instance: &Instance, filter: &Filter) -> Result<Reading> {
    client::ask_instance(instance, &Request::get(format!("/v1/flows?{filter}")))
}

/// `wad flows`.
pub fn run(args: &Flows) -> Result<()> {
    if args.instruments {
        return match args.ask.json {
            true => output::print_json(&Instruments::all()),
            false => output::print_by(instruments::write),
        };
    }
    let (columns, filter) = question(args);
    let reading = read(args, &filter)?;
    if let Some(name) = &args.sort {
        let is_known = reading.flows.iter().all(|flow| flow.instruments.has(name));
        if !is_known {
            return Err(CommandError::NoInstrument { name: name.clone() }.into());
        }
    }
    let Some(interval) = args.watch else {
        if args.ask.json {
            return output::print_json(&reading);
        }
        return output::print_by(|out| table::write(&reading, None, &columns, out));
    };
    let mut before = None;
    let mut now = reading;
    loop {
        if !show(&now, before.as_ref(), &columns, args.ask.json)? {
            return Ok(());
        }
        thread::sleep(interval);
        before = Some(now);
        now = read(args, &filter)?;
    }
}

/// Asks the running agent, and puts its answer in the order that was asked for.
fn read(args: &Flows, filter: &Filter) -> Result<Reading> {
    let mut reading = ask(&args.ask.instance.name, filter)?;
    if let Some(name) = &args.sort {
        table::sort(name, &mut reading.flows);
    }
    Ok(reading)
}

/// Returns what the table shows beside its usual columns, and what the agent is
/// asked: the standard instruments are in every answer.
fn question(args: &Flows) -> (Columns, Filter) {
    let is_standard = |name: &str| STANDARD.iter().any(|instrument| instrument.name == name);
    let fields = args.fields.iter().filter(|name| !is_standard(name)).cloned().collect();
    let columns = Columns { more: args.fields.clone(), is_sorted: args.sort.is_some() };
    (columns, Filter { fields, ..args.filter.to_filter() })
}

/// Whether anybody still looks at it.
fn show(now: &Reading, before: Option<&Reading>, columns: &Columns, json: bool) -> Result<bool> {
    const CLEAR: &str = "\x1b[H\x1b[2J";
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut write = || -> io::Result<()> {
        if json {
            serde_json::to_writer(&mut out, &Document::new(now))?;
            writeln!(out)?;
            return out.flush();
        }
        if io::stdout().is_terminal() {
            write!(out, "{CLEAR}")?;
        }
        writeln!(out, "{}", now.time.strftime("%F %T UTC"))?;
        table::write(now, before, columns, &mut out)?;
        writeln!(out)?;
        out.flush()
    };
    match write() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true)?),
    }
}
