//! The order of the crates.

use crate::crates::Crate;

pub struct Layers<'a> {
    /// Each crate may depend on those before it alone.
    pub lowest_first: &'a [&'a str],
    /// These crates may depend on the ones of ours beside their names alone, wherever
    /// they stand.
    pub alone: &'a [(&'a str, &'a [&'a str])],
}

impl Layers<'_> {
    /// Finds what depends on what it may not.
    pub fn upward(&self, crates: &[Crate]) -> Vec<String> {
        let place = |name: &str| self.lowest_first.iter().position(|layer| *layer == name);
        let mut wrong = Vec::new();
        for Crate { name, depends_on, .. } in crates {
            let Some(own) = place(name) else {
                wrong.push(format!("{name} is not among the layers: say where it stands"));
                continue;
            };
            let alone = self.alone.iter().find(|(known, _)| *known == name);
            for other in depends_on {
                let is_below = place(other).is_some_and(|other| other < own);
                if !is_below || alone.is_some_and(|(_, may)| !may.contains(&other.as_str())) {
                    wrong.push(format!("{name} depends on {other}"));
                }
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::PathBuf};

    use super::*;

    fn upward(name: &str, depends_on: &[&str]) -> Vec<String> {
        let layers =
            Layers { lowest_first: &["low", "high", "apart"], alone: &[("apart", &["low"])] };
        layers.upward(&[Crate {
            name: name.to_owned(),
            manifest: PathBuf::new(),
            depends_on: depends_on.iter().map(|&other| other.to_owned()).collect(),
            roots: BTreeSet::new(),
        }])
    }

    #[test]
    fn what_is_below_may_be_used() {
        assert_eq!(upward("high", &["low"]), [""; 0]);
        assert_eq!(upward("apart", &["low"]), [""; 0]);
    }

    #[test]
    fn what_is_above_or_unknown_or_not_for_this_crate_may_not() {
        assert_eq!(upward("low", &["high"]), ["low depends on high"]);
        assert_eq!(upward("high", &["unknown"]), ["high depends on unknown"]);
        assert_eq!(upward("apart", &["low", "high"]), ["apart depends on high"]);
        let [wrong] = &upward("unknown", &[])[..] else { panic!("one is wrong") };
        assert!(wrong.contains("not among the layers"));
    }
}
