//! The guard of the metrics: which certificate they are sent by, and who may ask.

mod certificate;

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use axum::http::HeaderValue;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{sync::Semaphore, task::spawn_blocking};
use tokio_rustls::TlsAcceptor;
use wad_http::identity::IdentityError;
use wad_policy::config::{Guard as Settings, User};
use wad_toolbox::mutex::locked;

use self::certificate::Certificate;

/// Says what is wrong with the files of the certificate, and where they are named.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("cannot read {}; see [metrics] certificate", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Identity(IdentityError),
}

impl GuardError {
    /// Returns the file that is wrong, where it is one alone.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File { file, .. } | Self::Identity(IdentityError::Key { file }) => Some(file),
            Self::Identity(_) => None,
        }
    }

    /// Whether the file may only be read by somebody else: it may well be right.
    pub fn is_denied(&self) -> bool {
        let denied = io::ErrorKind::PermissionDenied;
        matches!(self, Self::File { source, .. } if source.kind() == denied)
    }
}

impl From<IdentityError> for GuardError {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::File { file, source } => Self::File { file, source },
            other => Self::Identity(other),
        }
    }
}

/// The guard that is on duty, for a server that goes on when another one takes over.
pub type Duty = Arc<Mutex<Arc<Guard>>>;

/// Knows who may ask.
#[derive(Debug)]
pub struct Guard {
    settings: Settings,
    /// None for plain HTTP.
    certificate: Option<Arc<Certificate>>,
    /// The hash of that by which each user was admitted last: bcrypt is slow on purpose.
    admitted: Mutex<HashMap<String, u64>>,
    hasher: RandomState,
    /// One password is looked at after the other.
    turn: Semaphore,
}

impl Guard {
    /// Reads the certificate, if there is to be one.
    pub fn new(settings: &Settings) -> Result<Self, GuardError> {
        let certificate = settings.identity.as_ref().map(Certificate::load).transpose()?;
        Ok(Self {
            settings: settings.clone(),
            certificate: certificate.map(Arc::new),
            admitted: Mutex::default(),
            hasher: RandomState::new(),
            turn: Semaphore::new(1),
        })
    }

    /// Returns what the next connection is encrypted by, if it is.
    pub async fn acceptor(&self) -> Option<TlsAcceptor> {
        let certificate = self.certificate.as_ref()?;
        Some(Arc::clone(certificate).acceptor().await)
    }

    /// Whether whoever asks so may have an answer.
    pub async fn admits(&self, authorization: Option<&HeaderValue>) -> bool {
        if self.settings.users.is_empty() {
            return true;
        }
        let Some((name, password)) = authorization.and_then(credentials) else { return false };
        let hashed = self.hasher.hash_one(authorization.map(HeaderValue::as_bytes));
        let is_known = || locked(&self.admitted).get(&name) == Some(&hashed);
        if is_known() {
            return true;
        }
        let _turn = self.turn.acquire().await.expect("nobody closes it");
        if is_known() {
            return true;
        }
        let user = self.settings.users.iter().find(|user| user.name == name);
        // It takes as long where there is no such user.
        let User { hash, .. } = user.unwrap_or(&self.settings.users[0]).clone();
        let verify = move || bcrypt::verify(password, &hash).unwrap_or(false);
        let is_right = spawn_blocking(verify).await.unwrap_or(false) && user.is_some();
        if is_right {
            locked(&self.admitted).insert(name, hashed);
        }
        is_right
    }
}

/// Reads a name and a password (RFC 7617).
fn credentials(authorization: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, text) = authorization.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64_STANDARD.decode(text.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    let name = String::from_utf8(pair[..colon].to_vec()).ok()?;
    Some((name, pair[colon + 1..].to_vec()))
}

/// Reads what a client says of itself, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    if let Some((name, _)) = credentials(&value) {
        assert!(!name.contains(':'));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A test vector of bcrypt's authors: the password is "U*U".
    const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

    fn basic(pair: &str) -> HeaderValue {
        format!("Basic {}", BASE64_STANDARD.encode(pair)).parse().unwrap()
    }

    #[tokio::test]
    async fn users_are_told_by_their_passwords() {
        let user = |name: &str| User { name: name.to_owned(), hash: HASH.to_owned() };
        let settings = Settings { identity: None, users: vec![user("a"), user("b")] };
        let guard = Guard::new(&settings).unwrap();
        for (pair, expected) in [
            ("a:U*U", true),
            ("b:U*U", true),
            ("a:U*V", false),
            ("a:U*U", true),
            ("c:U*U", false),
            ("a:", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(guard.admits(Some(&basic(pair))).await, expected, "{pair}");
        }
        for wrong in ["Bearer U*U", "Basic", "Basic !", "U*U", ""] {
            assert!(!guard.admits(Some(&HeaderValue::from_str(wrong).unwrap())).await, "{wrong}");
        }
        assert!(!guard.admits(None).await);
        // Who was admitted once is so at once.
        let begun = Instant::now();
        for _ in 0..1000 {
            assert!(guard.admits(Some(&basic("a:U*U"))).await);
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert!(Guard::new(&Settings::default()).unwrap().admits(None).await);
    }
}
