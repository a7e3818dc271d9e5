//! Whose a flow is: a user, a process, and the place in the tree of cgroups, which says
//! what systemd or a container engine started.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose a flow is, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Owner {
    /// The user that its socket belongs to, as `ss -e` shows it; None where none is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The process that connected or accepted, in the host's own PID namespace; None for one
    /// that has not been accepted yet, or that ran before and is nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The name of its command, as `ps -o comm` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Arc<str>>,
    #[serde(flatten)]
    pub place: Place,
}

/// A place in the tree of cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Place {
    /// The cgroup's path below the root, as /proc/PID/cgroup has it after 0::/.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Arc<str>>,
    /// The innermost unit of systemd that is no slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Arc<str>>,
    /// The container's identifier, 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Arc<str>>,
    /// The pod's UID in Kubernetes; of a static pod, the hash of its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<str>>,
    #[serde(flatten)]
    pub names: PodNames,
}

/// The names that Kubernetes has for a pod and its container, as far as the agent knows them:
/// no cgroup has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PodNames {
    /// The pod's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// The pod's name in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<Arc<str>>,
    /// The container's name in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<Arc<str>>,
}

/// Units that have processes, but for slices.
const UNITS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];
const CONTAINER_DIGITS: usize = 64;
const UID_CHARS: usize = 36;
/// Digits of a hash of 128 bits (kubernetes, pkg/kubelet/config/common.go).
const HASH_CHARS: usize = 32;

impl Place {
    /// Reads what the names of a cgroup's path say, innermost first.
    #[must_use]
    pub fn of(cgroup: &str) -> Self {
        let names = || cgroup.rsplit('/');
        let is_unit = |name: &&str| UNITS.iter().any(|kind| name.ends_with(kind));
        Self {
            cgroup: Some(cgroup.into()),
            unit: names().find(is_unit).map(Into::into),
            container: names().find_map(container).map(Into::into),
            pod: names().find_map(pod_of_cgroup).map(Into::into),
            names: PodNames::default(),
        }
    }
}

impl Owner {
    /// Returns it in a few characters: "curl/1234", the pod, the unit, or the number of the
    /// user.
    #[must_use]
    pub fn short(&self) -> Option<String> {
        match (&self.process, self.pid) {
            (Some(process), Some(pid)) => Some(format!("{}/{pid}", process.escape_debug())),
            _ => {
                let unit = self.place.unit.as_ref().map(|unit| unit.escape_debug().to_string());
                let pod = self.place.names.pod();
                pod.or(unit).or_else(|| self.uid.map(|uid| format!("user {uid}")))
            }
        }
    }
}

impl PodNames {
    /// Returns what `kubectl get pod -n NAMESPACE POD` finds it by: "transfer/dtn-0".
    #[must_use]
    pub fn pod(&self) -> Option<String> {
        let (namespace, pod) = self.namespace.as_ref().zip(self.pod_name.as_ref())?;
        Some(format!("{}/{}", namespace.escape_debug(), pod.escape_debug()))
    }
}

/// All of it, for people.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { cgroup, unit, container, pod, names } = &self.place;
        let named = |what: &str, text: Option<&Arc<str>>| {
            text.map(|text| format!("{what} {}", text.escape_debug()))
        };
        let process = self.process.as_ref().zip(self.pid);
        let process =
            process.map(|(process, pid)| format!("{}, pid {pid}", process.escape_debug()));
        let unit = named("unit", unit.as_ref()).or_else(|| named("cgroup", cgroup.as_ref()));
        let user = self.uid.map(|uid| format!("user {uid}"));
        let pod =
            names.pod().map(|pod| format!("pod {pod}")).or_else(|| named("pod", pod.as_ref()));
        let container = named("container", names.container_name.as_ref().or(container.as_ref()));
        let all = [process, user, unit, container, pod];
        let all: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(&all.join(", "))
    }
}

/// The identifier of a container, as engines name its cgroup: alone (cgroupfs), or between
/// the engine's name and ".scope" (systemd).
fn container(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit('-').next()?;
    let is_id = id.len() == CONTAINER_DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then_some(id)
}

