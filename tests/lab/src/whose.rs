//! Who sets a variant up: nobody, an operator by hand, or `wad`.

use crate::{
    algorithm::is_own,
    landed::{Experiment, Figures},
    report::UNTUNED,
    scenario::{Scenario, Variant},
};

/// Who sets a variant up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Untuned,
    Hand,
    Wad,
}

impl Whose {
    /// Returns who sets a variant up. Its figures name its congestion control.
    #[must_use]
    pub fn of(variant: &Variant, figures: &Figures) -> Self {
        match variant.by_hand {
            _ if variant.base.starts_with(UNTUNED) => Self::Untuned,
            Some(true) => Self::Hand,
            None if !is_own(&figures.law) => Self::Hand,
            _ => Self::Wad,
        }
    }

    /// Returns who sets up the variant with this name; None where it has no figures.
    #[must_use]
    pub fn named(name: &str, scenario: &Scenario, found: &Experiment) -> Option<Self> {
        let variant = scenario.variants.iter().find(|variant| variant.name == name)?;
        Some(Self::of(variant, found.variant(name)?))
    }
}
