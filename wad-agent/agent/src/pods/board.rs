//! The board has what is known of the pods, for whoever wants to know.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
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

/// Holds what each of them tells, and gives on what counts of that.
pub struct Board {
    known: watch::Sender<Known>,
    sides: Mutex<Sides>,
}

#[derive(Default)]
struct Sides {
    api_server: Side,
    kubelet: Side,
}

/// One of them, with what it has told.
#[derive(Default)]
struct Side {
    pods: Arc<Pods>,
    state: State,
}

#[derive(Default)]
enum State {
    /// It has not answered yet.
    #[default]
    Asked,
    Answers,
    Fails(String),
}

impl Board {
    /// Makes one on which those pods stand that were known before.
    pub fn new(before: Arc<Pods>) -> (Self, watch::Receiver<Known>) {
        let (known, receiver) = watch::channel(Known { pods: before, ..Known::default() });
        (Self { known, sides: Mutex::default() }, receiver)
    }

    /// Waits until nobody wants to know any more.
    pub async fn is_left(&self) {
        self.known.closed().await;
    }

    /// Takes all pods that there are.
    pub fn takes(&self, origin: Origin, pods: Pods) {
        self.hear(origin, |side| *side = Side { pods: Arc::new(pods), state: State::Answers });
    }

    /// Hears that what it has told still holds.
    pub fn answers(&self, origin: Origin) {
        self.hear(origin, |side| side.state = State::Answers);
    }

    /// Takes a change of one pod.
    pub fn changes(&self, origin: Origin, change: Change) {
        self.hear(origin, |side| apply(&mut side.pods, change));
    }

    /// Takes the labels that pods have by now, of those that it has told of.
    pub fn labels(&self, origin: Origin, pods: Pods) {
        self.hear(origin, |side| {
            for (uid, Pod { labels, .. }) in pods {
                if side.pods.get(&uid).is_some_and(|pod| pod.labels != labels)
                    && let Some(pod) = Arc::make_mut(&mut side.pods).get_mut(&uid)
                {
                    pod.labels = labels;
                }
            }
        });
    }

    /// Notes why it does not answer.
    pub fn fails(&self, origin: Origin, why: String) {
        self.hear(origin, |side| side.state = State::Fails(why));
    }

    fn hear(&self, origin: Origin, change: impl FnOnce(&mut Side)) {
        let mut sides = locked(&self.sides);
        change(match origin {
            Origin::ApiServer => &mut sides.api_server,
            Origin::Kubelet => &mut sides.kubelet,
        });
        self.known.send_if_modified(|known| {
            let (origin, pods) = match sides.first() {
                Some((origin, side)) => (Some(origin), Arc::clone(&side.pods)),
                None => (None, Arc::clone(&known.pods)),
            };
            let next = Known { pods, origin, lacking: sides.lacking() };
            let is_other = *known != next;
            *known = next;
            is_other
        });
    }
}

impl Sides {
    /// Returns the first of those that answer.
    fn first(&self) -> Option<(Origin, &Side)> {
        [(Origin::ApiServer, &self.api_server), (Origin::Kubelet, &self.kubelet)]
            .into_iter()
            .find(|(_, side)| matches!(side.state, State::Answers))
    }

    /// Says why both fail, if they do.
    fn lacking(&self) -> Option<String> {
        match (&self.kubelet.state, &self.api_server.state) {
            (State::Fails(kubelet), State::Fails(api_server)) => {
                Some(format!("pods of this node are not known: {kubelet}; {api_server}"))
            }
            _ => None,
        }
    }
}

/// Changes them. They are copied if others still look at them.
fn apply(pods: &mut Arc<Pods>, change: Change) {
    match change {
        Change::Is(uid, pod) if pods.get(&uid) != Some(&pod) => {
            insert(Arc::make_mut(pods), uid, pod);
        }
        Change::Gone(uid) if pods.contains_key(&uid) => {
            Arc::make_mut(pods).remove(&uid);
        }
        Change::Is(..) | Change::Gone(_) => {}
    }
}

