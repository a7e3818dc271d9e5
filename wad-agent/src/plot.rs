//! `wad plot`: what was traced as a picture, an SVG: windows, rate, RTT and
//! retransmissions over time, of several flows or several traces.

mod curve;
mod flows;
mod svg;

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use self::flows::{Drawn, Traces};
use crate::{cli, log, output};

/// `wad plot`.
pub fn run(args: &cli::Plot) -> Result<()> {
    let mut traces = Traces::default();
    for file in &args.files {
        let damage = traces.read(file).with_context(|| file.display().to_string())?;
        if let Some(damage) = damage {
            log::say(&format!("{}: {damage}", file.display()));
        }
    }
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
    let picture = svg::render(&traces.title(), &flows, &panels);
    match &args.out {
        None => output::print(picture),
        Some(out) => {
            fs::write(out, picture).with_context(|| format!("cannot write {}", out.display()))
        }
    }
}

#[cfg(test)]
mod tests;