/// Returns the UID of the pod that a cgroup of this name is of, as the kubelet names them:
/// "pod" and the UID, which in a slice has underscores. Of a static pod it is the hash of its
/// configuration.
#[must_use]
pub fn pod_of_cgroup(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let (before, uid) = name.rsplit_once("pod")?;
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    let is_uid = match uid.len() {
        UID_CHARS => uid.bytes().all(|byte| is_digit(byte) || byte == b'-' || byte == b'_'),
        HASH_CHARS => uid.bytes().all(is_digit),
        _ => false,
    };
    (is_uid && (before.is_empty() || before.ends_with('-'))).then(|| uid.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8b2f6e1c0a4d9e7f8b2f6e1c0a4d9e7f8b2f6e1c0a4d9e7f8b2f6e1c0a4d9e7f";
    const UID: &str = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
    const HASH: &str = "0123456789abcdef0123456789abcdef";

    fn place(cgroup: &str) -> [Option<String>; 3] {
        let Place { unit, container, pod, .. } = Place::of(cgroup);
        [unit, container, pod].map(|it| it.as_deref().map(str::to_owned))
    }

    #[test]
    fn names_of_cgroups_say_who_made_them() {
        let some = |text: &str| Some(text.to_owned());
        let underscored = UID.replace('-', "_");
        let scope = format!("cri-containerd-{ID}.scope");
        let slices = format!(
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscored}.slice"
        );
        for (cgroup, expected) in [
            (String::new(), [None, None, None]),
            ("system.slice".to_owned(), [None, None, None]),
            ("system.slice/globus.service/worker".to_owned(), [some("globus.service"), None, None]),
            (
                "user.slice/user-1000.slice/user@1000.service/app.slice/dbus.service".to_owned(),
                [some("dbus.service"), None, None],
            ),
            (
                format!("system.slice/docker-{ID}.scope"),
                [some(&format!("docker-{ID}.scope")), some(ID), None],
            ),
            (format!("{slices}/{scope}"), [some(&scope), some(ID), some(UID)]),
            (format!("kubepods/besteffort/pod{UID}/{ID}"), [None, some(ID), some(UID)]),
            (format!("kubepods/tripod{UID}"), [None, None, None]),
            (format!("kubepods/burstable/pod{HASH}/{ID}"), [None, some(ID), some(HASH)]),
            (format!("kubepods.slice/kubepods-pod{HASH}.slice"), [None, None, some(HASH)]),
            (format!("kubepods/pod{}", &HASH[1..]), [None, None, None]),
            (
                format!("docker-{}.scope", &ID[1..]),
                [some(&format!("docker-{}.scope", &ID[1..])), None, None],
            ),
        ] {
            assert_eq!(place(&cgroup), expected, "{cgroup}");
        }
    }

    #[test]
    fn in_short_it_is_the_process_the_unit_or_the_user() {
        let mut owner = Owner {
            uid: Some(1_000),
            pid: Some(17),
            process: Some("c\nurl".into()),
            place: Place::of("system.slice/a.service"),
        };
        assert_eq!(owner.short().as_deref(), Some("c\\nurl/17"));
        let all = "c\\nurl, pid 17, user 1000, unit a.service";
        assert_eq!(owner.to_string(), all);
        owner.pid = None;
        assert_eq!(owner.short().as_deref(), Some("a.service"));
        owner.place = Place::of(&format!("kubepods/pod{UID}/{ID}"));
        let unnamed =
            format!("user 1000, cgroup kubepods/pod{UID}/{ID}, container {ID}, pod {UID}");
        assert_eq!(owner.to_string(), unnamed);
        owner.place.names = PodNames {
            namespace: Some("transfer".into()),
            pod_name: Some("dtn-0".into()),
            container_name: Some("ftp".into()),
        };
        assert_eq!(owner.short().as_deref(), Some("transfer/dtn-0"));
        let named = format!("cgroup kubepods/pod{UID}/{ID}, container ftp, pod transfer/dtn-0");
        assert_eq!(owner.to_string(), format!("user 1000, {named}"));
        owner.place = Place::default();
        assert_eq!(owner.short().as_deref(), Some("user 1000"));
        assert_eq!(Owner::default().short(), None);
    }
}
