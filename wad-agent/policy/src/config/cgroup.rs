//! Reads the cgroups that a path is for.

use std::{fmt, path::Path};

use toml::de::DeValue;

use super::{
    fault::{Fault, Problems, quoted},
    table::{self, Table},
};

const CGROUP: &str = "cgroup";
const UNIT: &str = "unit";

/// The kernel's `NAME_MAX`, and enough of those for what container engines make.
const MOST_BYTES: usize = 1024;

/// A pattern of cgroups, which has those within each that fits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CgroupPattern {
    /// The path from the root, name by name.
    Path(String),
    /// The name, wherever it is: of a unit of systemd.
    Unit(String),
}

impl CgroupPattern {
    /// Takes a path with the slash that it may begin with, or without.
    pub fn of_path(path: &str) -> Self {
        Self::Path(path.trim_start_matches('/').to_owned())
    }

    /// Whether a cgroup fits, by its path from the root.
    pub fn fits(&self, cgroup: &Path) -> bool {
        let Some(cgroup) = cgroup.to_str() else { return false };
        match self {
            Self::Path(pattern) => {
                let mut names = cgroup.split('/');
                pattern.split('/').all(|own| names.next().is_some_and(|name| glob(own, name)))
                    && names.next().is_none()
            }
            Self::Unit(pattern) => glob(pattern, cgroup.rsplit('/').next().unwrap_or_default()),
        }
    }

    /// Whether it fits, or is within one that does.
    pub fn has(&self, cgroup: &Path) -> bool {
        cgroup.ancestors().any(|around| self.fits(around))
    }
}

impl fmt::Display for CgroupPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(pattern) => write!(f, "{CGROUP} {pattern}"),
            Self::Unit(pattern) => write!(f, "{UNIT} {pattern}"),
        }
    }
}

/// Whether a name fits a pattern, in which `*` is any characters and `?` is one.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The latest star, and the characters that it does not take.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(own) if *own == '?' || *own == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                n = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|own| *own == '*')
}

/// Returns the pattern; None for any cgroup, or where something is wrong.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<CgroupPattern> {
    if let (Some(cgroup), Some(unit)) = (table.place(CGROUP), table.place(UNIT)) {
        let fault =
            Fault::new("`unit` does not go with `cgroup`", "a unit is a cgroup by its name");
        problems.push(fault.help("leave one of the two out").at(unit).also(cgroup, "this is one"));
        return None;
    }
    let cgroup = table.read(CGROUP, problems, |value| parse_path(value));
    cgroup.or_else(|| table.read(UNIT, problems, |value| parse_unit(value))).map(|it| it.value)
}

fn parse_path(value: &DeValue<'_>) -> Result<CgroupPattern, Fault> {
    let text = table::text(value)?;
    let path = text.strip_prefix('/').unwrap_or(text);
    let is_wrong = |name: &str| name.is_empty() || name == "." || name == "..";
    if path.split('/').any(is_wrong) {
        let fault = Fault::new(format!("{} is no cgroup", quoted(text)), "a name in it is none");
        return Err(fault.help(
            "write its path below the root of cgroup v2, such as \"system.slice/globus.service\", \
             as /proc/PID/cgroup has it after 0::/; * is any part of a name",
        ));
    }
    check_characters(text)?;
    Ok(CgroupPattern::Path(path.to_owned()))
}

fn parse_unit(value: &DeValue<'_>) -> Result<CgroupPattern, Fault> {
    let text = table::text(value)?;
    let kinds = [".service", ".slice", ".scope", ".socket", ".mount", ".swap"];
    if text.contains('/') || !kinds.iter().any(|kind| text.ends_with(kind)) {
        let fault =
            Fault::new(format!("{} is no unit", quoted(text)), "no unit that has processes");
        return Err(fault.help("write its whole name, such as \"globus.service\""));
    }
    check_characters(text)?;
    Ok(CgroupPattern::Unit(text.to_owned()))
}

fn check_characters(text: &str) -> Result<(), Fault> {
    if text.len() > MOST_BYTES || text.contains(|c: char| c.is_control() || "[]{}".contains(c)) {
        let title = format!("{} is no pattern", quoted(text));
        return Err(Fault::new(title, "of characters like those only * and ? have a meaning"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("globus.service", "globus.service", true),
            ("globus.service", "globus.servic", false),
            ("globus@*.service", "globus@1.service", true),
            ("globus@*.service", "globus@.service", true),
            ("globus@?.service", "globus@.service", false),
            ("*", "", true),
            ("*a*b", "aab-a-b", true),
            ("*a*b", "aab-a-bc", false),
            ("**", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_path_fits_name_by_name_and_a_unit_anywhere() {
        let path = CgroupPattern::Path("system.slice/*.service".to_owned());
        let unit = CgroupPattern::Unit("a.service".to_owned());
        for (cgroup, by_path, by_unit) in [
            ("system.slice/a.service", true, true),
            ("system.slice/b.service", true, false),
            ("system.slice", false, false),
            ("system.slice/a.service/worker", false, false),
            ("user.slice/x/a.service", false, true),
            ("", false, false),
        ] {
            let cgroup = Path::new(cgroup);
            assert_eq!((path.fits(cgroup), unit.fits(cgroup)), (by_path, by_unit), "{cgroup:?}");
        }
        let within = Path::new("system.slice/a.service/worker/1");
        assert!(path.has(within) && unit.has(within) && !path.has(Path::new("system.slice")));
    }

    proptest! {
        /// It is as a plain recursion has it.
        #[test]
        fn stars_are_any_characters(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            fn plain(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern, name) {
                    ([], name) => name.is_empty(),
                    ([b'*', rest @ ..], _) => (0..=name.len()).any(|n| plain(rest, &name[n..])),
                    ([own, rest @ ..], [first, names @ ..]) => {
                        (*own == b'?' || own == first) && plain(rest, names)
                    }
                    _ => false,
                }
            }
            prop_assert_eq!(glob(&pattern, &name), plain(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
