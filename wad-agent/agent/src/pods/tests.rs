//! These tests have a kubelet and an API server come and go, and look at what is known.

use std::{collections::BTreeMap, fs, path::Path};

use tempfile::TempDir;
use tokio::{net::UnixListener, time::timeout};
use wad_policy::pod::Pod;
use wad_toolbox::url::Url;

use super::{
    testing::{ApiServer as Server, Call, Kubelet, SOON, TESTDATA, status_headers},
    *,
};

const ADDED: u8 = 1;
const MODIFIED: u8 = 2;
const DELETED: u8 = 3;
const INITIAL_SYNC_COMPLETE: u8 = 4;

const UID_A: &str = "0b1c2d3e-0000-4000-8000-00000000000a";
const UID_B: &str = "0b1c2d3e-0000-4000-8000-00000000000b";
const UID_C: &str = "0b1c2d3e-0000-4000-8000-00000000000c";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A length-delimited field of protobuf.
fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut length = value.len();
    let mut bytes = vec![number << 3 | 2];
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    [bytes, value.to_vec()].concat()
}

fn event(kind: u8, pod: &[u8]) -> Vec<u8> {
    [vec![1 << 3, kind], field(2, pod)].concat()
}

/// A pod, as protobuf has it, with a label "app" and a container "main".
fn encoded(uid: &str, app: &str, id: Option<&str>) -> Vec<u8> {
    let label = [field(1, "app"), field(2, app)].concat();
    let metadata = [
        field(1, format!("pod-{app}")),
        field(3, "transfer"),
        field(5, uid),
        field(11, label),
        // An owner, which is of no use here.
        field(13, field(1, "ReplicaSet")),
    ];
    let id = id.map(|id| field(8, format!("containerd://{id}"))).unwrap_or_default();
    let container = [field(1, "main"), id].concat();
    let status = [field(1, "Running"), field(8, container)].concat();
    [field(1, metadata.concat()), field(2, field(3, "Always")), field(3, status)].concat()
}

/// The same as an API server writes it.
fn written(uid: &str, app: &str, id: Option<&str>, version: u32) -> String {
    let id = id.map(|id| format!(",\"containerID\":\"cri-o://{id}\"")).unwrap_or_default();
    format!(
        "{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"pod-{app}\",\
         \"namespace\":\"transfer\",\"uid\":\"{uid}\",\"resourceVersion\":\"{version}\",\
         \"labels\":{{\"app\":\"{app}\"}},\"ownerReferences\":[{{\"kind\":\"ReplicaSet\"}}]}},\
         \"spec\":{{\"nodeName\":\"node-1\"}},\"status\":{{\"phase\":\"Running\",\
         \"containerStatuses\":[{{\"name\":\"main\",\"ready\":true{id}}}]}}}}"
    )
}

fn line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}")
}

fn bookmark(version: u32) -> String {
    let metadata = format!("\"metadata\":{{\"resourceVersion\":\"{version}\"}}");
    line("BOOKMARK", &format!("{{\"kind\":\"Pod\",{metadata},\"spec\":{{}},\"status\":{{}}}}"))
}

fn list(items: &[String], version: u32) -> String {
    let items = items.join(",");
    format!("{{\"metadata\":{{\"resourceVersion\":\"{version}\"}},\"items\":[{items}]}}")
}

fn pod(app: &str, ids: &[&str]) -> Pod {
    Pod {
        namespace: "transfer".to_owned(),
        name: format!("pod-{app}"),
        labels: [("app".to_owned(), app.to_owned())].into(),
        containers: ids.iter().map(|id| ((*id).to_owned(), "main".to_owned())).collect(),
    }
}

fn pods<const N: usize>(pods: [(&str, Pod); N]) -> Pods {
    BTreeMap::from(pods.map(|(uid, pod)| (uid.to_owned(), pod)))
}

/// A place for the socket and the token, and who follows the pods there.
struct Place {
    folder: TempDir,
    known: watch::Receiver<Known>,
}

impl Place {
    /// Nobody is asked but the kubelet, which is not asked for labels.
    fn new() -> Self {
        Self::of_kubelet(Duration::MAX)
    }

