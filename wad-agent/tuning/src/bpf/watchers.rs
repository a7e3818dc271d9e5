//! The programs that see what no callback of the tuner tells: they are attached for as long as the
//! tuning is, and pinned beside it.

use std::{os::fd::AsFd as _, path::Path};

use wad_struct_ops::{KernelBtf, sys};

use super::{
    Pins, Result, TuningError,
    programs::{self, Loader, Optional, Refusals},
};

/// Hands out a connection that was made (net/ipv4/inet_connection_sock.c).
const ACCEPT: &str = "inet_csk_accept";
/// It has fewer parameters since Linux 6.10.
const PARAMETERS_NOW: u32 = 2;

/// Attaches those that are not there yet, as far as the kernel takes them.
pub fn attach_all(pins: &Pins, loader: Loader<'_>, refusals: &Refusals) {
    let btf = loader.btf;
    let ends =
        (!programs::reports_ends_of_running(btf)).then_some((&programs::ENDED, pins.ends_link()));
    let others = [(accepted(btf), pins.accepts_link()), (&programs::SIGNALS, pins.signals_link())];
    for (program, pin) in ends.into_iter().chain(others) {
        if !pin.exists() {
            refusals.note(program, attach(loader, program, &pin));
        }
    }
}

/// Returns the one that sees who accepts a connection.
fn accepted(btf: &KernelBtf) -> &'static Optional {
    match btf.function_parameters(ACCEPT) {
        Ok(PARAMETERS_NOW) => &programs::ACCEPTED,
        _ => &programs::ACCEPTED_BEFORE,
    }
}

fn attach(loader: Loader<'_>, program: &Optional, pin: &Path) -> Result<()> {
    let program = loader.load(program)?;
    let link = sys::link_raw_tracepoint(program.as_fd()).map_err(TuningError::Watcher)?;
    sys::pin(link.as_fd(), pin).map_err(TuningError::Watcher)
}
