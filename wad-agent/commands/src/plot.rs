//! `wad plot`: what was traced as a picture, an SVG: windows, rate, RTT and
//! retransmissions over time, of several flows or several traces; or what probes have found
//! out of a path over days.

pub mod curve;
mod days;
mod flows;
pub mod svg;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use wad_observing::log;
#[cfg(feature = "fuzz")]
use wad_observing::trace::read::Rows;
use wad_probing::answers::History;

use self::{
    flows::{Drawn, Traces},
    svg::Frame,
};
use crate::{
    arguments::InstanceName,
    history::{self, Past},
    output,
    progress::Progress,
};

#[derive(Debug, Args)]
pub struct Plot {
    /// Traces that `wad trace` wrote, in either format, packed or not; FILE, FILE.1, ...
    /// are one trace, others are set beside it
    #[arg(value_name = "FILE", required_unless_present = "history", conflicts_with = "history")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub past: Past,
    #[command(flatten)]
    pub instance: InstanceName,
    /// The picture (SVG) [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `wad plot`.
pub fn run(args: &Plot) -> Result<()> {
    let picture = match &args.past.history {
        None => picture_of_traces(&args.files)?,
        Some(name) => {
            let history = history::ask(&args.instance.name, name, &args.past)?;
            picture_of_days(name, &history)?
        }
    };
    match &args.out {
        None => output::print(picture),
        Some(out) => {
            fs::write(out, picture).with_context(|| format!("cannot write {}", out.display()))
        }
    }
}

fn picture_of_days(name: &str, history: &History) -> Result<String> {
    let panels = days::panels(history);
    ensure!(!panels.is_empty(), "nothing to draw: no probe of {name} has measured anything");
    let first = history.buckets.first().map(|bucket| bucket.start).unwrap_or_default();
    let frame = Frame {
        title: name,
        labels: Vec::new(),
        end: days::days(history),
        counted: &format!("days since {first:.0}"),
    };
    Ok(svg::render(&frame, &panels))
}

fn picture_of_traces(files: &[PathBuf]) -> Result<String> {
    let mut traces = Traces::default();
    for file in files {
        let progress = Progress::of(format!("reading {}", file.display()));
        let damage = traces.read(file).with_context(|| file.display().to_string())?;
        drop(progress);
        if let Some(damage) = damage {
            log::say(&format!("{}: {damage}", file.display()));
        }
    }
    picture(&traces)
}

fn picture(traces: &Traces) -> Result<String> {
    let Drawn { flows, left_out } = traces.drawn();
    if flows.is_empty() {
        bail!("nothing to draw: no flow was traced");
    }
    if left_out > 0 {
        log::say(&format!(
            "{left_out} flows are left out: those are drawn that carried most; trace fewer, as \
             with --remote or --path"
        ));
    }
    let panels = curve::panels(&flows);
    ensure!(
        !panels.is_empty(),
        "nothing to draw: none of {} was traced",
        curve::INSTRUMENTS.join(", ")
    );
    let ends = flows.iter().filter_map(|flow| flow.points.last()).map(|(seconds, _)| *seconds);
    let frame = Frame {
        title: &traces.title(),
        labels: flows.iter().map(|flow| flow.label.as_str()).collect(),
        end: ends.fold(0.1, f64::max),
        counted: "time (s)",
    };
    Ok(svg::render(&frame, &panels))
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let Ok(rows) = Rows::new(bytes) else { return };
    let mut traces = Traces::default();
    let _damage = traces.take(std::path::Path::new("trace"), rows);
    if let Ok(picture) = picture(&traces) {
        let read = roxmltree::Document::parse(&picture);
        assert!(read.is_ok(), "{read:?}: {picture}");
    }
}

#[cfg(test)]
mod tests;
