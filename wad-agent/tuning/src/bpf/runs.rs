//! How long the programs have run that the kernel runs for applications, and how often:
//! where it counts that, which it does when it is told to (`kernel.bpf_stats_enabled`).

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use wad_policy::law::Law;
use wad_struct_ops::{KernelBtf, Registered, sys};

use super::{Pins, pins};
use crate::readings::ProgramRuns;

/// The pins of links that hold one program each, and that program as it is named.
const LINKS: [(&str, &str); 5] = [
    (pins::TUNER_LINK, "tuner"),
    (pins::OPTIONS_LINK, "options"),
    (pins::ENDS_LINK, "ends"),
    (pins::ACCEPTS_LINK, "accepts"),
    (pins::SIGNALS_LINK, "signals"),
];

/// Returns what tells of the programs of laws; None where the kernel can have none.
pub fn registered(btf: &KernelBtf) -> Option<Registered> {
    let callbacks = Law::ALL.iter().flat_map(|law| law.entry().callbacks);
    let members: BTreeSet<&str> = callbacks.map(|callback| callback.member).collect();
    Registered::new(btf, &members.into_iter().collect::<Vec<_>>()).ok()
}

/// Returns the runs of the programs that are there, a law's summed up. Those that may not be
/// looked at, which takes CAP_SYS_ADMIN, are left out: nothing depends on them.
pub fn read(pins: &Pins, registered: Option<&Registered>) -> Vec<ProgramRuns> {
    let of_link = |(pin, name): (&str, &str)| {
        let link = sys::open_pin(&pins.at(pin)).ok()?;
        let program = sys::linked_program(link.as_fd()).ok()?;
        let mut runs = ProgramRuns::none(name);
        add(&mut runs, &program).ok()?;
        Some(runs)
    };
    let of_law = |name: &String| {
        let law = sys::open_pin(&pins.at(name)).ok()?;
        let mut runs = ProgramRuns::none(name);
        for program in registered?.programs(law.as_fd()).ok()? {
            add(&mut runs, &sys::program_by_id(program).ok()?).ok()?;
        }
        Some(runs)
    };
    let mut laws = pins.names().unwrap_or_default();
    laws.retain(|name| pins::is_algorithm(name));
    laws.sort_unstable();
    LINKS.into_iter().filter_map(of_link).chain(laws.iter().filter_map(of_law)).collect()
}

fn add(runs: &mut ProgramRuns, program: &OwnedFd) -> io::Result<()> {
    let info = sys::program_info(program.as_fd())?;
    runs.time = runs.time.saturating_add(Duration::from_nanos(info.run_time_ns));
    runs.count = runs.count.saturating_add(info.run_cnt);
    Ok(())
}