/// Adds a pod, unless there are too many.
pub fn insert(pods: &mut Pods, uid: String, pod: Pod) {
    if pods.len() < MOST_PODS || pods.contains_key(&uid) {
        pods.insert(uid, pod);
    }
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
        let (board, known) = Board::new(Arc::default());
        board.takes(Origin::Kubelet, Pods::new());
        let changes = |change| board.changes(Origin::Kubelet, change);
        for n in 0..MOST_PODS + 10 {
            changes(Change::Is(n.to_string(), pod("a")));
        }
        assert_eq!(known.borrow().pods.len(), MOST_PODS);
        // Those that are known change still, and make room.
        changes(Change::Is("0".to_owned(), pod("b")));
        assert_eq!(known.borrow().pods["0"], pod("b"));
        changes(Change::Gone("0".to_owned()));
        changes(Change::Is("x".to_owned(), pod("c")));
        assert_eq!(known.borrow().pods["x"], pod("c"));
        assert_eq!(known.borrow().pods.len(), MOST_PODS);
    }

    #[test]
    fn what_was_known_before_holds_until_somebody_answers() {
        let before = Arc::new(Pods::from([("a".to_owned(), pod("a"))]));
        let (board, known) = Board::new(Arc::clone(&before));
        board.fails(Origin::ApiServer, "no server".to_owned());
        board.fails(Origin::Kubelet, "no kubelet".to_owned());
        let Known { pods, origin, lacking } = known.borrow().clone();
        assert!(pods == before && origin.is_none() && lacking.is_some());
        board.takes(Origin::Kubelet, Pods::new());
        assert!(known.borrow().pods.is_empty());
    }

    #[test]
    fn who_holds_what_was_known_keeps_it() {
        let (board, known) = Board::new(Arc::default());
        board.takes(Origin::Kubelet, [("a".to_owned(), pod("a"))].into());
        let before = Arc::clone(&known.borrow().pods);
        board.changes(Origin::Kubelet, Change::Is("b".to_owned(), pod("b")));
        assert_eq!((before.len(), known.borrow().pods.len()), (1, 2));
    }

    #[test]
    fn labels_are_those_of_pods_that_are_known() {
        let (board, known) = Board::new(Arc::default());
        board.takes(Origin::Kubelet, [("a".to_owned(), pod("a"))].into());
        let labels = [("app".to_owned(), "dtn".to_owned())];
        let told = |name| Pod { labels: labels.clone().into(), ..pod(name) };
        // One of them has gone meanwhile, and the name is no label.
        let list = [("a".to_owned(), told("x")), ("gone".to_owned(), told("gone"))];
        board.labels(Origin::Kubelet, list.into());
        assert_eq!(*known.borrow().pods, [("a".to_owned(), told("a"))].into());
    }

    #[test]
    fn the_api_server_goes_first_and_reasons_are_those_of_both() {
        let (board, known) = Board::new(Arc::default());
        let lacking = || known.borrow().lacking.clone().unwrap_or_default();
        let now = || (known.borrow().origin, known.borrow().pods.keys().cloned().collect());
        let pods = |uid: &str| Pods::from([(uid.to_owned(), pod(uid))]);
        let is = |origin, uid: &str| (origin, vec![uid.to_owned()]);
        board.fails(Origin::ApiServer, "no server".to_owned());
        // The other may answer still.
        assert_eq!(lacking(), "");
        board.fails(Origin::Kubelet, "no kubelet".to_owned());
        assert_eq!(lacking(), "pods of this node are not known: no kubelet; no server");
        board.takes(Origin::Kubelet, pods("k"));
        assert_eq!((lacking().as_str(), now()), ("", is(Some(Origin::Kubelet), "k")));
        board.takes(Origin::ApiServer, pods("a"));
        assert_eq!(now(), is(Some(Origin::ApiServer), "a"));
        board.takes(Origin::Kubelet, pods("l"));
        board.fails(Origin::Kubelet, "a stale socket".to_owned());
        assert_eq!((lacking().as_str(), now()), ("", is(Some(Origin::ApiServer), "a")));
        board.answers(Origin::Kubelet);
        board.fails(Origin::ApiServer, "broken".to_owned());
        assert_eq!(now(), is(Some(Origin::Kubelet), "l"));
        board.fails(Origin::Kubelet, "ended".to_owned());
        assert_eq!(lacking(), "pods of this node are not known: ended; broken");
        assert_eq!(now(), is(None, "l"));
    }
}
