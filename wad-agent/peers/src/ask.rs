//! Asks peers: one connection for each exchange, which tells the peer what this end says, and
//! this end what the peer does; and one for each question about a run of a probe.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::Full;
use hyper::{
    Method, Request,
    body::Bytes,
    header::{CONTENT_TYPE, HOST, USER_AGENT},
};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self,
        pki_types::{ServerName, UnixTime},
    },
};
use wad_http::{Body, HttpError, connect::connect, names, shown};
use wad_policy::{
    config::{Peer, PeerAddress},
    reservation::{ANSWERS_WITHIN, Question, Reply},
};
use wad_toolbox::{back_off::back_off, causes::told, chance::chance};

use crate::{
    common::{Common, InForce},
    credentials::Credentials,
    identity::{Judged, Role, refusal_of},
    message::{EXCHANGE, MAX_BYTES, Statement},
    refusal::Refusal,
    reservation::{RESERVE, read_reply, write_question},
};

/// An exchange is over within this time, the look-up of the name included.
const EXCHANGE_TIME: Duration = Duration::from_secs(20);
/// Part of a period that is up to chance, so that peers are not all asked at once.
const JITTER: f64 = 0.1;
/// The first exchanges are within this time, in the same way.
const FIRST_WITHIN: Duration = Duration::from_millis(500);
/// Until it is looked again whether there are files that can be used.
const FILES_WAIT: Duration = Duration::from_millis(500);

/// The status for a path that an agent does not know.
const NOT_FOUND: u16 = 404;

/// Says why an exchange, or a question, did not come about.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("no address of {host}")]
    Resolve { host: String, source: std::io::Error },
    #[error("cannot connect to {address}")]
    Connect { address: PeerAddress, source: std::io::Error },
    #[error("no TLS with {address}")]
    Tls { address: PeerAddress, source: std::io::Error },
    #[error("the other end does not hear this one")]
    NotHeard(#[source] HttpError),
    #[error("the other end does not hear this one: {reason} ({status})")]
    Status { status: u16, reason: String },
    #[error("its wad is older, and keeps no locks")]
    Older,
    #[error("no whole answer within {} s", EXCHANGE_TIME.as_secs())]
    Timeout,
}

/// Asks the peer at this place of the file, again and again, for as long as anybody waits.
pub async fn keep_asking(common: Arc<Common>, place: usize) {
    sleep(FIRST_WITHIN.mul_f64(chance())).await;
    let mut failures = 0;
    loop {
        let Some(in_force) = common.in_force() else { return };
        let Some((peer, address)) = asked(&in_force, place) else { return };
        let Some(credentials) = &in_force.credentials else {
            sleep(FILES_WAIT).await;
            continue;
        };
        let begun = Instant::now();
        let exchanged = exchange(&common, (peer, place), address, credentials);
        let exchanged = timeout(EXCHANGE_TIME, exchanged).await.unwrap_or(Err(AskError::Timeout));
        let wait = match exchanged {
            Ok(()) => {
                failures = 0;
                let period = peer.every.mul_f64(1.0 - JITTER * chance());
                period.saturating_sub(begun.elapsed())
            }
            Err(error) => {
                note(&common, (peer, address), &error);
                failures += 1;
                back_off(failures)
            }
        };
        drop(in_force);
        sleep(wait).await;
    }
}

/// Returns the peer at a place, and where it is asked, if it is.
pub fn asked(in_force: &InForce, place: usize) -> Option<(&Peer, &PeerAddress)> {
    let peer = in_force.settings.peers.get(place)?;
    Some((peer, peer.address.as_ref()?))
}

/// Counts that an exchange or a question did not come about.
fn note(common: &Common, (peer, address): (&Peer, &PeerAddress), error: &AskError) {
    match error {
        AskError::Refused(refusal) => common.board.refuse(Some(peer), *refusal, address),
        other => common.board.fail(peer, told(other)),
    }
}

/// Asks peers about runs of probes, as the settings in force have them.
#[derive(Clone)]
pub struct Asker(Arc<Common>);

impl Asker {
    pub(crate) fn new(common: &Arc<Common>) -> Self {
        Self(Arc::clone(common))
    }

