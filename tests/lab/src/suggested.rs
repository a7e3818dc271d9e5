//! A variant's policy may be the one that `wad suggest` prints when it has watched the
//! path's connections for a minute, which no path of the agent's is for.

use std::{process::Command, thread, time::Duration};

use wad_testbed::{
    cgroup::Cgroup,
    emulated::wan::Wan,
    process::run_command,
    settings::{self, HostDefaults},
    signal,
    wad::{Agent, Home},
};

use crate::{
    lab::{Lab, LabError},
    scenario::{Load, Scenario, Variant},
    transfer::Bed,
};

const WATCHED_S: u32 = 60;
/// Connections begin before they are watched, and end after it.
const AROUND_S: u32 = 2;

impl Lab {
    /// Returns what is suggested for the connections of a variant, untuned.
    ///
    /// # Errors
    /// Where a step fails.
    pub(crate) fn suggested(
        &self,
        scenario: &Scenario,
        variant: &Variant,
    ) -> Result<String, LabError> {
        let _host = HostDefaults::set()?;
        let cgroup = Cgroup::create("lab")?;
        // Without any path.
        let home = Home::create(&self.wad, "")?;
        let agent = home.start(&cgroup)?;
        let wan = Wan::start(&variant.path)?;
        settings::apply(&wan)?;
        settings::change(&wan, &variant.sysctls)?;
        let bed = Bed { lab: self, wan: &wan, cgroup: &cgroup, far_cgroup: None };
        let long = Scenario { load: Load::Seconds(WATCHED_S + 2 * AROUND_S), ..scenario.clone() };
        let mut suggest: Command = home.command("suggest");
        suggest.args(["--for", &format!("{WATCHED_S}s")]);
        let printed = thread::scope(|scope| {
            let watching = scope.spawn(|| {
                signal::sleep(Duration::from_secs(AROUND_S.into()))?;
                Ok::<_, LabError>(run_command(&mut suggest)?)
            });
            self.moved(&bed, &long, variant, &|_| ())?;
            watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        drop(wan);
        Agent::stop(agent)?;
        Ok(printed)
    }
}