    fn of_kubelet(labels_interval: Duration) -> Self {
        Self::with(labels_interval, |_| Err("no API server".to_owned()))
    }

    fn with_server(server: &Server) -> Self {
        let url = Url::parse(&format!("https://127.0.0.1:{}", server.port)).unwrap();
        Self::with(Duration::MAX, |folder| {
            let settings = KubernetesSettings {
                api_server: Some(url),
                node: Some("node-1".to_owned()),
                token_file: folder.join("token"),
                ca_file: Path::new(TESTDATA).join("server.pem"),
                ..KubernetesSettings::default()
            };
            Ok(ApiServer::new(&settings, |_| None).unwrap())
        })
    }

    fn with(
        labels_interval: Duration,
        api_server: impl FnOnce(&Path) -> Result<ApiServer, String>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "first\n").unwrap();
        let (socket, api_server) = (folder.path().join("socket"), api_server(folder.path()));
        let known = start(Follower { socket, labels_interval, api_server }, Arc::default());
        Self { folder, known }
    }

    fn kubelet(&self) -> Kubelet {
        Kubelet::start(&self.folder.path().join("socket"))
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Known) -> bool) -> Known {
        let known = timeout(SOON, self.known.wait_for(|known| is_so(known))).await;
        let known = known.map(|known| known.unwrap().clone());
        known.unwrap_or_else(|_| panic!("never {what}: {:?}", self.known.borrow()))
    }

    async fn holds(&mut self, origin: Origin, pods: Pods) {
        let is_so = |known: &Known| *known.pods == pods && known.origin == Some(origin);
        let known = self.until(&format!("{origin:?} {pods:?}"), is_so).await;
        assert_eq!(known.lacking, None);
    }

    /// Waits until neither answers, for these reasons.
    async fn lacks(&mut self, why: &str) -> Known {
        let lacks = |known: &Known| known.lacking.as_ref().is_some_and(|told| told.contains(why));
        let known = self.until(why, lacks).await;
        assert_eq!(known.origin, None);
        known
    }
}

#[tokio::test]
async fn a_kubelet_tells_of_all_pods_and_what_changes() {
    let mut place = Place::new();
    let mut kubelet = place.kubelet();
    let mut messages = kubelet.watch().await;
    messages.send(&event(ADDED, &encoded(UID_A, "a", Some(ID))));
    messages.send(&event(ADDED, &encoded(UID_B, "b", None)));
    // No part of them counts as all.
    drop(messages);
    assert!(place.lacks("no API server").await.pods.is_empty());
    let mut messages = kubelet.watch().await;
    messages.send(&event(ADDED, &encoded(UID_A, "a", Some(ID))));
    messages.send(&event(ADDED, &encoded(UID_B, "b", None)));
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    place.holds(Origin::Kubelet, pods([(UID_A, pod("a", &[ID])), (UID_B, pod("b", &[]))])).await;

    // The id of a container comes after the pod; labels may change.
    messages.send(&event(MODIFIED, &encoded(UID_B, "b", Some(ID))));
    place.holds(Origin::Kubelet, pods([(UID_A, pod("a", &[ID])), (UID_B, pod("b", &[ID]))])).await;
    messages.send(&event(MODIFIED, &encoded(UID_A, "x", Some(ID))));
    place.holds(Origin::Kubelet, pods([(UID_A, pod("x", &[ID])), (UID_B, pod("b", &[ID]))])).await;
    // What is gone has no more than a name and a uid.
    let gone = field(1, [field(1, "pod-b"), field(3, "transfer"), field(5, UID_B)].concat());
    messages.send(&event(DELETED, &gone));
    place.holds(Origin::Kubelet, pods([(UID_A, pod("x", &[ID]))])).await;

    // What tells of nothing new is no news.
    place.known.mark_unchanged();
    messages.send(&event(MODIFIED, &encoded(UID_A, "x", Some(ID))));
    messages.send(&event(DELETED, &gone));
    messages.send(&event(77, &gone));
    messages.send(&event(ADDED, &encoded(UID_C, "c", None)));
    place.known.changed().await.unwrap();
    assert_eq!(
        *place.known.borrow().pods,
        pods([(UID_A, pod("x", &[ID])), (UID_C, pod("c", &[]))])
    );
}

