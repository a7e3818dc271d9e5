//! The kill switch.

use tracing::{error, info, warn};
use wad_policy::switch::{self, Order};
use wad_toolbox::{causes::with_causes, shortage};

use super::Running;
use crate::{run::memory::give_memory_back, service_manager, switched::SwitchOutcome};

impl Running<'_> {
    /// Disables or enables, first in the kernel: of all things this has to work.
    pub(super) fn switch(&mut self, order: &Order) -> SwitchOutcome {
        let force = &mut self.force;
        let disabled = match force.disabled.after(order, |path| force.tuning().has_path(path)) {
            Ok(disabled) => disabled,
            Err(refusal) => {
                return SwitchOutcome::Refused { reason: refusal.to_string() };
            }
        };
        let policy_set = match force.tuning().switch(&disabled) {
            Ok(policy_set) => policy_set,
            Err(error) => {
                shortage::note(&error);
                let reason = with_causes(&error.into());
                error!("what is disabled stays as it was: {reason}");
                return SwitchOutcome::Failed { reason };
            }
        };
        force.adopt_anew();
        info!(policy_set, "{}", switch::summary(&disabled));
        let noted = self.agent.note.write(&disabled);
        let warning = noted
            .err()
            .map(|error| format!("this ends with the agent: {}", with_causes(&error.into())));
        if let Some(warning) = &warning {
            warn!("{warning}");
        }
        force.host.follow(&disabled);
        force.disabled = disabled.clone();
        give_memory_back();
        service_manager::status(&self.summary());
        SwitchOutcome::Done { policy_set, disabled, warning }
    }
}
