//! The kubelet's pods API: a watch by gRPC over its Unix socket, from Kubernetes 1.37 on.
//!
//! The socket stays when a kubelet ends; nobody answers there until the next one makes it
//! anew. Numbers of fields are those of `k8s.io/kubelet/pkg/apis/pods/v1alpha1/api.proto`,
//! and of `generated.proto` of `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`,
//! all of 1.37.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use prost::{DecodeError, Enumeration, Message};
use tokio::time::{sleep, timeout};
use wad_policy::pod::Pods;

use super::{
    Origin,
    board::{Board, Change, insert},
    grpc::{GrpcError, Messages, UNIMPLEMENTED},
    pod::Told,
};

/// Sends all pods that there are, and then what changes of them.
const WATCH_PODS: &str = "/v1alpha1.Pods/WatchPods";

/// Sends all pods that there are, in one message.
const LIST_PODS: &str = "/v1alpha1.Pods/ListPods";

/// The kubelet gets so long to tell of all pods.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says why the kubelet tells of no pods.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    #[error(
        "the kubelet has no socket {} (Kubernetes 1.37 or later makes it; in a container its \
         folder has to be mounted)",
        socket.display()
    )]
    Absent { socket: PathBuf },
    #[error("no kubelet answers at {} (look whether it runs)", socket.display())]
    Silent { socket: PathBuf, source: io::Error },
    #[error("the kubelet knows no watch of pods at {} (another version may)", socket.display())]
    Unknown { socket: PathBuf },
    #[error("the kubelet's watch of pods broke off")]
    Broken(#[from] GrpcError),
    #[error("the kubelet sent what tells of no pod")]
    Message(#[from] DecodeError),
    #[error("the kubelet has not told of all pods within {} s", PATIENCE.as_secs())]
    Late,
}

/// A watch that has told of all pods there were.
pub struct Watch(Messages);

/// Begins a watch, and waits until it has told of all pods.
pub async fn begin(socket: &Path) -> Result<(Watch, Pods), KubeletError> {
    let begun = async {
        let messages = Messages::of(socket, WATCH_PODS).await;
        let mut messages = messages.map_err(|error| at_first(socket, error))?;
        let mut pods = Pods::new();
        loop {
            let message = messages.next().await.map_err(|error| at_first(socket, error))?;
            match read(&message)? {
                News::All => return Ok((Watch(messages), pods)),
                News::Change(Change::Is(uid, pod)) => {
                    insert(&mut pods, uid, pod);
                }
                News::Change(Change::Gone(uid)) => {
                    pods.remove(&uid);
                }
                News::Other => {}
            }
        }
    };
    timeout(PATIENCE, begun).await.unwrap_or(Err(KubeletError::Late))
}

fn at_first(socket: &Path, error: GrpcError) -> KubeletError {
    let socket = socket.to_owned();
    match error {
        GrpcError::Connect(source) if source.kind() == io::ErrorKind::NotFound => {
            KubeletError::Absent { socket }
        }
        GrpcError::Connect(source) => KubeletError::Silent { socket, source },
        GrpcError::Status { code: UNIMPLEMENTED, .. } => KubeletError::Unknown { socket },
        other => KubeletError::Broken(other),
    }
}

impl Watch {
    /// Follows what changes, and returns why it is told no more.
    pub async fn follow(&mut self, board: &Board) -> KubeletError {
        loop {
            let read = async { read(&self.0.next().await?) };
            match read.await {
                Ok(News::Change(change)) => board.changes(Origin::Kubelet, change),
                Ok(News::All | News::Other) => {}
                Err(error) => return error,
            }
        }
    }
}

/// Asks for the labels of pods now and then. It never ends: if nobody answers, the watch tells
/// of that.
pub async fn follow_labels(socket: &Path, interval: Duration, board: &Board) -> Infallible {
    loop {
        sleep(interval).await;
        if let Ok(Ok(pods)) = timeout(PATIENCE, list(socket)).await {
            board.labels(Origin::Kubelet, pods);
        }
    }
}

async fn list(socket: &Path) -> Result<Pods, KubeletError> {
    let message = Messages::of(socket, LIST_PODS).await?.next().await?;
    let ListPodsResponse { pods: objects } = ListPodsResponse::decode(message)?;
    let mut pods = Pods::new();
    for (uid, pod) in objects.into_iter().filter_map(|object| Told::from(object).pod()) {
        insert(&mut pods, uid, pod);
    }
    Ok(pods)
}

/// The news in an event.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Change(Change),
    /// All pods that there were at the start have been told of.
    All,
    /// It is of no use here.
    Other,
}

