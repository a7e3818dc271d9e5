//! Hands the certificate of the other end to the judge, for either end of a connection, as
//! rustls asks for it. TLS 1.2 is not spoken.

use std::sync::Arc;

use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use crate::{
    identity::{Judge, Role, as_error},
    refusal::Refusal,
};

/// Lets in each peer of the file.
#[derive(Debug)]
pub struct Asking(pub Arc<Judge>);

/// Lets one peer answer, which is the one at this place of the file.
#[derive(Debug)]
pub struct Answering {
    pub judge: Arc<Judge>,
    pub peer: usize,
}

impl ClientCertVerifier for Asking {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let judged = self.0.judge(&chain(own, between), Role::Asks, now);
        judged.map(|_| ClientCertVerified::assertion()).map_err(as_error)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NOT_SPOKEN)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, own, signed, self.0.provider())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Answering {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.judge.judge(&chain(own, between), Role::Answers, now);
        match judged.map_err(as_error)? {
            judged if judged.peer == self.peer => Ok(ServerCertVerified::assertion()),
            _ => Err(as_error(Refusal::OtherPeer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _own: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NOT_SPOKEN)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, own, signed, self.judge.provider())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.provider().signature_verification_algorithms.supported_schemes()
    }
}

const NOT_SPOKEN: Error = Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled);

fn chain<'c>(own: &CertificateDer<'c>, between: &[CertificateDer<'c>]) -> Vec<CertificateDer<'c>> {
    [std::slice::from_ref(own), between].concat()
}

/// Checks that the other end has the key of its certificate.
fn verify_signature(
    message: &[u8],
    own: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature(message, own, signed, &provider.signature_verification_algorithms)
}
