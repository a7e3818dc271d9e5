//! Reads the cgroups that a path is for.

use std::{fmt, path::Path};

use toml::de::DeValue;
use wad_instruments::pod_of_cgroup;

use super::{
    fault::{Fault, Problems, quoted},
    pods::{self, PODS, PodSelector},
    table::{self, Table},
};
use crate::pod::Pods;

const CGROUP: &str = "cgroup";
const UNIT: &str = "unit";

/// The kernel's `NAME_MAX`, and enough of those for what container engines make.
const MOST_BYTES: usize = 1024;

/// The cgroups that a path is for, with those within each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CgroupSelector {
    /// The cgroups whose names fit.
    Fitting(CgroupPattern),
    /// The cgroups that the kubelet has made for pods.
    OfPods(PodSelector),
}

impl CgroupSelector {
    /// Whether a cgroup is meant, by its path from the root, where these are the pods.
    pub fn fits(&self, cgroup: &Path, pods: &Pods) -> bool {
        match self {
            Self::Fitting(pattern) => pattern.fits(cgroup),
            Self::OfPods(selector) => {
                let name = cgroup.file_name().and_then(|name| name.to_str());
                let pod = name.and_then(pod_of_cgroup).and_then(|uid| pods.get(&uid));
                pod.is_some_and(|pod| selector.has(pod))
            }
        }
    }

    /// Whether a cgroup is meant, or is within one that is.
    pub fn has(&self, cgroup: &Path, pods: &Pods) -> bool {
        cgroup.ancestors().any(|around| self.fits(around, pods))
    }

    /// Whether it depends on which pods there are.
    pub const fn is_of_pods(&self) -> bool {
        matches!(self, Self::OfPods(_))
    }
}

impl From<CgroupPattern> for CgroupSelector {
    fn from(pattern: CgroupPattern) -> Self {
        Self::Fitting(pattern)
    }
}

impl fmt::Display for CgroupSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fitting(pattern) => pattern.fmt(f),
            Self::OfPods(selector) => selector.fmt(f),
        }
    }
}

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

/// Returns the cgroups; None for any, or where something is wrong.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<CgroupSelector> {
    let by_name = [CGROUP, UNIT].into_iter().find_map(|key| Some((key, table.place(key)?)));
    if let (Some(pods), Some((key, at))) = (table.place(PODS), by_name) {
        let title = format!("`{PODS}` does not go with `{key}`");
        let fault = Fault::new(title, "pods are found by their cgroups");
        problems.push(fault.help("leave one of the two out").at(pods).also(at, "this is one"));
        return None;
    }
    let pods = pods::read(table, problems).map(CgroupSelector::OfPods);
    pods.or_else(|| read_pattern(table, problems).map(CgroupSelector::Fitting))
}

/// Returns the pattern; None for any cgroup, or where something is wrong.
pub fn read_pattern(table: &Table<'_>, problems: &mut Problems) -> Option<CgroupPattern> {
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
    use crate::pod::Pod;

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

    #[test]
    fn cgroups_of_pods_are_those_of_the_ones_that_are_meant() {
        let uid = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
        let hash = "0123456789abcdef0123456789abcdef";
        let pod = |namespace: &str| Pod {
            namespace: namespace.to_owned(),
            name: "dtn-0".to_owned(),
            labels: [("app".to_owned(), "dtn".to_owned())].into(),
            containers: [].into(),
        };
        let pods =
            [(uid.to_owned(), pod("transfer")), (hash.to_owned(), pod("kube-system"))].into();
        let of = |namespace: Option<&str>, app: &str| {
            CgroupSelector::OfPods(PodSelector {
                namespace: namespace.map(str::to_owned),
                labels: [("app".to_owned(), app.to_owned())].into(),
            })
        };
        let slices = "kubepods.slice/kubepods-burstable.slice";
        let by_systemd = format!("{slices}/kubepods-burstable-pod{}.slice", uid.replace('-', "_"));
        let by_cgroupfs = format!("kubepods/burstable/pod{uid}");
        for cgroup in [&by_systemd, &by_cgroupfs, &format!("x.slice/kubelet/{by_cgroupfs}")] {
            let within = format!("{cgroup}/cri-containerd-{}.scope", "0".repeat(64));
            let (cgroup, within) = (Path::new(cgroup), Path::new(&within));
            let meant = of(Some("transfer"), "dtn");
            assert!(meant.fits(cgroup, &pods) && !meant.fits(within, &pods), "{cgroup:?}");
            assert!(meant.has(within, &pods) && of(None, "dtn").fits(cgroup, &pods));
            assert!(
                !meant.has(cgroup.parent().unwrap(), &pods) && !meant.has(within, &Pods::new())
            );
            assert!(!of(Some("kube-system"), "dtn").has(within, &pods));
            assert!(!of(Some("transfer"), "web").has(within, &pods));
        }
        let of_file = format!("kubepods/besteffort/pod{hash}");
        assert!(of(Some("kube-system"), "dtn").fits(Path::new(&of_file), &pods));
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
