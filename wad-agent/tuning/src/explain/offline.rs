//! The answer without an agent, from the configuration.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use wad_common::policy::{Rule, RuleRun};
use wad_policy::{config::PathPolicy, pod::Pods, switch::Disabled};

use super::{Answer, Basis, Known, Query, RuleSet, explain};
use crate::{
    instance::Instance,
    policy_set::{Indices, Making, Patterns, PolicySet},
    readings::PathState,
    shares::Shares,
};

/// A policy set that is in no kernel: what an agent that starts now would put in force.
pub struct Offline<'a> {
    set: PolicySet,
    paths: &'a [PathPolicy],
}

impl<'a> Offline<'a> {
    /// Makes the set of these paths.
    #[must_use]
    pub fn new(paths: &'a [PathPolicy], instance: &Instance, disabled: &Disabled) -> Self {
        // Nothing had an index before: they are those of the file.
        let indices = Indices { next: 0, is_left: &|_| false };
        let making = Making {
            generation: 0,
            known: &HashMap::new(),
            indices,
            instance,
            disabled,
            shares: &Shares::default(),
        };
        Self { set: PolicySet::new(paths, making), paths }
    }

    /// Returns which path the flows of a question would fall under, and what they would
    /// get.
    #[must_use]
    pub fn explain(&self, query: &Query, from: Basis) -> Answer {
        let Ok(answer) = explain(self, query, from);
        answer
    }
}

impl RuleSet for Offline<'_> {
    type Error = Infallible;

    fn run(&self, address: u128, bits: u8) -> Result<Option<RuleRun>, Infallible> {
        Ok(self.set.run(address, bits))
    }

    fn rule(&self, index: u32) -> Result<Rule, Infallible> {
        Ok(self.set.rules[index as usize])
    }

    fn patterns(&self) -> &Patterns {
        &self.set.patterns
    }

    /// Nobody follows them here.
    fn pods(&self) -> Option<Arc<Pods>> {
        None
    }

    fn policy(&self, index: u32) -> Result<Known, Infallible> {
        let path = &self.paths[index as usize];
        let withheld = self.set.withheld.get(&index);
        let policy = match withheld {
            Some(withheld) => withheld.policy,
            None => self.set.policies[index as usize].expect("every path has a policy"),
        };
        let state = match withheld {
            None => PathState::Tuned,
            Some(withheld) if withheld.observe => PathState::Observed,
            Some(_) => PathState::Disabled,
        };
        Ok(Known { policy, state, origin: path.origin.clone() })
    }
}
