//! The kill switch.

use tracing::{error, info, warn};
use wad_policy::switch::{self, LeftAlone, Order};
use wad_toolbox::{causes::with_causes, shortage};

use super::Running;
use crate::{run::memory::give_memory_back, service_manager, switched::SwitchOutcome};

impl Running<'_> {
    /// Disables or enables, first in the kernel: of all things this has to work.
    pub(super) fn switch(&mut self, order: &Order) -> SwitchOutcome {
        let force = &mut self.force;
        let before = &force.left_alone;
        let disabled = match before.disabled.after(order, |path| force.tuning().has_path(path)) {
            Ok(disabled) => disabled,
            Err(refusal) => {
                return SwitchOutcome::Refused { reason: refusal.to_string() };
            }
        };
        let left_alone = LeftAlone { disabled: disabled.clone(), ..before.clone() };
        let policy_set = match force.leave_alone(left_alone) {
            Ok(policy_set) => policy_set,
            Err(error) => {
                shortage::note(&error);
                let reason = with_causes(&error.into());
                error!("what is disabled stays as it was: {reason}");
                return SwitchOutcome::Failed { reason };
            }
        };
        info!(policy_set, "{}", switch::summary(&disabled));
        let noted = self.agent.note.write(&disabled);
        let warning = noted
            .err()
            .map(|error| format!("this ends with the agent: {}", with_causes(&error.into())));
        if let Some(warning) = &warning {
            warn!("{warning}");
        }
        give_memory_back();
        service_manager::status(&self.summary());
        SwitchOutcome::Done { policy_set, disabled, warning }
    }
}
