//! Keys and certificates, as bytes.

use std::{
    ops::RangeInclusive,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    SanType, SerialNumber, date_time_ymd,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

use super::Wanted;

/// Days that a certificate may be valid for.
pub const DAYS: RangeInclusive<u32> = 1..=3_650;
/// An authority's own certificate is valid for ten years.
const AUTHORITY_DAYS: u32 = 3_652;

const DAY: Duration = Duration::from_secs(86_400);
/// The name of the authority: which one it is, its key says.
const AUTHORITY: &str = "wad peers";
/// Characters in a line of PEM (RFC 7468 section 2).
const LINE: usize = 64;

/// A key with its certificate, in PEM.
pub struct Pair {
    pub key: String,
    pub certificate: String,
}

/// Makes an authority of a new key.
pub fn authority() -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = valid_for(authority_params(), AUTHORITY_DAYS)?.self_signed(&key)?;
    Ok(pair(&key, &certificate))
}

/// Signs a certificate of a host, of a new key where there is none.
pub fn host(
    wanted: &Wanted,
    authority: KeyPair,
    key: Option<KeyPair>,
) -> Result<Pair, rcgen::Error> {
    let key = key.map_or_else(KeyPair::generate, Ok)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = called(&wanted.node.name);
    params.subject_alt_names = vec![SanType::URI(wanted.node.to_string().try_into()?)];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::new(authority_params(), authority);
    let certificate = valid_for(params, wanted.days)?.signed_by(&key, &issuer)?;
    Ok(pair(&key, &certificate))
}

/// Reads a key of those that are made here; None where it is none.
pub fn key(pem: &[u8]) -> Option<KeyPair> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
    KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256).ok()
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = called(AUTHORITY);
    // It signs hosts, and no other authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Completes it with its validity, and with a number that no other one has (RFC 5280 section
/// 4.1.2.2).
fn valid_for(mut params: CertificateParams, days: u32) -> Result<CertificateParams, rcgen::Error> {
    let epoch = date_time_ymd(1970, 1, 1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Clocks of hosts differ.
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now.saturating_add(DAY * days);
    let mut serial = [0; 16];
    SystemRandom::new().fill(&mut serial).map_err(|_| rcgen::Error::RemoteKeyError)?;
    // Neither negative nor 0.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

fn pair(key: &KeyPair, certificate: &Certificate) -> Pair {
    Pair {
        key: pem("PRIVATE KEY", key.serialized_der()),
        certificate: pem("CERTIFICATE", certificate.der()),
    }
}

/// Writes bytes as PEM.
fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = &text[..];
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        pem = pem + line + "\n";
        rest = behind;
    }
    pem + &format!("-----END {label}-----\n")
}