#[tokio::test]
async fn what_is_known_stays_while_a_kubelet_is_away() {
    let mut place = Place::new();
    let mut kubelet = place.kubelet();
    let mut messages = kubelet.watch().await;
    messages.send(&event(ADDED, &encoded(UID_A, "a", None)));
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    let held = pods([(UID_A, pod("a", &[]))]);
    place.holds(Origin::Kubelet, held.clone()).await;

    // A reset, and one in the midst of a message: there is a new watch.
    drop(messages);
    assert_eq!(*place.lacks("watch of pods broke off").await.pods, held);
    let mut messages = kubelet.watch().await;
    messages.send(&event(ADDED, &encoded(UID_B, "b", None)));
    messages.send_raw(vec![0, 0, 0, 1, 0, 1, 2, 3]);
    drop(messages);
    let mut messages = kubelet.watch().await;
    assert_eq!(*place.known.borrow().pods, held);
    messages.send(&event(ADDED, &encoded(UID_C, "c", None)));
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    // Those that have gone meanwhile are gone.
    let held = pods([(UID_C, pod("c", &[]))]);
    place.holds(Origin::Kubelet, held.clone()).await;

    // The kubelet has ended, and its socket is still there; and then it is not.
    drop((messages, kubelet));
    assert_eq!(*place.lacks("no kubelet answers at").await.pods, held);
    fs::remove_file(place.folder.path().join("socket")).unwrap();
    assert_eq!(*place.lacks("Kubernetes 1.37 or later").await.pods, held);
    let mut kubelet = place.kubelet();
    let mut messages = kubelet.watch().await;
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    place.holds(Origin::Kubelet, Pods::new()).await;
}

#[tokio::test]
async fn a_kubelet_that_answers_badly_is_asked_again() {
    let mut place = Place::new();
    let mut kubelet = place.kubelet();
    kubelet.watch().await.end("9", "Kubelet is initializing");
    let _ = place.lacks("gRPC status 9: Kubelet is initializing").await;
    // All of an answer is its head.
    for (status, why) in [("12", "knows no watch of pods at"), ("14", "gRPC status 14")] {
        let Call { mut respond, .. } = kubelet.call().await;
        let mut head = hyper::Response::builder().header("content-type", "application/grpc");
        head.headers_mut().unwrap().extend(status_headers(status, "no"));
        respond.send_response(head.body(()).unwrap(), true).unwrap();
        let _ = place.lacks(why).await;
    }
    let Call { mut respond, .. } = kubelet.call().await;
    let head = hyper::Response::builder().status(404).body(()).unwrap();
    respond.send_response(head, true).unwrap();
    let _ = place.lacks("the answer is not of gRPC: 404").await;
    let mut messages = kubelet.watch().await;
    messages.send(b"garbage");
    let _ = place.lacks("sent what tells of no pod").await;
    messages = kubelet.watch().await;
    messages.send_raw(vec![0, 0xff, 0xff, 0xff, 0xff]);
    let _ = place.lacks("a message has 4294967295 bytes").await;
    drop((messages, kubelet));

    let socket = place.folder.path().join("socket");
    fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let (stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let _ = place.lacks("the connection broke off").await;
    let mut kubelet = place.kubelet();
    let mut messages = kubelet.watch().await;
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    place.holds(Origin::Kubelet, Pods::new()).await;
}

#[tokio::test]
async fn an_api_server_is_asked_for_a_list_and_what_changes() {
    let mut server = Server::start().await;
    let mut place = Place::with_server(&server);
    let asked = server.asked().await;
    assert_eq!(asked.parameter("fieldSelector"), Some("spec.nodeName%3Dnode-1"));
    assert_eq!(asked.parameter("resourceVersion"), Some("0"));
    assert!(asked.head.contains("\r\nauthorization: Bearer first\r\n"), "{}", asked.head);
    let items = [written(UID_A, "a", Some(ID), 7), written(UID_B, "b", None, 8)];
    asked.answer("200 OK", &list(&items, 10)).await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("a", &[ID])), (UID_B, pod("b", &[]))])).await;

    let asked = server.asked().await;
    assert_eq!(asked.parameter("fieldSelector"), Some("spec.nodeName%3Dnode-1"));
    assert_eq!(asked.parameter("resourceVersion"), Some("10"));
    assert_eq!(asked.parameter("allowWatchBookmarks"), Some("true"));
    let mut lines = asked.watch().await;
    lines.send(&line("MODIFIED", &written(UID_A, "x", Some(ID), 11))).await;
    lines.send(&line("DELETED", &written(UID_B, "b", None, 12))).await;
    let added = line("ADDED", &written(UID_C, "c", Some(ID), 13));
    // A line may come in parts.
    lines.chunk(&added[..100]).await;
    lines.send(&added[100..]).await;
    place
        .holds(Origin::ApiServer, pods([(UID_A, pod("x", &[ID])), (UID_C, pod("c", &[ID]))]))
        .await;

    // A watch that ends goes on from the last version, by the token that there is now.
    lines.send(&bookmark(20)).await;
    fs::write(place.folder.path().join("token"), "second\n").unwrap();
    place.known.mark_unchanged();
    lines.end().await;
    let asked = server.asked().await;
    assert_eq!(asked.parameter("resourceVersion"), Some("20"));
    // It is nothing to tell of, unless it comes again soon.
    assert!(!place.known.has_changed().unwrap());
    assert!(asked.head.contains("\r\nauthorization: Bearer second\r\n"), "{}", asked.head);
    let mut lines = asked.watch().await;
    // So does one that breaks off, without what was cut.
    lines.send(&line("DELETED", &written(UID_C, "c", None, 21))).await;
    lines.chunk(&line("DELETED", &written(UID_A, "x", None, 22))[..100]).await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("x", &[ID]))])).await;
    drop(lines);
    let asked = server.asked().await;
    assert_eq!(asked.parameter("resourceVersion"), Some("21"));
    let _lines = asked.watch().await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("x", &[ID]))])).await;
}

