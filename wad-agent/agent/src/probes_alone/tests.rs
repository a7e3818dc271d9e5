//! Services that are alone, on hosts that agree to each other's runs over real TLS on the
//! loopback.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tempfile::TempDir;
use tokio::time::sleep;
use wad_peers::{
    identity::NodeUri,
    make::{Folder, Wanted},
};
use wad_policy::{
    config::{Resource, ResourceLocks},
    reservation::{Question, Reply, Wish},
};
use wad_probing::{
    answers::{RUNS, Run, Runs},
    service::AskedRuns,
};

use super::*;
use crate::probes::NOW;

/// Whatever is waited for is there within this time, or never.
const PATIENCE: Duration = Duration::from_secs(50);
/// An offer that is not committed to is kept for so long.
const OFFER: Duration = Duration::from_secs(5);

/// Three hosts: two that measure the third, which measures as well.
struct Hosts {
    folder: TempDir,
    /// Where the third listens: no other test, nor this one in another process, has the address.
    address: SocketAddr,
}

impl Hosts {
    fn new(test: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = (Ipv4Addr::new(127, 100 + test, high, low.max(1)), 4825).into();
        let authority = Folder::new(folder.path().join("peer"));
        let wanted = |name: &str| Wanted {
            node: NodeUri { name: name.to_owned(), prefixes: Vec::new() },
            days: 30,
        };
        authority.init(&wanted("authority")).unwrap();
        for name in ["a", "b", "c"] {
            authority.issue(&wanted(name), false).unwrap();
        }
        Self { folder, address }
    }

    /// Starts a service. Its only task takes half a second and has its interface, path and the
    /// other end for itself.
    fn start(&self, name: &str, peers: &str, of_task: &str) -> Alone {
        let files = self.folder.path().join("peer/issued").join(name);
        let files = files.display();
        let listen =
            if name == "c" { format!("listen = '{}'", self.address) } else { String::new() };
        let text = format!(
            "[peers]\n{listen}\ncertificate = '{files}/host.crt'\nkey = '{files}/host.key'\n\
             ca = '{files}/ca.crt'\n{peers}\n\
             [[probe.task]]\nname = '{name}'\nhost = '127.0.0.1'\ntool = 'command'\n\
             command = ['/bin/sh', '-c', 'sleep 0.5; echo {{\\\"path_mtu_bytes\\\":1500}}']\n\
             every = '7d'\ntimeout = '10s'\n{of_task}\n"
        );
        let config = Config::parse("wad.toml", &text, &Host::default()).unwrap();
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        let mut alone = Alone::new(archive(&folder, name), name);
        alone.follow(&config).unwrap();
        alone
    }

    /// Starts one that asks the third.
    fn asking(&self, name: &str) -> Alone {
        let peers =
            format!("[[peer]]\nname = 'c'\naddress = '{}'\nidentity = 'wad://c'\n", self.address);
        self.start(name, &peers, "peer = 'c'")
    }

    fn asked(&self) -> Alone {
        let peer = |name| format!("[[peer]]\nname = '{name}'\nidentity = 'wad://{name}'\n");
        self.start("c", &(peer("a") + &peer("b")), "")
    }
}

async fn ask(router: Router, request: Request) -> Vec<u8> {
    let answer = TowerToHyperService::new(router).call(request).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    to_bytes(answer.into_body(), 1 << 20).await.unwrap().to_vec()
}

/// Has the task of a service run now.
async fn run(alone: &Alone, task: &str) {
    let body = Body::from(format!("[\"{task}\"]"));
    let request = Request::post(NOW).header("content-type", "application/json").body(body);
    let answer = ask(alone.probes.desk().orders(), request.unwrap()).await;
    let AskedRuns { asked } = serde_json::from_slice(&answer).unwrap();
    assert_eq!(asked.len(), 1);
}

/// Waits until a service has so many rows, and returns them.
async fn rows(alone: &Alone, count: usize) -> Vec<Run> {
    let begun = Instant::now();
    loop {
        let request = Request::get(RUNS).body(Body::empty()).unwrap();
        let answer = ask(alone.probes.desk().queries(), request).await;
        let Runs { runs } = serde_json::from_slice(&answer).unwrap();
        if runs.len() >= count {
            return runs;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {count} of {runs:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Offers a run to the third host, and retries until there is a reply: the third host may not listen
/// yet, and `[peers]` of this one may not be applied yet. Returns the time of the offer, and the reply.
async fn offered(alone: &Alone, run: u64, wish: Wish) -> (Instant, Reply) {
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        match (alone.peers.ask())("c".into(), Question { run, wish }).await {
            Ok(reply) => return (asked, reply),
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn reservations(alone: &Alone) -> wad_probing::schedule::Reservations {
    alone.probes.desk().outlook().unwrap().reservations
}

#[tokio::test]
async fn runs_that_want_the_same_host_for_themselves_never_overlap() {
    let hosts = Hosts::new(0);
    let c = hosts.asked();
    let all = [&c, &hosts.asking("a"), &hosts.asking("b")];
    tokio::join!(run(all[1], "a"), run(all[2], "b"), run(&c, "c"));
    let mut runs = Vec::new();
    for alone in all {
        runs.extend(rows(alone, 1).await);
    }
    let mut spans: Vec<_> = runs
        .iter()
        .map(|run| {
            assert_eq!(run.ending, "measured", "{run:?}");
            let started = run.started.unwrap().as_duration();
            (started, started + jiff::SignedDuration::from_secs_f64(run.took_seconds))
        })
        .collect();
    spans.sort();
    assert!(spans.len() >= 3, "{runs:?}");
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    let (counts, of_a) = (reservations(&c), reservations(all[1]));
    assert!(counts.given >= 2, "{counts:?}");
    assert!(of_a.granted >= 1 && of_a.unanswered == 0, "{of_a:?}");
    // Each has said that it is over.
    assert_eq!(counts.expired, 0, "{counts:?}");
}

#[tokio::test]
async fn locks_for_one_that_died_after_its_offer_go_when_that_has_expired() {
    let hosts = Hosts::new(1);
    let c = hosts.asked();
    let [a, b] = ["a", "b"].map(|name| hosts.asking(name));
    let wish = Wish::Offer { lasts: Duration::from_secs(3_600), locks: ResourceLocks::FILLING };
    let (granted, reply) = offered(&a, 1, wish).await;
    assert_eq!(reply, Reply::Granted);
    drop(a);
    // Nobody says any more of it. What `c` wants itself waits.
    run(&c, "c").await;
    let held = Reply::Held { lock: Resource::Interface, holder: None };
    assert_eq!(offered(&b, 1, wish).await.1, held);
    let [row] = &rows(&c, 1).await[..] else { panic!("one run") };
    assert_eq!(row.ending, "measured", "{row:?}");
    let waited = row.started.unwrap().duration_since(row.period).as_secs_f64();
    let most = granted.elapsed().as_secs_f64() - row.took_seconds;
    assert!((OFFER.as_secs_f64() - 1.0..=most).contains(&waited), "{waited} of {most}");
    assert_eq!((reservations(&c).expired, reservations(&c).held), (1, 0));
    assert_eq!(offered(&b, 2, wish).await.1, Reply::Granted);
}
