//! Ten thousand connections of those that are no peer: they take a bounded amount of memory,
//! and the peer that there is goes on being heard.

use std::{collections::VecDeque, fs, time::Duration};

use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use wad_policy::config::Peer;

use super::{End, at, hostile::Stage, until, with};
use crate::testing::named;

const CONNECTIONS: u32 = 10_000;
/// The hostile end has so many open; a test has not many descriptors.
const OPEN: usize = 300;
/// Far more than what is kept, and far less than what ten thousand connections would take.
const MOST_GROWTH_BYTES: u64 = 48 << 20;

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// All of 127.0.0.0/8 is the loopback.
async fn connect(number: u32, stage: &Stage) -> Option<TcpStream> {
    let from = (0x7f01_0000 + number % 1_000).to_be_bytes();
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind((from, 0).into()).ok()?;
    // Where nobody has accepted others yet, the kernel drops it.
    timeout(Duration::from_millis(200), socket.connect(stage.address())).await.ok()?.ok()
}

#[tokio::test]
async fn ten_thousand_connections_neither_fill_the_memory_nor_hold_up_a_peer() {
    let stage = Stage::new();
    let asked =
        Peer { address: at(&stage.a), every: Duration::from_secs(2), ..named("a", "a.example") };
    let b = End::start(&stage.good(), Some(&stage.authority), with(vec![asked]));
    b.hears("a").await;
    let (before, heard) = (resident_bytes(), stage.a.heard_count());
    let mut open = VecDeque::new();
    let mut connected = 0_u64;
    for number in 0..CONNECTIONS {
        let Some(stream) = connect(number, &stage).await else { continue };
        connected += 1;
        open.push_back(stream);
        if open.len() > OPEN {
            open.pop_front();
        }
    }
    // Some may have found the queue full.
    assert!(connected > u64::from(CONNECTIONS) * 9 / 10, "{connected}");
    until("the peer is heard", || (stage.a.heard_count() > heard).then_some(())).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < MOST_GROWTH_BYTES, "{grown} bytes more");
    drop(open);
    let counted = || {
        let refused = stage.a.board.told().refused;
        ["crowded", "slow", "tls"].iter().filter_map(|reason| refused.get(*reason)).sum::<u64>()
    };
    // Each has its reason; those that were let in and did nothing within their time.
    until("all are counted", || (counted() >= connected).then_some(())).await;
    let told = b.board.told();
    assert_eq!((told.peers[0].failed_count, &told.peers[0].failing), (0, &None), "{told:?}");
}
