//! Lists of pods, and changes of them, as an API server writes them: JSON, of which few
//! fields are read (`staging/src/k8s.io/api/core/v1/types.go` of Kubernetes).

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use wad_http::shown;
use wad_policy::pod::Pods;

use super::{
    board::{Change, insert},
    pod::Told,
};

/// A mirror pod has it; its value is that of `kubernetes.io/config.hash`, too
/// (`pkg/kubelet/pod/mirror_client.go`).
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The status of an answer that has nothing to go on from.
pub const GONE: u16 = 410;

/// The news in a line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// A change of a pod, if it is one, and the version from which a watch goes on.
    Change { change: Option<Change>, version: Option<String> },
    /// The watch ends, by an HTTP status and why.
    End { status: u16, reason: String },
}

/// Reads a list, and from which version on a watch tells what changes of it.
pub fn read_list(bytes: &[u8]) -> Result<(Pods, String), serde_json::Error> {
    let List { metadata, items } = serde_json::from_slice(bytes)?;
    let mut pods = Pods::new();
    for (uid, pod) in items.into_iter().filter_map(|item| Told::from(item).pod()) {
        insert(&mut pods, uid, pod);
    }
    Ok((pods, metadata.resource_version))
}

/// Reads a line of a watch.
pub fn read_line(bytes: &[u8]) -> Result<News, serde_json::Error> {
    let Event { kind, object } = serde_json::from_slice(bytes)?;
    let read = |object| -> Result<Item, _> { serde_json::from_str(RawValue::get(object)) };
    if kind == "ERROR" {
        let Status { code, message } = serde_json::from_str(object.get())?;
        return Ok(News::End { status: code, reason: shown(&message) });
    }
    let item = read(object)?;
    let version = Some(item.metadata.resource_version.clone()).filter(|it| !it.is_empty());
    let told = Told::from(item);
    let change = match kind.as_str() {
        "ADDED" | "MODIFIED" => told.pod().map(|(uid, pod)| Change::Is(uid, pod)),
        "DELETED" => told.uid().map(Change::Gone),
        // A bookmark has a version only.
        _ => None,
    };
    Ok(News::Change { change, version })
}

/// Reads why a request is refused; None where it is not said.
pub fn message(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice::<Status>(bytes).ok().map(|status| shown(&status.message))
}

/// Reads what an API server sends, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    if let Ok((pods, _)) = read_list(bytes) {
        pods.iter().for_each(|(uid, pod)| super::pod::hold(uid, pod));
    }
    match read_line(bytes) {
        Ok(News::Change { change: Some(Change::Is(uid, pod)), .. }) => {
            super::pod::hold(&uid, &pod);
        }
        Ok(News::End { reason, .. }) => assert!(!reason.contains(char::is_control)),
        _ => {}
    }
}

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_null")]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Status {
    code: u16,
    message: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    #[serde(deserialize_with = "or_null")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_null")]
    annotations: HashMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(deserialize_with = "or_null")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_null")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_null")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
struct ContainerStatus {
    name: String,
    /// Not there before the container is.
    #[serde(rename = "containerID", default)]
    id: String,
}

