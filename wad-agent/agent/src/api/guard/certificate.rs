//! The certificate of the metrics, which may be replaced at any time: its files are looked at
//! again beside the event loop, however many connections there are.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::{task::spawn_blocking, time::timeout};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{self, ServerConfig},
};
use tracing::warn;
use wad_http::identity;
use wad_toolbox::{access::Identity, causes::with_causes, mutex::locked, seldom::Seldom};

use super::GuardError;

/// The files are looked at so often at most: whoever connects again and again has nothing read.
const LOOK: Duration = Duration::from_secs(2);
/// A connection waits no longer for a look: the disk may hang.
const PATIENCE: Duration = Duration::from_secs(1);

/// Has the last good certificate.
#[derive(Debug)]
pub struct Certificate {
    files: Identity,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Made of the last good files.
    config: Arc<ServerConfig>,
    /// When the last look ended; None while there is one.
    looked: Option<Instant>,
    said: Seldom,
}

impl Certificate {
    pub fn load(files: &Identity) -> Result<Self, GuardError> {
        let (config, looked) = (load(files)?, Some(Instant::now()));
        let state = Mutex::new(State { config, looked, said: Seldom::new() });
        Ok(Self { files: files.clone(), state })
    }

    /// Returns what the next connection is encrypted by: the certificate in the files, or the
    /// last good one where they are no good.
    pub async fn acceptor(self: Arc<Self>) -> TlsAcceptor {
        self.acceptor_at(Instant::now()).await
    }

    async fn acceptor_at(self: Arc<Self>, now: Instant) -> TlsAcceptor {
        if self.begins_look(now) {
            let own = Arc::clone(&self);
            let look = spawn_blocking(move || own.look());
            // What comes of it too late is there for the next one.
            let _ = timeout(PATIENCE, look).await;
        }
        TlsAcceptor::from(Arc::clone(&locked(&self.state).config))
    }

    /// Whether the files are to be looked at; then nobody else does.
    fn begins_look(&self, now: Instant) -> bool {
        let is_due = |looked: &mut Instant| now.saturating_duration_since(*looked) >= LOOK;
        locked(&self.state).looked.take_if(is_due).is_some()
    }

    fn look(&self) {
        let next = load(&self.files);
        let mut state = locked(&self.state);
        state.looked = Some(Instant::now());
        match next {
            Ok(next) => {
                state.config = next;
                state.said.forget();
            }
            Err(error) if state.said.may_say() => {
                let why = with_causes(&error.into());
                warn!("[metrics] certificate: the last good one is used still: {why}");
            }
            Err(_) => {}
        }
    }
}

fn load(files: &Identity) -> Result<Arc<ServerConfig>, GuardError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of TLS 1.2 and 1.3")
        .with_no_client_auth();
    Ok(Arc::new(identity::load(files, |chain, key| config.with_single_cert(chain, key))?))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        path::Path,
    };

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pods/testdata");

    /// Puts a certificate into a folder.
    fn there(folder: &Path) -> Arc<Certificate> {
        let [certificate, key] = ["server.pem", "server.key"].map(|name| {
            let file = folder.join(name);
            fs::copy(Path::new(TESTDATA).join(name), &file).unwrap();
            file
        });
        Arc::new(Certificate::load(&Identity { certificate, key }).unwrap())
    }

    /// Returns the acceptor of a connection that comes so much later.
    async fn after(certificate: &Arc<Certificate>, later: Duration) -> TlsAcceptor {
        Arc::clone(certificate).acceptor_at(Instant::now() + later).await
    }

    fn are_same(one: &TlsAcceptor, other: &TlsAcceptor) -> bool {
        Arc::ptr_eq(one.config(), other.config())
    }

    #[tokio::test]
    async fn files_are_looked_at_again_after_a_while_and_not_for_each_connection() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = there(folder.path());
        let first = after(&certificate, Duration::ZERO).await;
        for _ in 0..100 {
            assert!(are_same(&first, &after(&certificate, LOOK / 2).await));
        }
        let next = after(&certificate, LOOK).await;
        assert!(!are_same(&first, &next));
        fs::write(&certificate.files.key, "no key\n").unwrap();
        assert!(are_same(&next, &after(&certificate, LOOK).await));
        fs::copy(Path::new(TESTDATA).join("server.key"), &certificate.files.key).unwrap();
        assert!(!are_same(&next, &after(&certificate, LOOK).await));
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_one_connection_up_for_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = there(folder.path());
        let first = after(&certificate, Duration::ZERO).await;
        let hangs = &certificate.files.certificate;
        fs::remove_file(hangs).unwrap();
        mkfifo(hangs, Mode::S_IRWXU).unwrap();
        assert!(are_same(&first, &after(&certificate, LOOK).await));
        let begun = Instant::now();
        assert!(are_same(&first, &after(&certificate, LOOK).await));
        assert!(begun.elapsed() < PATIENCE, "one look at a time");
        // Whoever reads it comes to an end.
        OpenOptions::new().write(true).open(hangs).unwrap();
    }
}