#[tokio::test]
async fn versions_that_are_gone_are_followed_by_a_new_list() {
    let mut server = Server::start().await;
    let mut place = Place::with_server(&server);
    server.asked().await.answer("200 OK", &list(&[written(UID_A, "a", None, 7)], 10)).await;
    let mut held = pods([(UID_A, pod("a", &[]))]);
    place.holds(Origin::ApiServer, held.clone()).await;
    let status = "{\"kind\":\"Status\",\"metadata\":{},\"status\":\"Failure\",\"reason\":\"Expired\",\
                  \"message\":\"too old resource version\",\"code\":410}";
    for (is_head, app) in [(true, "b"), (false, "c")] {
        let asked = server.asked().await;
        assert_eq!(asked.parameter("watch"), Some("1"));
        if is_head {
            asked.answer("410 Gone", status).await;
        } else {
            asked.watch().await.send(&line("ERROR", status)).await;
        }
        let asked = server.asked().await;
        assert_eq!(asked.parameter("watch"), None);
        // It is not to be from the cache that was too old.
        assert_eq!(asked.parameter("resourceVersion"), None);
        assert_eq!(*place.known.borrow().pods, held);
        asked.answer("200 OK", &list(&[written(UID_B, app, None, 30)], 31)).await;
        held = pods([(UID_B, pod(app, &[]))]);
        place.holds(Origin::ApiServer, held.clone()).await;
    }
}