    /// Asks the peer of this name. Must be called within a runtime of tokio.
    ///
    /// # Errors
    /// The reason for which there is no answer.
    pub async fn ask(&self, name: &str, question: &Question) -> Result<Reply, String> {
        let in_force = self.0.in_force().ok_or("[peers] is not in force yet")?;
        let place = in_force.settings.peers.iter().position(|peer| peer.name == name);
        let asked = place.and_then(|place| Some((place, asked(&in_force, place)?)));
        let (place, (peer, address)) = asked.ok_or("it is not to be asked any more")?;
        let credentials = in_force.credentials.as_ref();
        let credentials = credentials.ok_or("the files of [peers] cannot be used")?;
        let answered = async {
            let (stream, ..) = open(place, address, credentials).await?;
            let body = match post(stream, address, RESERVE, write_question(question)).await {
                Err(AskError::Status { status: NOT_FOUND, .. }) => return Err(AskError::Older),
                body => body?,
            };
            Ok(read_reply(&body)?)
        };
        let answered = timeout(ANSWERS_WITHIN, answered).await.unwrap_or(Err(AskError::Timeout));
        answered.map_err(|error| {
            // That is known by then, and nothing is wrong with it.
            if !matches!(error, AskError::Older) {
                note(&self.0, (peer, address), &error);
            }
            told(&error)
        })
    }
}

async fn exchange(
    common: &Common,
    (peer, place): (&Peer, usize),
    address: &PeerAddress,
    credentials: &Credentials,
) -> Result<(), AskError> {
    let (stream, judged, remote) = open(place, address, credentials).await?;
    let own = common.statement(peer, credentials, (&judged, remote)).await;
    let own_nic = own.said.nic_bits_per_second;
    let body = post(stream, address, EXCHANGE, own.write()).await?;
    common.board.hear((peer, &judged), Statement::read(&body)?, own_nic)?;
    Ok(())
}

/// Connects with the peer at this place of the file, and makes sure that it is.
async fn open(
    place: usize,
    address: &PeerAddress,
    credentials: &Credentials,
) -> Result<(TlsStream<TcpStream>, Judged, IpAddr), AskError> {
    let PeerAddress { host, port } = address;
    let addresses = names::addresses(host, *port).await;
    let addresses = addresses.map_err(|source| AskError::Resolve { host: host.clone(), source })?;
    let failed = |source| AskError::Connect { address: address.clone(), source };
    let stream = connect(addresses).await.map_err(failed)?;
    let remote = stream.peer_addr().map_err(failed)?.ip();
    stream.set_nodelay(true).map_err(failed)?;
    let client = credentials.clients.get(place).ok_or(Refusal::Stranger)?;
    let connector = TlsConnector::from(Arc::clone(client));
    // It is judged by its certificate alone.
    let stream = connector.connect(ServerName::IpAddress(remote.into()), stream).await;
    let stream = stream.map_err(|source| refused(source, address))?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let judged = credentials.judge.judge(chain, Role::Answers, UnixTime::now())?;
    if judged.peer != place {
        return Err(Refusal::OtherPeer.into());
    }
    Ok((stream, judged, remote))
}

/// Sends a body to a path, and returns that of the answer.
async fn post(
    stream: TlsStream<TcpStream>,
    address: &PeerAddress,
    path: &str,
    body: Vec<u8>,
) -> Result<Bytes, AskError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, address.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("wad/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body.into()))
        .map_err(|_| Refusal::Request)?;
    let opened = Body::open(Box::new(stream), request).await;
    let (head, body) = opened.map_err(AskError::NotHeard)?;
    let body = match body.whole(MAX_BYTES).await {
        Err(HttpError::TooLarge { .. }) => return Err(Refusal::TooLarge.into()),
        body => body.map_err(AskError::NotHeard)?,
    };
    if !head.status.is_success() {
        let text = String::from_utf8_lossy(&body);
        let reason = shown(text.lines().next().unwrap_or_default());
        return Err(AskError::Status { status: head.status.as_u16(), reason });
    }
    Ok(body)
}

/// A certificate that is refused here, or a connection that ended.
fn refused(source: std::io::Error, address: &PeerAddress) -> AskError {
    let error = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match error {
        Some(error @ rustls::Error::InvalidCertificate(_)) => refusal_of(error).into(),
        _ => AskError::Tls { address: address.clone(), source },
    }
}
