//! Two ends that talk over real TLS on the loopback, and those that should not be heard.

mod hostile;
mod many;
mod reserving;
mod rotation;

use std::{
    future::ready,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::time::sleep;
use wad_policy::{
    config::{Peer, PeerAddress, PeerConsent, Peers, Resource},
    heard::{Direction, Heard, Said, Source, Value},
    reservation::{Question, Reply, Wish},
};
use wad_toolbox::mutex::locked;

use crate::{
    Board, Reserve, Say, Service, Towards,
    testing::{Authority, Host, Kind, named, nets, own_files, pinned},
};

/// As often as a peer may ask in the long run.
const EVERY: Duration = Duration::from_secs(1);
/// Whatever is waited for is there within this time, or never.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end that talks, with its files.
struct End {
    service: Service,
    board: Board,
    folder: TempDir,
    address: Option<SocketAddr>,
    /// Whom it has said something to.
    towards: Arc<Mutex<Vec<Towards>>>,
    /// Which runs it was asked about, and by whom.
    questions: Arc<Mutex<Vec<(String, Question)>>>,
}

impl End {
    fn start(host: &Host, authority: Option<&Authority>, settings: Peers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        host.write(folder.path());
        authority.inspect(|authority| authority.write(folder.path()));
        Self::start_in(folder, settings)
    }

    fn start_in(folder: TempDir, settings: Peers) -> Self {
        let (towards, board) = (Arc::new(Mutex::new(Vec::new())), Board::default());
        let to = Arc::clone(&towards);
        let say: Say = Arc::new(move |towards| {
            locked(&to).push(towards.clone());
            said()
        });
        let questions = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::clone(&questions);
        let reserve: Reserve = Arc::new(move |peer, question| {
            locked(&asked).push((peer, question));
            Box::pin(ready(reply(question)))
        });
        let mut service = Service::start(say, reserve, board.clone()).unwrap();
        let ready = service.prepare(&in_folder(folder.path(), settings)).unwrap();
        let address = ready.address();
        service.put_in_force(ready);
        Self { service, board, folder, address, towards, questions }
    }

    fn change(&mut self, settings: Peers) {
        let ready = self.service.prepare(&in_folder(self.folder.path(), settings)).unwrap();
        self.service.put_in_force(ready);
    }

    fn heard_of(&self, name: &str) -> Option<Heard> {
        self.board.heard().into_iter().find(|heard| heard.peer == name)
    }

    async fn hears(&self, name: &str) -> Heard {
        until(&format!("{name} is heard"), || self.heard_of(name)).await
    }

    /// Refusals of those that are no peer.
    fn refused(&self, reason: &str) -> u64 {
        self.board.told().refused.get(reason).copied().unwrap_or(0)
    }

    /// Refusals of the first peer.
    fn refused_peer(&self, reason: &str) -> u64 {
        self.board.told().peers[0].refused.get(reason).copied().unwrap_or(0)
    }

    fn heard_count(&self) -> u64 {
        self.board.told().peers[0].heard_count
    }
}

/// Has the files be in a folder.
fn in_folder(folder: &Path, settings: Peers) -> Peers {
    let Peers { identity, ca, .. } = own_files(folder);
    Peers { identity, ca: settings.ca.and(ca), ..settings }
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn said() -> Said {
    let window = Value { value: 8 << 20, age: Duration::ZERO, source: Source::File };
    Said {
        nic_bits_per_second: Some(10e9),
        mtu_bytes: Some(9_000),
        sending: Direction { wanted_window_bytes: Some(window), ..Direction::default() },
        ..Said::default()
    }
}

/// Refuses offers, and nothing else.
fn reply(question: Question) -> Reply {
    match question.wish {
        Wish::Offer { .. } => {
            Reply::Held { lock: Resource::HostCpu, holder: Some("nightly".to_owned()) }
        }
        Wish::Commit | Wish::Release => Reply::Granted,
    }
}

fn any() -> Option<SocketAddr> {
    Some(([127, 0, 0, 1], 0).into())
}

fn at(end: &End) -> Option<PeerAddress> {
    let address = end.address.unwrap();
    Some(PeerAddress { host: address.ip().to_string(), port: address.port() })
}

/// Settings with these peers, and an authority.
fn with(peers: Vec<Peer>) -> Peers {
    Peers { peers, ..own_files(Path::new("/")) }
}

/// Two ends of one authority: the second asks the first.
fn two(authority: &Authority) -> [End; 2] {
    let a = authority.host(&Kind::of("a.example", &["192.0.2.0/24"]));
    let b = authority.host(&Kind::of("b.example", &["198.51.100.0/24", "2001:db8::/48"]));
    let listening = Peers { listen: any(), ..with(vec![named("b", "b.example")]) };
    let a = End::start(&a, Some(authority), listening);
    let asked = Peer { address: at(&a), every: EVERY, ..named("a", "a.example") };
    let b = End::start(&b, Some(authority), with(vec![asked]));
    [a, b]
}

#[tokio::test]
async fn two_ends_hear_each_other_by_one_connection() {
    let [a, b] = two(&Authority::new());
    let (of_a, of_b) = (b.hears("a").await, a.hears("b").await);
    assert_eq!(of_a.prefixes, nets(&["192.0.2.0/24"]));
    assert_eq!(of_b.prefixes, nets(&["198.51.100.0/24", "2001:db8::/48"]));
    for heard in [&of_a, &of_b] {
        assert_eq!(heard.said.sending, said().sending);
        assert_eq!(heard.own_nic_bits_per_second, Some(10e9));
        assert_eq!(heard.said.consent, None);
    }
    assert_eq!(of_a.said.node.as_deref(), Some("a.example"));
    let towards = locked(&a.towards)[0].clone();
    assert_eq!((&*towards.peer, towards.remote), ("b", [127, 0, 0, 1].into()));
    assert_eq!(towards.prefixes, of_b.prefixes);
    let told = a.board.told();
    let days = told.peers[0].certificate_ends_in_seconds.unwrap() / 86_400.0;
    assert!((300.0..366.0).contains(&days), "{days}");
    assert_eq!(told.own.unwrap().name.as_deref(), Some("a.example"));
    assert!(told.refused.is_empty());
}

#[tokio::test]
async fn ends_without_an_authority_know_each_other_by_their_keys() {
    // Each is of an authority that the other does not know.
    let hosts = ["a.example", "b.example"]
        .map(|name| Authority::new().host(&Kind::of(name, &["10.0.0.0/8"])));
    let keyed = |peers| Peers { ca: None, ..with(peers) };
    let of_b = |prefix| {
        let peer = pinned("b", hosts[1].pin(), &[prefix]);
        Peers { listen: any(), ..keyed(vec![peer]) }
    };
    let mut a = End::start(&hosts[0], None, of_b("10.2.0.0/16"));
    let of_a = pinned("a", hosts[0].pin(), &["10.1.0.0/16"]);
    let asked = Peer { address: at(&a), every: EVERY, ..of_a };
    let b = End::start(&hosts[1], None, keyed(vec![asked]));
    // Each says that it speaks for more: that much of it is in the file.
    assert_eq!(b.hears("a").await.prefixes, nets(&["10.1.0.0/16"]));
    assert_eq!(a.hears("b").await.prefixes, nets(&["10.2.0.0/16"]));
    a.change(of_b("198.51.100.0/24"));
    until("b is refused", || (a.refused_peer("prefix") > 0).then_some(())).await;
    assert!(a.heard_of("b").is_none());
}

#[tokio::test]
async fn a_consent_ends_when_the_file_does_not_give_it_any_more() {
    let [mut a, b] = two(&Authority::new());
    assert_eq!(b.hears("a").await.said.consent, None);
    let settings = |consent| {
        let peer = Peer { consent, ..named("b", "b.example") };
        Peers { listen: any(), ..with(vec![peer]) }
    };
    let consent = PeerConsent {
        max_bits_per_second: Some(5_000_000_000),
        until: None,
        // One of its own, and another's.
        prefixes: Some(nets(&["192.0.2.0/25", "203.0.113.0/24"])),
    };
    a.change(settings(Some(consent)));
    let consent = until("a consent", || b.heard_of("a")?.said.consent).await;
    assert_eq!(consent.max_bits_per_second, Some(5e9));
    assert_eq!(consent.prefixes, nets(&["192.0.2.0/25"]));
    a.change(settings(None));
    until("no consent", || b.heard_of("a")?.said.consent.is_none().then_some(())).await;
}

#[tokio::test]
async fn whoever_is_not_in_the_file_any_more_is_not_heard() {
    let authority = Authority::new();
    let [mut a, b] = two(&authority);
    let mut changes = a.board.changes();
    a.hears("b").await;
    changes.mark_unchanged();
    a.change(Peers { listen: any(), ..with(vec![named("c", "c.example")]) });
    assert!(changes.has_changed().unwrap() && a.board.heard().is_empty());
    until("b is a stranger", || (a.refused("stranger") > 0).then_some(())).await;
    until("b is told", || b.board.told().peers[0].failing.clone()).await;
    // What it heard counts for its time.
    assert!(b.heard_of("a").is_some());
    a.service.finish().await;
    b.service.finish().await;
}

#[tokio::test]
async fn an_answer_of_another_peer_is_not_heard() {
    let authority = Authority::new();
    let [a, _b] = two(&authority);
    let host = authority.host(&Kind::of("b.example", &[]));
    let wrong = Peer { address: at(&a), ..named("c", "c.example") };
    let peers = vec![wrong, named("a", "a.example")];
    let c = End::start(&host, Some(&authority), with(peers));
    until("it is another", || (c.refused_peer("other-peer") > 0).then_some(())).await;
    assert!(c.board.heard().is_empty());
}