#[tokio::test]
async fn an_api_server_that_answers_badly_is_asked_again() {
    let mut server = Server::start().await;
    let mut place = Place::with_server(&server);
    let forbidden = "{\"kind\":\"Status\",\"message\":\"pods is forbidden\",\"code\":403}";
    server.asked().await.answer("403 Forbidden", forbidden).await;
    let known =
        place.lacks("let it list and watch pods (`pods.apiServer` of the chart has it").await;
    let lacking = known.lacking.unwrap();
    assert!(
        lacking.contains(": pods is forbidden") && lacking.contains("the kubelet has no socket")
    );
    server.asked().await.answer("200 OK", "garbage").await;
    let _ = place.lacks("the API server sent what is no pod").await;
    server.asked().await.answer("200 OK", &list(&[], 1)).await;
    place.holds(Origin::ApiServer, Pods::new()).await;

    let mut lines = server.asked().await.watch().await;
    lines.chunk(&" ".repeat(5 << 20)).await;
    let _ = place.lacks("a line of more than 4194304 bytes").await;
    server.asked().await.watch().await.end().await;
    let _ = place.lacks("ends each watch soon").await;
    let mut lines = server.asked().await.watch().await;
    place.holds(Origin::ApiServer, Pods::new()).await;
    lines.send(&line("ADDED", &written(UID_A, "a", None, 2))).await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("a", &[]))])).await;

    fs::remove_file(place.folder.path().join("token")).unwrap();
    drop(lines);
    let known = place.lacks("no token for the API server (`pods.apiServer` of the chart").await;
    assert_eq!(*known.pods, pods([(UID_A, pod("a", &[]))]));
}

#[tokio::test]
async fn labels_that_change_alone_are_asked_for() {
    let mut place = Place::of_kubelet(Duration::from_millis(20));
    let mut kubelet = place.kubelet();
    let mut messages = kubelet.watch().await;
    messages.send(&event(ADDED, &encoded(UID_A, "a", Some(ID))));
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    place.holds(Origin::Kubelet, pods([(UID_A, pod("a", &[ID]))])).await;
    for (app, rest) in [("x", None), ("y", Some(UID_B))] {
        let mut listed = field(1, encoded(UID_A, app, None));
        // One that the watch will tell of.
        listed.extend(rest.into_iter().flat_map(|uid| field(1, encoded(uid, "b", None))));
        let mut list = kubelet.list().await;
        list.send(&listed);
        list.end("0", "");
        let changed = Pod { name: "pod-a".to_owned(), ..pod(app, &[ID]) };
        place.holds(Origin::Kubelet, pods([(UID_A, changed)])).await;
    }
    // A list that fails is no reason to forget anything.
    kubelet.list().await.end("14", "no");
    let mut garbage = kubelet.list().await;
    garbage.send(b"garbage");
    garbage.end("0", "");
    let _list = kubelet.list().await;
    let changed = Pod { name: "pod-a".to_owned(), ..pod("y", &[ID]) };
    place.holds(Origin::Kubelet, pods([(UID_A, changed)])).await;
}

#[tokio::test]
async fn the_api_server_goes_first_and_the_kubelet_stands_in_for_it() {
    let mut server = Server::start().await;
    let mut place = Place::with_server(&server);
    let mut kubelet = place.kubelet();
    let mut messages = kubelet.watch().await;
    messages.send(&event(ADDED, &encoded(UID_B, "b", None)));
    messages.send(&[1 << 3, INITIAL_SYNC_COMPLETE]);
    place.holds(Origin::Kubelet, pods([(UID_B, pod("b", &[]))])).await;
    server.asked().await.answer("200 OK", &list(&[written(UID_A, "a", None, 7)], 10)).await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("a", &[]))])).await;
    let mut lines = server.asked().await.watch().await;

    // The kubelet is heard, but does not count.
    messages.send(&event(ADDED, &encoded(UID_C, "c", None)));
    lines.send(&line("MODIFIED", &written(UID_A, "x", None, 11))).await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("x", &[]))])).await;
    drop(lines);
    server.asked().await.answer("500 Internal Server Error", "").await;
    let of_kubelet = pods([(UID_B, pod("b", &[])), (UID_C, pod("c", &[]))]);
    place.holds(Origin::Kubelet, of_kubelet.clone()).await;
    drop((messages, kubelet));
    assert_eq!(*place.lacks("500").await.pods, of_kubelet);

    let lines = server.asked().await.watch().await;
    place.holds(Origin::ApiServer, pods([(UID_A, pod("x", &[]))])).await;

    // Who wants to know no more has nobody asked.
    drop(place);
    lines.until_left().await;
}
