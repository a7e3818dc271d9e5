//! Key, certificate and authorities: read together, and replaced together while all goes on.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ipnet::IpNet;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use tokio_rustls::rustls::{
    self, ClientConfig, ServerConfig,
    client::Resumption,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::NoServerSessionStorage,
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use wad_http::identity::{IdentityError, certificates, private_key};
use wad_policy::config::{KeyPin, Peers};
use wad_toolbox::{access::Identity, others_file};

use crate::{
    identity::{Judge, Leaf, NodeUri, covers},
    verifiers::{Answering, Asking},
};

/// Most bytes of a file: a hundred certificates.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Says why files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{} holds a certificate that is none of an authority", file.display())]
    Authority { file: PathBuf, source: rustls::Error },
    #[error("the certificate in {} cannot be read", file.display())]
    Unreadable { file: PathBuf },
    #[error(
        "[peers] prefixes has {prefix}, which the certificate in {} does not: peers would refuse \
         it; `wad peer show` shows what it has", file.display()
    )]
    Prefix { file: PathBuf, prefix: IpNet },
}

/// This end is known by this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The name in the certificate; None where it has none.
    pub name: Option<String>,
    /// It speaks for these; None for what peers hold it for.
    pub prefixes: Option<Vec<IpNet>>,
    pub pin: KeyPin,
    pub valid_from: Timestamp,
    pub valid_until: Timestamp,
}

/// All that connections are made with, of one reading of the files.
#[derive(Debug)]
pub struct Credentials {
    pub own: Own,
    pub judge: Arc<Judge>,
    pub server: Arc<ServerConfig>,
    /// For each peer of the file.
    pub clients: Vec<Arc<ClientConfig>>,
}

/// The files as they were read together.
pub struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    ca: Option<Vec<u8>>,
}

/// A hash of files: whether others stand there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen([u8; 32]);

impl Files {
    pub fn read(settings: &Peers) -> Result<Self, CredentialsError> {
        Ok(Self {
            certificate: read(&settings.identity.certificate)?,
            key: read(&settings.identity.key)?,
            ca: settings.ca.as_deref().map(read).transpose()?,
        })
    }

    pub fn seen(&self) -> Seen {
        let Self { certificate, key, ca } = self;
        let hashes = [certificate, key, ca.as_ref().unwrap_or(&Vec::new())]
            .map(|bytes| digest(&SHA256, bytes).as_ref().to_vec());
        let mut seen = Seen([0; 32]);
        seen.0.copy_from_slice(digest(&SHA256, &hashes.concat()).as_ref());
        seen
    }
}

impl Credentials {
    /// Makes all of it, or nothing.
    pub fn new(settings: &Peers, files: &Files) -> Result<Self, CredentialsError> {
        let file = &settings.identity.certificate;
        let chain = certificates(&files.certificate, file)?;
        let own = own(settings, &chain[0])?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = private_key(&files.key, &settings.identity.key)?;
        let key = certified_key(settings, chain, key, &provider)?;
        let key = Arc::new(SingleCertAndKey::from(key));
        let judge = Arc::new(judge(settings, files.ca.as_deref(), &provider)?);
        let clients = (0..settings.peers.len()).map(|peer| {
            let verifier = Arc::new(Answering { judge: Arc::clone(&judge), peer });
            let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&TLS13])
                .expect("the provider has the suites of TLS 1.3")
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_client_cert_resolver(key.clone());
            // Each connection is judged anew; nothing of one is kept for the next.
            client.resumption = Resumption::disabled();
            client.enable_sni = false;
            Arc::new(client)
        });
        let clients = clients.collect();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has the suites of TLS 1.3")
            .with_client_cert_verifier(Arc::new(Asking(Arc::clone(&judge))))
            .with_cert_resolver(key);
        // In the same way: no tickets, no sessions, and no data before the handshake is over.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.max_early_data_size = 0;
        Ok(Self { own, judge, server: Arc::new(server), clients })
    }
}

pub fn own(settings: &Peers, certificate: &[u8]) -> Result<Own, CredentialsError> {
    let file = || settings.identity.certificate.clone();
    let leaf =
        Leaf::parse(certificate).map_err(|_| CredentialsError::Unreadable { file: file() })?;
    let node = leaf.uris.iter().find_map(|uri| NodeUri::parse(uri));
    let prefixes = match (&settings.prefixes, &node) {
        (Some(prefixes), Some(node)) => {
            let beyond = prefixes.iter().find(|prefix| !covers(&node.prefixes, prefix));
            if let Some(&prefix) = beyond {
                return Err(CredentialsError::Prefix { file: file(), prefix });
            }
            Some(prefixes.clone())
        }
        (Some(prefixes), None) => Some(prefixes.clone()),
        (None, node) => node.as_ref().map(|node| node.prefixes.clone()),
    };
    Ok(Own {
        name: node.map(|node| node.name),
        prefixes,
        pin: leaf.pin,
        valid_from: leaf.valid_from,
        valid_until: leaf.valid_until,
    })
}

/// Makes what judges peers, by the authorities in PEM where there are any.
pub fn judge(
    settings: &Peers,
    ca: Option<&[u8]>,
    provider: &Arc<CryptoProvider>,
) -> Result<Judge, CredentialsError> {
    let file = settings.ca.clone().unwrap_or_default();
    let authorities = ca.map(|pem| certificates(pem, &file)).transpose()?;
    Judge::new(&settings.peers, authorities, Arc::clone(provider))
        .map_err(|source| CredentialsError::Authority { file, source })
}

/// Puts a key together with its certificate.
pub fn certified_key(
    settings: &Peers,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CredentialsError> {
    CertifiedKey::from_der(chain, key, provider).map_err(|source| {
        let Identity { certificate, key } = settings.identity.clone();
        IdentityError::Apart { certificate, key, source }.into()
    })
}

pub fn read(file: &Path) -> Result<Vec<u8>, CredentialsError> {
    let failed = |error| IdentityError::File {
        file: file.to_owned(),
        source: others_file::told(file, error),
    };
    match wad_toolbox::whole_file::read(file, MAX_FILE_BYTES).map_err(failed)? {
        Some(bytes) => Ok(bytes),
        None => Err(failed(io::ErrorKind::NotFound.into()).into()),
    }
}

/// Reads the certificate that a file begins with.
pub fn leaf(file: &Path) -> Result<Leaf, CredentialsError> {
    let chain = certificates(&read(file)?, file)?;
    Leaf::parse(&chain[0]).map_err(|_| CredentialsError::Unreadable { file: file.to_owned() })
}