/// Reads what is null as empty: Go writes nil so, where it does not leave it out.
fn or_null<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl From<Item> for Told {
    fn from(Item { metadata, status }: Item) -> Self {
        let Metadata { name, namespace, uid, labels, mut annotations, .. } = metadata;
        let of_containers = [
            status.container_statuses,
            status.init_container_statuses,
            status.ephemeral_container_statuses,
        ];
        let containers = of_containers.into_iter().flatten();
        let containers = containers.map(|status| (status.name, status.id)).collect();
        let mirrored = annotations.remove(MIRROR);
        Self { namespace, name, uid, mirrored, labels, containers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(line: &str) -> Option<Change> {
        match read_line(line.as_bytes()) {
            Ok(News::Change { change, .. }) => change,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The API server of Kubernetes 1.37.2 has sent these.
    fn sent(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/seeds/pods");
        std::fs::read(format!("{folder}/{name}")).unwrap()
    }

    #[test]
    fn pods_of_an_api_server_are_read() {
        const UID: &str = "db772ff9-4186-4854-b97b-e7f8a8ff4ec2";
        const STATIC_UID: &str = "5f1d19d92ceff48df3156427de0d25d4";
        let change = |name: &str| match read_line(&sent(name)) {
            Ok(News::Change { change, version }) => (change, version.unwrap()),
            other => panic!("{name}: {other:?}"),
        };
        let (Some(Change::Is(uid, web)), version) = change("server-modified.json") else {
            panic!("a pod")
        };
        assert_eq!((uid.as_str(), web.name.as_str(), version.as_str()), (UID, "web", "336"));
        assert_eq!(web.labels["transfer.example.org/class"], "bulk");
        let names: Vec<_> = web.containers.values().map(String::as_str).collect();
        assert_eq!(names, ["before", "beside", "main"]);
        let (Some(Change::Is(uid, _)), _) = change("server-mirror.json") else { panic!("a pod") };
        assert_eq!(uid, STATIC_UID);
        assert_eq!(change("server-deleted.json").0, Some(Change::Gone(UID.to_owned())));
        assert_eq!(change("server-bookmark.json"), (None, "313".to_owned()));
        let (pods, version) = read_list(&sent("list.json")).unwrap();
        assert_eq!(pods.keys().map(String::as_str).collect::<Vec<_>>(), [STATIC_UID, UID]);
        assert!(version.parse::<u64>().unwrap() > 336 && pods[UID].labels["app"] == "other");
    }

    #[test]
    fn a_static_pod_has_the_uid_of_its_cgroup() {
        let hash = "8d6821cdab9b2b5a1ff4d2ba53e5f2a4";
        let object = format!(
            "{{\"metadata\":{{\"name\":\"etcd-n\",\"namespace\":\"kube-system\",\"uid\":\"a-b\",\
             \"annotations\":{{\"kubernetes.io/config.hash\":\"{hash}\",\
             \"kubernetes.io/config.mirror\":\"{hash}\"}}}}}}"
        );
        for (kind, is_there) in [("ADDED", true), ("MODIFIED", true), ("DELETED", false)] {
            match change(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}")) {
                Some(Change::Is(uid, pod)) if is_there => {
                    assert_eq!((uid.as_str(), pod.name.as_str()), (hash, "etcd-n"));
                }
                Some(Change::Gone(uid)) if !is_there => assert_eq!(uid, hash),
                other => panic!("{kind}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_null_or_not_there_is_empty() {
        let (pods, version) =
            read_list(b"{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}").unwrap();
        assert_eq!((pods.len(), version.as_str()), (0, "5"));
        let line = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\
                    \"uid\":\"c\",\"labels\":null},\"status\":{\"containerStatuses\":null,\
                    \"ephemeralContainerStatuses\":[{\"name\":\"debug\"}]}}}";
        let Some(Change::Is(_, pod)) = change(line) else { panic!("a pod") };
        assert!(pod.labels.is_empty() && pod.containers.is_empty());
    }

    #[test]
    fn what_is_no_change_of_a_pod_is_told_apart() {
        let object = "{\"metadata\":{\"resourceVersion\":\"9\"}}";
        for kind in ["BOOKMARK", "UNHEARD_OF", "ADDED", "DELETED"] {
            let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}");
            let expected = News::Change { change: None, version: Some("9".to_owned()) };
            assert_eq!(read_line(line.as_bytes()).unwrap(), expected, "{kind}");
        }
        let line = "{\"type\":\"ERROR\",\"object\":{\"status\":\"Failure\",\"reason\":\"Expired\",\
                    \"message\":\"too old\\n\",\"code\":410}}";
        let expected = News::End { status: 410, reason: "too old".to_owned() };
        assert_eq!(read_line(line.as_bytes()).unwrap(), expected);
        for line in ["", "{}", "[]", "{\"type\":\"ERROR\",\"object\":{}}", "{\"type\":1}"] {
            assert!(read_line(line.as_bytes()).is_err(), "{line}");
        }
    }
}
