//! Whose work a variant is: an operator would have the first without doing anything, the second by
//! hand, and the third from `wad`.

use crate::{
    algorithm::is_own,
    landed::{Experiment, Figures},
    report::UNTUNED,
    scenario::Variant,
};

/// Whose work a variant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Untuned,
    Hand,
    Wad,
}

impl Whose {
    /// Returns whose work a variant with these figures is.
    #[must_use]
    pub fn of(variant: &Variant, figures: &Figures) -> Self {
        match variant.by_hand {
            _ if variant.base.starts_with(UNTUNED) => Self::Untuned,
            Some(true) => Self::Hand,
            None if !is_own(&figures.law) => Self::Hand,
            _ => Self::Wad,
        }
    }

    /// Returns whose work a variant is by the figures that were found of it; None where there are
    /// none.
    #[must_use]
    pub fn found(variant: &Variant, found: &Experiment) -> Option<Self> {
        found.variant(&variant.name).map(|figures| Self::of(variant, figures))
    }
}
