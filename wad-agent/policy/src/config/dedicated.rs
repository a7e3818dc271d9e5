//! The parameters of `wad_dedicated`, which follow from the path's rate and RTT.

use wad_common::control::{Control, WindowSize};

use super::{
    fault::{Fault, Problems},
    line::Line,
    table::Table,
    thresholds,
};

/// The payload's part of a dedicated path's rate: headers take 3.5%, and
/// retransmissions have to find room as well.
const DEDICATED_PAYLOAD: f64 = 0.95;

/// The window and the rate of a path of one's own.
pub fn read(table: &Table<'_>, line: &Line, problems: &mut Problems) -> Control {
    let Some(rate) = line.dedicated() else { return Control::STANDARD };
    if !table.has("rtt") {
        let fault = Fault::new("`dedicated` needs `rtt`", "their product gives the window");
        problems.push(fault.help("add the path's round trip time, as rtt = \"70ms\"").at(rate.at));
    }
    let Some(bdp_bytes) = line.bdp_bytes() else { return Control::STANDARD };
    let max_cwnd = thresholds::in_bytes(bdp_bytes).unwrap_or_else(|fault| {
        let title = format!("`dedicated` times `rtt` {}", fault.title);
        let help = "check both, or share the path between several flows with a rate for each";
        problems.push(Fault { title, ..fault }.help(help).at(rate.at));
        WindowSize::default()
    });
    Control {
        max_cwnd,
        dedicated_bytes_per_second: (rate.value / 8.0 * DEDICATED_PAYLOAD).round() as u64,
        ..Control::STANDARD
    }
}
