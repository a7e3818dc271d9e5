//! The tests borrow this: authorities, hosts with certificates of all kinds, and peers.

use std::{
    fs,
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ipnet::IpNet;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
};
use wad_policy::config::{KeyPin, KnownBy, Peer, Peers};
use wad_toolbox::access::Identity;

use crate::identity::Leaf;

pub fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A certificate that is wanted.
#[derive(Clone, Debug)]
pub struct Kind {
    pub uris: Vec<String>,
    /// Days from now, from when to when it is valid.
    pub days: Range<i64>,
    pub signs_others: bool,
    pub for_servers_alone: bool,
}

impl Kind {
    pub fn of(name: &str, prefixes: &[&str]) -> Self {
        let prefixes: Vec<_> = prefixes.iter().map(|prefix| format!("prefix={prefix}")).collect();
        let query =
            if prefixes.is_empty() { String::new() } else { format!("/?{}", prefixes.join("&")) };
        let uris = vec![format!("wad://{name}{query}")];
        Self { uris, days: -1..365, signs_others: false, for_servers_alone: false }
    }
}

/// A key and a certificate.
pub struct Host {
    pub der: Vec<u8>,
    pub key: Vec<u8>,
}

impl Host {
    pub fn pin(&self) -> KeyPin {
        Leaf::parse(&self.der).unwrap().pin
    }

    /// Writes it as the files of `[peers]`, in another order than they are read.
    pub fn write(&self, folder: &Path) {
        fs::write(folder.join("host.key"), pem("PRIVATE KEY", &self.key)).unwrap();
        fs::write(folder.join("host.crt"), pem("CERTIFICATE", &self.der)).unwrap();
    }
}

/// An authority of a test's own.
pub struct Authority {
    key: Vec<u8>,
    der: Vec<u8>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let der = Self::params().self_signed(&key).unwrap().der().to_vec();
        Self { key: key.serialize_der(), der }
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    pub fn write(&self, folder: &Path) {
        fs::write(folder.join("ca.crt"), pem("CERTIFICATE", &self.der)).unwrap();
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
    }

    pub fn host(&self, kind: &Kind) -> Host {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        let san = |uri: &String| SanType::URI(uri.clone().try_into().unwrap());
        params.subject_alt_names = kind.uris.iter().map(san).collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at = |days: i64| {
            let seconds = now.as_secs().checked_add_signed(days * 86_400).unwrap();
            date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        (params.not_before, params.not_after) = (at(kind.days.start), at(kind.days.end));
        // Not as an authority, which no chain could end at: by its usage.
        params.key_usages = match kind.signs_others {
            true => vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign],
            false => vec![KeyUsagePurpose::DigitalSignature],
        };
        params.extended_key_usages = match kind.for_servers_alone {
            true => vec![ExtendedKeyUsagePurpose::ServerAuth],
            false => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
        };
        let authority = KeyPair::try_from(&self.key[..]).unwrap();
        let issuer = Issuer::new(Self::params(), authority);
        let der = params.signed_by(&key, &issuer).unwrap().der().to_vec();
        Host { der, key: key.serialize_der() }
    }
}

pub fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn peer(name: &str, known_by: KnownBy) -> Peer {
    Peer {
        name: name.to_owned(),
        address: None,
        known_by,
        prefixes: None,
        every: Duration::from_secs(30),
        grant_buffer_bytes: None,
        consent: None,
    }
}

/// A peer that is known by the name in its certificate.
pub fn named(name: &str, node: &str) -> Peer {
    peer(name, KnownBy::Name(node.to_owned()))
}

/// A peer that is known by its key.
pub fn pinned(name: &str, pin: KeyPin, prefixes: &[&str]) -> Peer {
    Peer { prefixes: Some(nets(prefixes)), ..peer(name, KnownBy::Key(pin)) }
}

/// Settings without a peer, of files in a folder.
pub fn own_files(folder: &Path) -> Peers {
    let identity = Identity { certificate: folder.join("host.crt"), key: folder.join("host.key") };
    Peers { listen: None, identity, ca: Some(folder.join("ca.crt")), prefixes: None, peers: vec![] }
}

/// Returns a client that believes whoever answers, and says who it is, if that is asked.
pub fn believing(host: Option<&Host>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believing(provider)));
    match host {
        None => builder.with_no_client_auth(),
        Some(host) => {
            let key = PrivatePkcs8KeyDer::from(host.key.clone());
            builder.with_client_auth_cert(vec![host.der.clone().into()], key.into()).unwrap()
        }
    }
}

#[derive(Debug)]
struct Believing(Arc<CryptoProvider>);

impl ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
