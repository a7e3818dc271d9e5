//! The board has what is known of the pods, for whoever wants to know.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tracing::{info, warn};
use wad_policy::pod::{Pod, Pods};
use wad_toolbox::mutex::locked;

use super::{Known, Origin};

/// Most pods of a node: of others nothing is known. Kubelets take 110, unless they are told
/// otherwise; those that have ended count until they are deleted.
pub const MOST_PODS: usize = 4096;

/// A change of one pod, by its uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Is(String, Pod),
    Gone(String),
}

/// Holds what is known.
pub struct Board {
    known: watch::Sender<Known>,
    reasons: Mutex<Reasons>,
}

/// Says why each of them does not answer.
#[derive(Default)]
struct Reasons {
    kubelet: Option<String>,
    api_server: Option<String>,
}

impl Board {
    pub fn new() -> (Self, watch::Receiver<Known>) {
        let (known, receiver) = watch::channel(Known::default());
        (Self { known, reasons: Mutex::default() }, receiver)
    }

    /// Waits until nobody wants to know any more.
    pub async fn is_left(&self) {
        self.known.closed().await;
    }

    /// Takes all pods that there are.
    pub fn takes(&self, origin: Origin, pods: Pods) {
        self.forget_reasons(origin);
        self.known.send_if_modified(|known| {
            let is_other = *known.pods != pods;
            if is_other {
                known.pods = Arc::new(pods);
            }
            set_origin(known, origin) || is_other
        });
    }

    /// Hears that what is known still comes from there.
    pub fn answers(&self, origin: Origin) {
        self.forget_reasons(origin);
        self.known.send_if_modified(|known| set_origin(known, origin));
    }

    /// Takes a change of one pod.
    pub fn changes(&self, change: Change) {
        self.known.send_if_modified(|known| apply(&mut known.pods, change));
    }

    /// While the kubelet answers, the API server is not asked.
    fn forget_reasons(&self, origin: Origin) {
        let mut reasons = locked(&self.reasons);
        match origin {
            Origin::Kubelet => *reasons = Reasons::default(),
            Origin::ApiServer => reasons.api_server = None,
        }
    }

    /// Notes why one of them does not answer. Where the other does, nothing changes by that;
    /// nor at the start, when the other may answer yet.
    pub fn fails(&self, origin: Origin, why: String) {
        let (lacking, is_of_both) = {
            let mut reasons = locked(&self.reasons);
            match origin {
                Origin::Kubelet => reasons.kubelet = Some(why),
                Origin::ApiServer => reasons.api_server = Some(why),
            }
            (reasons.lacking(), reasons.kubelet.is_some() && reasons.api_server.is_some())
        };
        self.known.send_if_modified(|known| {
            if known.origin.is_some_and(|current| current != origin) {
                return false;
            }
            let is_start = known.origin.is_none() && known.lacking.is_none();
            if is_start && !is_of_both {
                return false;
            }
            if known.lacking.is_none() {
                warn!(pods = known.pods.len(), "{lacking}; what was known last holds");
            }
            known.origin = None;
            let before = known.lacking.replace(lacking);
            before != known.lacking
        });
    }
}

impl Reasons {
    fn lacking(&self) -> String {
        let reasons: Vec<&str> =
            [&self.kubelet, &self.api_server].into_iter().flatten().map(String::as_str).collect();
        format!("pods of this node are not known: {}", reasons.join("; "))
    }
}

/// Returns whether it is another than before.
fn set_origin(known: &mut Known, origin: Origin) -> bool {
    let is_other = known.origin != Some(origin);
    if is_other {
        let from = match origin {
            Origin::Kubelet => "the kubelet",
            Origin::ApiServer => "the API server",
        };
        info!(pods = known.pods.len(), "pods of this node are learned from {from}");
        known.origin = Some(origin);
        known.lacking = None;
    }
    is_other
}

/// Returns whether anything has changed. They are copied if others still look at them.
fn apply(pods: &mut Arc<Pods>, change: Change) -> bool {
    match change {
        Change::Is(uid, pod) if pods.get(&uid) != Some(&pod) => {
            insert(Arc::make_mut(pods), uid, pod)
        }
        Change::Gone(uid) if pods.contains_key(&uid) => Arc::make_mut(pods).remove(&uid).is_some(),
        Change::Is(..) | Change::Gone(_) => false,
    }
}

/// Adds a pod, unless there are too many. Returns whether it did.
pub fn insert(pods: &mut Pods, uid: String, pod: Pod) -> bool {
    if pods.len() >= MOST_PODS && !pods.contains_key(&uid) {
        return false;
    }
    pods.insert(uid, pod);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Pod {
        Pod {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            labels: [].into(),
            containers: [].into(),
        }
    }

    #[test]
    fn there_are_at_most_so_many() {
        let (board, known) = Board::new();
        for n in 0..MOST_PODS + 10 {
            board.changes(Change::Is(n.to_string(), pod("a")));
        }
        assert_eq!(known.borrow().pods.len(), MOST_PODS);
        // Those that are known change still, and make room.
        board.changes(Change::Is("0".to_owned(), pod("b")));
        assert_eq!(known.borrow().pods["0"], pod("b"));
        board.changes(Change::Gone("0".to_owned()));
        board.changes(Change::Is("x".to_owned(), pod("c")));
        assert_eq!(known.borrow().pods["x"], pod("c"));
        assert_eq!(known.borrow().pods.len(), MOST_PODS);
    }

    #[test]
    fn who_holds_what_was_known_keeps_it() {
        let (board, known) = Board::new();
        board.takes(Origin::Kubelet, [("a".to_owned(), pod("a"))].into());
        let before = Arc::clone(&known.borrow().pods);
        board.changes(Change::Is("b".to_owned(), pod("b")));
        assert_eq!((before.len(), known.borrow().pods.len()), (1, 2));
    }

    #[test]
    fn reasons_are_those_of_now() {
        let (board, known) = Board::new();
        let lacking = || known.borrow().lacking.clone().unwrap_or_default();
        board.fails(Origin::ApiServer, "no server".to_owned());
        assert_eq!(lacking(), "");
        board.fails(Origin::Kubelet, "no kubelet".to_owned());
        assert_eq!(lacking(), "pods of this node are not known: no kubelet; no server");
        board.takes(Origin::ApiServer, Pods::new());
        assert_eq!((lacking().as_str(), known.borrow().origin), ("", Some(Origin::ApiServer)));
        // The one does not answer; but the other does.
        board.fails(Origin::Kubelet, "a stale socket".to_owned());
        assert_eq!(lacking(), "");
        board.fails(Origin::ApiServer, "broken".to_owned());
        assert_eq!(lacking(), "pods of this node are not known: a stale socket; broken");
        board.takes(Origin::Kubelet, Pods::new());
        board.fails(Origin::Kubelet, "ended".to_owned());
        assert_eq!(lacking(), "pods of this node are not known: ended");
        assert_eq!(known.borrow().origin, None);
    }
}
