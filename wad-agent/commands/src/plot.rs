//! `wad plot`: what was traced as a picture, an SVG: windows, rate, RTT and
//! retransmissions over time, of several flows or several traces.

mod curve;
mod flows;
mod svg;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use wad_observing::log;
#[cfg(feature = "fuzz")]
use wad_observing::trace::read::Rows;

use self::flows::{Drawn, Traces};
use crate::{output, progress::Progress};

#[derive(Debug, Args)]
pub struct Plot {
    /// Traces that `wad trace` wrote, in either format, packed or not; FILE, FILE.1, ...
    /// are one trace, others are set beside it
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The picture (SVG) [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `wad plot`.
pub fn run(args: &Plot) -> Result<()> {
    let mut traces = Traces::default();
    for file in &args.files {
        let progress = Progress::of(format!("reading {}", file.display()));
        let damage = traces.read(file).with_context(|| file.display().to_string())?;
        drop(progress);
        if let Some(damage) = damage {
            log::say(&format!("{}: {damage}", file.display()));
        }
    }
    let picture = picture(&traces)?;
    match &args.out {
        None => output::print(picture),
        Some(out) => {
            fs::write(out, picture).with_context(|| format!("cannot write {}", out.display()))
        }
    }
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
    Ok(svg::render(&traces.title(), &flows, &panels))
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
