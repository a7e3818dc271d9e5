//! The table of paths, and lines on what the kernel refused to their flows.

use std::io::{self, Write};

use wad_agent::status::PathStatus;
use wad_toolbox::{amounts::Bytes, refusals::RefusedFlows, text_table::TextTable};
use wad_tuning::readings::PathState;

use crate::output;

/// Rows of paths before the rest is only counted.
pub const MOST_PATHS: usize = 50;
/// Lines of what the kernel refused before the rest is only counted.
pub const MOST_REFUSALS: usize = 10;

/// Says which settings the kernel refused to flows of which paths, and why.
pub fn write_refused(paths: &[PathStatus], out: &mut dyn Write) -> io::Result<()> {
    let all = || paths.iter().flat_map(|path| path.refused.iter().map(move |of| (path, of)));
    for (path, RefusedFlows { refused, flows }) in all().take(MOST_REFUSALS) {
        let path = path.name.escape_debug();
        write!(out, "refused  {refused} to {flows} flows of path {path}")?;
        match refused.why() {
            Some(why) => writeln!(out, ": {why}")?,
            None => writeln!(out)?,
        }
    }
    match all().count().saturating_sub(MOST_REFUSALS) {
        0 => Ok(()),
        more => writeln!(out, "refused  {more} more settings of paths; --json has them all"),
    }
}

pub fn write(paths: &[PathStatus], out: &mut dyn Write) -> io::Result<()> {
    const TITLES: [&str; 8] =
        ["PATH", "TUNED", "MATCHED", "UNTUNED", "SENT", "RECEIVED", "RETRANSMITTED", "RTT"];
    let rows = paths.iter().take(MOST_PATHS).map(row);
    output::write(out, TextTable::new(TITLES).with_figures_behind(1).with_rows(rows))?;
    match paths.len().saturating_sub(MOST_PATHS) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more paths; --json has them all"),
    }
}

fn row(path: &PathStatus) -> [String; 8] {
    let untuned = &path.flows_untuned;
    [
        format!("{}{}", path.name.escape_debug(), left_alone(path.state)),
        path.flows_tuned.to_string(),
        path.connections_matched.to_string(),
        untuned.max_flows.saturating_add(untuned.refused).to_string(),
        Bytes(path.sent_bytes).to_string(),
        Bytes(path.received_bytes).to_string(),
        match path.segments_sent {
            0 => "-".to_owned(),
            sent => format!("{:.3}%", path.segments_retransmitted as f64 / sent as f64 * 100.0),
        },
        path.rtt_us.map_or("-".to_owned(), |us| format!("{:.1} ms", us as f64 / 1e3)),
    ]
}

const fn left_alone(state: PathState) -> &'static str {
    match state {
        PathState::Tuned => "",
        PathState::Observed => " (observed)",
        PathState::Disabled => " (disabled)",
        PathState::HeldBack => " (held back)",
    }
}
