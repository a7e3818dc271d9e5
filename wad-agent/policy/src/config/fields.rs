//! The table of a path's fields. The file is read by it; `wad check`, `wad explain` and
//! `wad paths` show by it; the documentation is made from it.
//!
//! A field that stands by itself is a row here, a place in [`PathPolicy`] and one in the
//! kernel side's record. One that has to do with others is read in a module of its own.
//!
//! [`PathPolicy`]: super::PathPolicy

mod buffers;
pub(super) mod capacity;
pub(super) mod congestion;
pub(super) mod flow;
pub(super) mod matched;

use std::sync::LazyLock;

use wad_common::policy::{NAME_BYTES, Policy};

use self::{
    buffers::BUFFERS,
    capacity::CAPACITY,
    congestion::CONGESTION,
    flow::FLOW,
    matched::{MATCHED, MODE},
};
use super::{
    PathPolicy, experiment,
    fault::Problems,
    field::{Checked, Field},
    keys::Key,
    setting::Setting,
    table::Table,
};

/// All of them, in the order of the documentation.
pub fn all() -> impl Iterator<Item = &'static Field> {
    [MATCHED, CAPACITY, BUFFERS, CONGESTION, FLOW].into_iter().flatten()
}

/// Returns a path's policy as the kernel side has it, but for its congestion control.
#[must_use]
pub fn policy(path: &PathPolicy, name: [u8; NAME_BYTES]) -> Policy {
    let mut policy = Policy { control: path.control, flags: 0, ..Policy::observing(name) };
    all().for_each(|field| (field.put)(path, &mut policy));
    policy
}

/// Reads those that say which flows a path is for.
pub(super) fn read_match(table: &Table<'_>, problems: &mut Problems, policy: &mut PathPolicy) {
    MATCHED.iter().for_each(|field| (field.read)(field, table, problems, policy));
}

/// Reads those that say what its flows get.
pub(super) fn read_settings(table: &Table<'_>, problems: &mut Problems, policy: &mut PathPolicy) {
    let settings = [CAPACITY, BUFFERS, CONGESTION, FLOW].into_iter().flatten();
    settings.for_each(|field| (field.read)(field, table, problems, policy));
}

/// Whether a field says which flows the path is for, or consents for it: no other path, nor
/// `[defaults]`, can do so.
pub(super) fn is_own(key: &str) -> bool {
    ["allow", experiment::KEY].contains(&key)
        || key != MODE.key && MATCHED.iter().any(|field| field.key == key)
}

/// The keys that a path may have.
pub(super) fn keys() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> =
        LazyLock::new(|| all().map(|field| Key::of_field(field.key, field.alias)).collect());
    &KEYS
}

/// Returns the fields that `wad check` shows, in its order.
pub fn checked() -> &'static [(&'static Field, &'static Checked)] {
    static CHECKED: LazyLock<Vec<(&Field, &Checked)>> =
        LazyLock::new(|| in_order(|field| field.check.as_ref(), |checked| checked.after));
    &CHECKED
}

/// Returns the fields that `wad explain` shows, in its order.
pub fn explained() -> &'static [(&'static Field, &'static Setting)] {
    static EXPLAINED: LazyLock<Vec<(&Field, &Setting)>> =
        LazyLock::new(|| in_order(|field| field.explain.as_ref(), |setting| setting.after));
    &EXPLAINED
}

/// Returns the fields that `wad paths` shows, in its order.
pub fn shown_of_paths() -> &'static [(&'static Field, &'static Setting)] {
    static SHOWN: LazyLock<Vec<(&Field, &Setting)>> =
        LazyLock::new(|| in_order(|field| field.paths.as_ref(), |setting| setting.after));
    &SHOWN
}

/// The fields that have something to show, each behind the one that it names.
fn in_order<T>(
    of: fn(&'static Field) -> Option<&'static T>,
    after: fn(&T) -> Option<&'static str>,
) -> Vec<(&'static Field, &'static T)> {
    let shown = all().filter_map(|field| Some((field, of(field)?)));
    let (mut ordered, moved): (Vec<_>, Vec<_>) =
        shown.partition(|(_, shown)| after(shown).is_none());
    for (field, shown) in moved {
        let before = ordered.iter().position(|(other, _)| Some(other.key) == after(shown));
        ordered.insert(before.map_or(ordered.len(), |before| before + 1), (field, shown));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wad_common::refused::SocketSetting;

    use super::*;
    use crate::law::Law;

    #[test]
    fn keys_are_unique_and_documented() {
        let mut seen = HashSet::new();
        for field in all() {
            for name in [Some(field.key), field.alias].into_iter().flatten() {
                assert!(seen.insert(name), "{name} is there twice");
            }
            assert!(field.doc.ends_with('.') && !field.default.is_empty(), "{}", field.key);
            assert!(!field.type_words().is_empty(), "{}", field.key);
        }
    }

    #[test]
    fn what_the_kernel_refuses_has_the_key_of_a_field() {
        for setting in SocketSetting::ALL {
            assert!(all().any(|field| field.key == setting.key()), "{setting:?}");
        }
    }

    #[test]
    fn what_laws_take_are_fields() {
        for law in Law::ALL {
            for key in law.entry().keys {
                assert!(all().any(|field| field.key == *key), "{law:?}: {key}");
            }
        }
    }

    #[test]
    fn a_field_is_shown_behind_one_that_is_shown() {
        fn check<T>(shown: &[(&Field, &T)], after: fn(&T) -> Option<&'static str>) {
            for (field, how) in shown {
                let Some(key) = after(how) else { continue };
                assert!(shown.iter().any(|(other, _)| other.key == key), "{}", field.key);
            }
        }
        check(checked(), |checked| checked.after);
        check(explained(), |setting| setting.after);
        check(shown_of_paths(), |setting| setting.after);
    }

    #[test]
    fn types_and_ranges_are_in_words() {
        let words = |key: &str| {
            let field = all().find(|field| field.key == key).unwrap();
            [field.type_words(), field.range_words()]
        };
        assert_eq!(
            words("sndbuf"),
            ["bytes, or a size such as \"4MiB\", or \"auto\"", "4096 to 1073741823 bytes"]
        );
        assert_eq!(words("mode"), ["\"static\", \"measured\" or \"observe\"", ""]);
        assert_eq!(words("reorder"), ["a whole number, or \"auto\"", "3 to 300 segments"]);
        assert_eq!(words("decrease"), ["a number", "0.01 to 0.9"]);
    }
}
