//! Whether a path has any use for what the file says that it carries.

use super::{
    Congestion,
    congestion::Choice,
    experiment,
    fault::{Fault, Problems},
    table::Table,
};
use crate::law::Law;

/// Reports rate and round trip time where a path without "auto" sizes has no use for
/// them.
pub fn check(table: &Table<'_>, choice: &Choice, problems: &mut Problems) {
    // That has no bandwidth, and needs the RTT.
    if choice.in_doubt || table.has("dedicated") {
        return;
    }
    // Our laws let no flow go beyond its part of the path in slow start; of others, shares may
    // depend on it.
    let is_of_use = choice.candidates().filter_map(|it| it.congestion.as_ref()).any(|law| {
        matches!(law, Congestion::Ours(_))
            || law.answering_law().is_some_and(Law::share_depends_on_path)
    });
    // CUBIC's share follows the round trip time, whatever the rate.
    let takes_rtt = |law: &Congestion| law.answering_law().is_some_and(Law::share_depends_on_rtt);
    let takes_rtt = choice.candidates().filter_map(|it| it.congestion.as_ref()).any(takes_rtt);
    let (label, help) = if is_of_use {
        if table.has("rtt") && (takes_rtt || table.has("bandwidth")) {
            return;
        }
        ("not by itself", "add the other of `bandwidth` and `rtt`, or leave it out")
    } else {
        ("nothing here needs it", "add sndbuf = \"auto\" and rcvbuf = \"auto\", or leave it out")
    };
    // Blocks of an experiment have room for round trips.
    let is_used = |key: &str| key == "rtt" && table.has(experiment::KEY);
    for key in ["bandwidth", "rtt"] {
        if let Some(at) = table.place(key).filter(|_| !is_used(key)) {
            let fault = Fault::new(format!("`{key}` has no effect"), label);
            problems.push(fault.help(help).idle().at(at));
        }
    }
}