fn read(message: &[u8]) -> Result<News, KubeletError> {
    let WatchPodsEvent { kind, pod } = WatchPodsEvent::decode(message)?;
    let told = pod.map(Told::from).unwrap_or_default();
    let change = match EventType::try_from(kind) {
        Ok(EventType::InitialSyncComplete) => return Ok(News::All),
        Ok(EventType::Added | EventType::Modified) => {
            told.pod().map(|(uid, pod)| Change::Is(uid, pod))
        }
        // It has a name and a uid only.
        Ok(EventType::Deleted) => told.uid().map(Change::Gone),
        Ok(EventType::Unspecified) | Err(_) => None,
    };
    Ok(change.map_or(News::Other, News::Change))
}

/// Reads what a kubelet sends, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let Ok(news) = read(bytes) else { return };
    if let News::Change(Change::Is(uid, pod)) = news {
        super::pod::hold(&uid, &pod);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum EventType {
    Unspecified = 0,
    Added = 1,
    Modified = 2,
    Deleted = 3,
    InitialSyncComplete = 4,
}

#[derive(Clone, PartialEq, Message)]
struct WatchPodsEvent {
    #[prost(enumeration = "EventType", tag = "1")]
    kind: i32,
    /// The field is of bytes there, which are those of a pod: on the wire it is the same.
    #[prost(message, optional, tag = "2")]
    pod: Option<PodObject>,
}

#[derive(Clone, PartialEq, Message)]
struct ListPodsResponse {
    /// They are as in the event.
    #[prost(message, repeated, tag = "1")]
    pods: Vec<PodObject>,
}

#[derive(Clone, PartialEq, Message)]
struct PodObject {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "3")]
    status: Option<PodStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct PodStatus {
    #[prost(message, repeated, tag = "8")]
    containers: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    init_containers: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "13")]
    ephemeral_containers: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerStatus {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "8")]
    id: String,
}

impl From<PodObject> for Told {
    fn from(PodObject { metadata, status }: PodObject) -> Self {
        let ObjectMeta { name, namespace, uid, labels } = metadata.unwrap_or_default();
        let PodStatus { containers, init_containers, ephemeral_containers } =
            status.unwrap_or_default();
        let containers = containers.into_iter().chain(init_containers).chain(ephemeral_containers);
        let containers = containers.map(|status| (status.name, status.id)).collect();
        // The kubelet has static pods by their own uids, and no mirrors of them.
        Self { namespace, name, uid, mirrored: None, labels, containers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kubelet of Kubernetes 1.37.2 has sent these.
    const SENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/seeds/pods");

    fn sent(name: &str) -> Change {
        let message = std::fs::read(Path::new(SENT).join(name)).unwrap();
        match read(&message).unwrap() {
            News::Change(change) => change,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn pods_of_a_kubelet_are_read() {
        const UID: &str = "db772ff9-4186-4854-b97b-e7f8a8ff4ec2";
        let Change::Is(uid, pod) = sent("kubelet-modified.bin") else { panic!("a pod") };
        assert_eq!(
            (uid.as_str(), pod.namespace.as_str(), pod.name.as_str()),
            (UID, "default", "web")
        );
        let labels: Vec<_> =
            pod.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["app=other", "tier=gold", "transfer.example.org/class=bulk"]);
        let containers: Vec<_> =
            pod.containers.iter().map(|(id, name)| format!("{} {name}", &id[..8])).collect();
        assert_eq!(containers, ["31f22c3c before", "ae699edf beside", "e97a51e1 main"]);
        assert_eq!(sent("kubelet-deleted.bin"), Change::Gone(UID.to_owned()));
        let Change::Is(uid, pod) = sent("kubelet-static.bin") else { panic!("a pod") };
        assert_eq!(uid, "5f1d19d92ceff48df3156427de0d25d4");
        assert_eq!((pod.name.as_str(), pod.labels["app"].as_str()), ("fixed-node1", "fixed"));
    }

    #[test]
    fn what_is_cut_is_refused() {
        let message = std::fs::read(Path::new(SENT).join("kubelet-modified.bin")).unwrap();
        for length in 3..message.len() {
            assert!(read(&message[..length]).is_err(), "{length}");
        }
    }
}
