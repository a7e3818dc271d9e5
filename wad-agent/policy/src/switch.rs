//! The kill switch: `wad disable` and `wad enable`, for one path or all. What is
//! disabled stays so until it is enabled, whatever happens to the agent or to its
//! configuration in between.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Holds what is disabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disabled {
    /// Every path, also those to come.
    pub all: bool,
    /// The paths disabled by name, whether the configuration has them or not.
    pub paths: BTreeSet<String>,
}

impl Disabled {
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        self.all || self.paths.contains(path)
    }

    #[must_use]
    pub fn is_nothing(&self) -> bool {
        !self.all && self.paths.is_empty()
    }

    /// Returns what will be disabled after this.
    pub fn after(&self, order: &Order, is_path: impl Fn(&str) -> bool) -> Result<Self, Refusal> {
        let mut next = self.clone();
        match (order.to, &order.path) {
            (To::Disable, None) => next.all = true,
            (To::Enable, None) => next = Self::default(),
            (To::Disable, Some(path)) if !is_path(path) => {
                return Err(Refusal::NoPath(path.clone()));
            }
            (To::Disable, Some(path)) => {
                next.paths.insert(path.clone());
            }
            (To::Enable, Some(path)) if self.all => return Err(Refusal::All(path.clone())),
            (To::Enable, Some(path)) => {
                // One that is gone may be enabled, so as to forget it.
                if !next.paths.remove(path) && !is_path(path) {
                    return Err(Refusal::NoPath(path.clone()));
                }
            }
        }
        Ok(next)
    }
}

/// Says which paths' flows are left alone, whatever their policies say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftAlone {
    pub disabled: Disabled,
    /// The guards of these hold their policies back.
    pub held_back: BTreeSet<String>,
}

impl LeftAlone {
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        self.disabled.holds(path) || self.held_back.contains(path)
    }

    /// Returns the same as if all of it were disabled.
    #[must_use]
    pub fn as_disabled(&self) -> Disabled {
        let Disabled { all, paths } = &self.disabled;
        Disabled { all: *all, paths: paths.union(&self.held_back).cloned().collect() }
    }
}

/// Says which way to turn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    Disable,
    Enable,
}

/// Says what is asked of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub to: To,
    /// The path; None for all.
    pub path: Option<String>,
}

/// Says why nothing is done.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no path in force has the name {0:?}; `wad status` lists them")]
    NoPath(String),
    #[error("all paths are disabled, {0:?} with them: `wad enable` enables all")]
    All(String),
}

/// Returns a summary in a few words.
#[must_use]
pub fn summary(disabled: &Disabled) -> String {
    if disabled.all {
        return "all paths are disabled".to_owned();
    }
    match disabled.paths.len() {
        0 => "no path is disabled".to_owned(),
        n => {
            let names: Vec<_> = disabled.paths.iter().take(10).map(String::as_str).collect();
            let more = if n > names.len() { " and more" } else { "" };
            format!("{n} disabled: {}{more}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(to: To, path: Option<&str>) -> Order {
        Order { to, path: path.map(str::to_owned) }
    }

    fn after(before: &Disabled, to: To, path: Option<&str>) -> Result<Disabled, Refusal> {
        before.after(&order(to, path), |name| name == "bob" || name == "eve")
    }

    #[test]
    fn one_path_and_back() {
        let off = after(&Disabled::default(), To::Disable, Some("bob")).unwrap();
        assert!(off.holds("bob") && !off.holds("eve"));
        assert_eq!(summary(&off), "1 disabled: bob");
        assert!(after(&off, To::Enable, Some("bob")).unwrap().is_nothing());
        assert!(after(&off, To::Enable, Some("eve")).unwrap().holds("bob"));
    }

    #[test]
    fn all_and_back_forgets_the_single_ones() {
        let off = after(&Disabled::default(), To::Disable, Some("bob")).unwrap();
        let off = after(&off, To::Disable, None).unwrap();
        assert!(off.holds("eve") && off.holds("one to come"));
        assert_eq!(
            after(&off, To::Enable, Some("eve")),
            Err(Refusal::All("eve".to_owned())),
            "one alone would not do what it says"
        );
        assert!(after(&off, To::Enable, None).unwrap().is_nothing());
    }

    #[test]
    fn what_is_held_back_is_left_alone_and_stays_so_when_another_is_enabled() {
        let held_back = BTreeSet::from(["eve".to_owned()]);
        let disabled = after(&Disabled::default(), To::Disable, Some("bob")).unwrap();
        let left_alone = LeftAlone { disabled, held_back };
        assert!(["bob", "eve"].iter().all(|path| left_alone.holds(path)));
        assert!(["bob", "eve"].iter().all(|path| left_alone.as_disabled().holds(path)));
        let disabled = after(&left_alone.disabled, To::Enable, None).unwrap();
        let left_alone = LeftAlone { disabled, ..left_alone };
        assert!(left_alone.holds("eve") && !left_alone.holds("bob"));
    }

    #[test]
    fn a_name_that_no_path_has_is_refused() {
        let refused = Err(Refusal::NoPath("mallory".to_owned()));
        assert_eq!(after(&Disabled::default(), To::Disable, Some("mallory")), refused);
        assert_eq!(after(&Disabled::default(), To::Enable, Some("mallory")), refused);
        // Unless it was disabled while it was there.
        let gone = Disabled { all: false, paths: BTreeSet::from(["mallory".to_owned()]) };
        assert!(after(&gone, To::Enable, Some("mallory")).unwrap().is_nothing());
    }
}
