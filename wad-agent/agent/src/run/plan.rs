//! A change of what is in force, as data: steps in order, each with its undo. The
//! start carries out the same plan as a reload, with nothing in force before.

use anyhow::Result;

/// A step is one part of a plan. The first four fail whole, and then have changed
/// nothing. Those after them cannot fail: they tell of what they cannot do, and flows
/// do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    LoadModules,
    RaiseCeilings,
    InstallPolicySet,
    FollowFlows,
    ChangeHost,
    AdoptFlows,
    LowerCeilings,
}

/// A configuration put in force, or one whose paths have other algorithms or routes by what
/// is measured. Ceilings are raised before a policy needs them, and
/// lowered when none does any more.
pub const CONFIGURATION: &[Step] = &[
    Step::LoadModules,
    Step::RaiseCeilings,
    Step::InstallPolicySet,
    Step::FollowFlows,
    Step::ChangeHost,
    Step::AdoptFlows,
    Step::LowerCeilings,
];

/// The plan gives other values for the paths of the configuration in force: their
/// names, their algorithms and the host stay as they are.
pub const VALUES: &[Step] =
    &[Step::RaiseCeilings, Step::InstallPolicySet, Step::AdoptFlows, Step::LowerCeilings];

/// Does the steps of a plan.
pub trait Hands {
    /// A step that fails leaves everything as it found it.
    fn carry_out(&mut self, step: Step) -> Result<()>;

    /// Undoes a step that was done, with all that came after it undone already.
    fn undo(&mut self, step: Step);
}

/// Carries out a plan whole. Where a step fails, those before it are undone, the latest
/// first, and its error is returned.
pub fn carry_out(plan: &[Step], hands: &mut impl Hands) -> Result<()> {
    for (place, step) in plan.iter().enumerate() {
        if let Err(error) = hands.carry_out(*step) {
            plan[..place].iter().rev().for_each(|done| hands.undo(*done));
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    /// Notes what it is to do, and refuses one step.
    #[derive(Default)]
    struct Fake {
        refused: Option<Step>,
        done: Vec<Step>,
        undone: Vec<Step>,
    }

    impl Hands for Fake {
        fn carry_out(&mut self, step: Step) -> Result<()> {
            assert_eq!(self.undone, [], "{step:?} after something was undone");
            if self.refused == Some(step) {
                bail!("{step:?}");
            }
            self.done.push(step);
            Ok(())
        }

        fn undo(&mut self, step: Step) {
            self.undone.push(step);
        }
    }

    #[test]
    fn all_steps_are_done_in_order() {
        for plan in [CONFIGURATION, VALUES] {
            let mut fake = Fake::default();
            carry_out(plan, &mut fake).unwrap();
            assert_eq!((fake.done.as_slice(), fake.undone.as_slice()), (plan, &[][..]));
        }
    }

    #[test]
    fn whichever_step_fails_those_before_it_are_undone_in_reverse() {
        for plan in [CONFIGURATION, VALUES] {
            for (place, step) in plan.iter().enumerate() {
                let mut fake = Fake { refused: Some(*step), ..Fake::default() };
                let error = carry_out(plan, &mut fake).unwrap_err();
                assert_eq!(error.to_string(), format!("{step:?}"));
                assert_eq!(fake.done, plan[..place]);
                fake.undone.reverse();
                assert_eq!(fake.undone, fake.done, "{step:?} fails");
            }
        }
    }

    #[test]
    fn ceilings_hold_for_whatever_is_in_force_at_any_step() {
        for plan in [CONFIGURATION, VALUES] {
            let place = |wanted| plan.iter().position(|step| *step == wanted).unwrap();
            assert!(place(Step::RaiseCeilings) < place(Step::InstallPolicySet));
            assert!(place(Step::AdoptFlows) < place(Step::LowerCeilings));
            assert_eq!(plan.last(), Some(&Step::LowerCeilings));
        }
    }

    #[test]
    fn other_values_take_no_step_that_a_configuration_does_not_take_in_that_order() {
        let mut all = CONFIGURATION.iter();
        assert!(VALUES.iter().all(|step| all.any(|of_all| of_all == step)));
    }
}
