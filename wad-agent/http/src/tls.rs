//! TLS: whom is trusted, and by which certificate the server knows who asks.

use std::{fs, io, path::Path, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    },
};
use wad_toolbox::{
    access::{Access, Identity},
    url::Url,
};

use crate::{
    error::{HttpError, broken},
    stream::Stream,
};

/// Trusts the certificates of a file, or else the host's.
pub fn connector(access: &Access, identity: Option<&Identity>) -> Result<TlsConnector, HttpError> {
    let mut roots = RootCertStore::empty();
    match &access.ca_file {
        Some(file) => {
            let pem = read(file)?;
            let certificates = CertificateDer::pem_slice_iter(&pem).flatten();
            roots.add_parsable_certificates(certificates);
            if roots.is_empty() {
                return Err(HttpError::Certificates { file: file.clone() });
            }
        }
        None => {
            // What can't be read is as good as not there: a server is trusted by
            // what is left, or not at all.
            let certificates = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(certificates);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let pem = read(certificate)?;
            let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
            if chain.is_empty() {
                return Err(HttpError::Certificates { file: certificate.clone() });
            }
            let of_key = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|_| HttpError::Key { file: key.clone() })?;
            config.with_client_auth_cert(chain, of_key).map_err(|source| {
                let (certificate, key) = (certificate.clone(), key.clone());
                HttpError::Identity { certificate, key, source }
            })?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Encrypts a connection to a URL's host.
pub async fn encrypt(
    connector: &TlsConnector,
    url: &Url,
    stream: Box<dyn Stream>,
) -> Result<Box<dyn Stream>, HttpError> {
    let name = ServerName::try_from(url.host.clone()).map_err(|_| HttpError::Resolve {
        host: url.host.clone(),
        source: io::ErrorKind::InvalidInput.into(),
    })?;
    let stream = connector.connect(name, stream).await.map_err(|error| refused(url, error))?;
    Ok(Box::new(stream))
}

fn read(file: &Path) -> Result<Vec<u8>, HttpError> {
    fs::read(file).map_err(|source| HttpError::File { file: file.to_owned(), source })
}

/// A certificate that is refused, or a connection that ends.
fn refused(url: &Url, error: io::Error) -> HttpError {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match refused.cloned() {
        Some(source) => HttpError::Tls { authority: url.authority(), source },
        None => broken(error),
    }
}
