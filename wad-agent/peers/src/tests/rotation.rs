//! Keys, certificates and authorities are replaced while peers talk: nothing is dropped, and
//! what cannot be used is not.

use std::{fs, time::Duration};

use wad_policy::config::{Peer, Peers};

use super::{End, any, at, until, with};
use crate::{
    identity::NodeUri,
    make::{Folder, Wanted},
    testing::{Authority, Kind, named, nets, pem},
};

/// As often as a peer may ask.
const EVERY: Duration = Duration::from_millis(1_100);

fn node(name: &str, prefixes: &[&str]) -> Wanted {
    Wanted { node: NodeUri { name: name.to_owned(), prefixes: nets(prefixes) }, days: 30 }
}

#[tokio::test]
async fn keys_are_replaced_under_traffic_and_nothing_drops() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::new(root.path().to_owned());
    folder.init(&node("a.example", &["192.0.2.0/24"])).unwrap();
    let (issued, _) = folder.issue(&node("b.example", &["198.51.100.0/24"]), false).unwrap();
    let of_b = tempfile::tempdir().unwrap();
    for name in ["host.key", "host.crt", "ca.crt"] {
        fs::copy(issued.join(name), of_b.path().join(name)).unwrap();
    }
    let peer = Peer { every: EVERY, ..named("b", "b.example") };
    let a = End::start_in(root, Peers { listen: any(), ..with(vec![peer]) });
    let asked = Peer { address: at(&a), every: EVERY, ..named("a", "a.example") };
    let b = End::start_in(of_b, with(vec![asked]));
    b.hears("a").await;
    let key = |end: &End| end.board.told().own.unwrap().key;
    for _ in 0..2 {
        let (before, heard) = (key(&a), a.heard_count());
        folder.rotate(30, false).unwrap();
        until("another key is in use", || (key(&a) != before).then_some(())).await;
        // The other end, by hand: one file after the other.
        let before = key(&b);
        folder.issue(&node("b.example", &["198.51.100.0/24"]), true).unwrap();
        for name in ["host.crt", "host.key"] {
            fs::copy(issued.join(name), b.folder.path().join(name)).unwrap();
        }
        until("another key is in use", || (key(&b) != before).then_some(())).await;
        until("they go on", || (a.heard_count() >= heard + 2).then_some(())).await;
    }
    for end in [&a, &b] {
        let told = end.board.told();
        assert_eq!((told.peers[0].failed_count, &told.peers[0].failing), (0, &None), "{told:?}");
        assert!(told.refused.is_empty() && told.peers[0].refused.is_empty(), "{told:?}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told_of_and_those_before_are_used() {
    let authority = Authority::new();
    let [mut a, b] = super::two(&authority);
    a.hears("b").await;
    let key = a.board.told().own.unwrap().key;
    fs::write(a.folder.path().join("host.crt"), "no certificate").unwrap();
    let why = until("it is told", || a.board.told().files_failing).await;
    assert!(why.contains("host.crt holds no certificate"), "{why}");
    let told = a.board.told();
    assert_eq!((told.file_errors, told.own.unwrap().key), (1, key));
    // Of another key than the one beside it.
    let other = authority.host(&Kind::of("a.example", &["192.0.2.0/24"]));
    let pem = pem("CERTIFICATE", &other.der);
    fs::write(a.folder.path().join("host.crt"), pem).unwrap();
    until("that is told", || {
        a.board.told().files_failing.filter(|why| why.contains("is not of the certificate"))
    })
    .await;
    assert!(a.heard_of("b").is_some());
    // Both go together again.
    other.write(a.folder.path());
    until("the new ones are used", || {
        let told = a.board.told();
        (told.files_failing.is_none() && told.own?.key == other.pin().to_string()).then_some(())
    })
    .await;
    // With files that could never be used, nobody is heard, and it goes on by itself.
    fs::remove_file(a.folder.path().join("ca.crt")).unwrap();
    a.change(Peers { listen: any(), ..with(vec![named("b", "b.example")]) });
    assert!(until("it is told", || a.board.told().files_failing).await.contains("ca.crt"));
    authority.write(a.folder.path());
    until("they are used", || a.board.told().files_failing.is_none().then_some(())).await;
    drop(b);
}
