//! Puts back into the kernel what others have taken off.

use std::time::Instant;

use anyhow::Result;
use tracing::{error, warn};
use wad_toolbox::{causes::with_causes, mutex::locked, shortage};
use wad_tuning::attachment::Part;

use super::{adopting::Pass, force::Force, links::Looked};

impl Force<'_> {
    /// Puts back what is lost, as far as that can be. Whether anything was.
    pub fn put_back(&mut self, looked: Looked) -> bool {
        let now = Instant::now();
        let mut lost = match looked {
            Ok(lost) => lost,
            Err(error) => {
                shortage::note(&error);
                if self.links.cannot_look.may_say() {
                    warn!("cannot look whether all is still in the kernel: {error}");
                }
                return false;
            }
        };
        locked(&self.links.told).set_lost(&lost);
        // Programs find their maps by the pins.
        lost.sort_by_key(|lost| lost.part != Part::Pins);
        let were_lost: Vec<_> = lost.iter().map(|lost| lost.part).collect();
        lost.retain_mut(|lost| match self.put_back_one(lost.part) {
            Ok(()) => {
                locked(&self.links.told).count(lost.part);
                if self.links.may_say(lost.part, true, now) {
                    warn!("{}; it is put back", lost.why);
                }
                false
            }
            Err(error) => {
                shortage::note(error.as_ref());
                let why = with_causes(&error);
                if self.links.may_say(lost.part, false, now) {
                    error!("{}; it cannot be put back, which is tried again: {why}", lost.why);
                }
                lost.why = format!("{}; it cannot be put back: {why}", lost.why);
                true
            }
        });
        locked(&self.links.told).set_lost(&lost);
        let is_back = |part| were_lost.contains(&part) && lost.iter().all(|it| it.part != part);
        if is_back(Part::Tuner) || is_back(Part::Laws) {
            // Those that have begun meanwhile.
            self.adopt(Pass::All);
        }
        !were_lost.is_empty()
    }

    fn put_back_one(&mut self, part: Part) -> Result<()> {
        if part == Part::Pins {
            locked(&self.journal).ensure_bpffs(self.agent.lock)?;
        }
        Ok(self.tuning().put_back(part, &self.agent.options.instance)?)
    }
}
