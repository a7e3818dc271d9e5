//! Runs of probes are asked about over real TLS, by peers and nobody else.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use wad_policy::{
    config::{Peer, PeerAddress, ResourceLocks},
    reservation::{Question, Wish},
};
use wad_toolbox::mutex::locked;

use super::{
    End,
    hostile::{Stage, ask, post},
    in_folder, reply, two, until, with,
};
use crate::{
    credentials::{Credentials, Files},
    reservation::RESERVE,
    testing::{Authority, Kind, named},
};

fn offer(run: u64) -> Question {
    let lasts = Duration::from_secs(30);
    Question { run, wish: Wish::Offer { lasts, locks: ResourceLocks::FILLING } }
}

#[tokio::test]
async fn a_peer_is_asked_about_runs_and_answers() {
    let [a, b] = two(&Authority::new());
    b.hears("a").await;
    let asker = b.service.asker();
    let questions = [offer(7), Question { run: 7, wish: Wish::Commit }];
    for question in questions {
        assert_eq!(asker.ask("a", &question).await, Ok(reply(question)));
    }
    assert_eq!(*locked(&a.questions), questions.map(|question| ("b".to_owned(), question)));
    // Nothing of it counts as a word that was heard.
    assert!(b.board.told().peers[0].failing.is_none());
    let unknown = b.service.asker().ask("c", &offer(8)).await;
    assert_eq!(unknown, Err("it is not to be asked any more".to_owned()));
    // `b` has no address for it.
    assert!(a.service.asker().ask("b", &offer(8)).await.is_err());
    a.service.finish().await;
    let gone = asker.ask("a", &offer(9)).await.unwrap_err();
    assert!(gone.starts_with("cannot connect to 127.0.0.1:"), "{gone}");
    assert!(b.board.told().peers[0].failing.is_some());
}

#[tokio::test]
async fn questions_that_cannot_be_are_refused_and_counted() {
    let stage = Stage::new();
    let host = stage.good();
    for (body, status, reason) in [
        (r#"{"version":1,"run":1,"wish":"offer","lasts_ms":1e30}"#, 400, "malformed"),
        (r#"{"version":1,"run":1,"wish":"offer","lasts_ms":86400000}"#, 400, "out-of-range"),
        (r#"{"version":2,"run":1,"wish":"commit"}"#, 400, "version"),
        ("[]", 400, "malformed"),
    ] {
        let before = stage.a.refused_peer(reason);
        let answer = ask(&stage, &host, post(RESERVE, body).as_bytes()).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{reason}: {answer}");
        until(reason, || (stage.a.refused_peer(reason) == before + 1).then_some(())).await;
    }
    assert!(locked(&stage.a.questions).is_empty());
    let released = r#"{"version":1,"run":1,"wish":"release","more":[]}"#;
    let answer = ask(&stage, &host, post(RESERVE, released).as_bytes()).await.unwrap();
    assert!(answer.ends_with(r#"{"version":1,"reply":"granted"}"#), "{answer}");
}

/// It knows the peer, and nothing of runs.
#[tokio::test]
async fn an_older_peer_is_said_to_be_one() {
    let authority = Authority::new();
    let older = authority.host(&Kind::of("a.example", &["192.0.2.0/24"]));
    let folder = tempfile::tempdir().unwrap();
    older.write(folder.path());
    authority.write(folder.path());
    let settings = in_folder(folder.path(), with(vec![named("b", "b.example")]));
    let credentials = Credentials::new(&settings, &Files::read(&settings).unwrap()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::clone(&credentials.server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    let address = Some(PeerAddress { host: "127.0.0.1".to_owned(), port });
    let host = authority.host(&Kind::of("b.example", &[]));
    let asked = Peer { address, ..named("a", "a.example") };
    let b = End::start(&host, Some(&authority), with(vec![asked]));
    until("it is asked", || b.board.told().peers[0].failing.clone()).await;
    let answer = b.service.asker().ask("a", &offer(1)).await;
    assert_eq!(answer, Err("its wad is older, and keeps no locks".to_owned()));
    answering.abort();
}
