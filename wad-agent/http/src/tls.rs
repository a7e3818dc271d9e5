//! TLS: whom is trusted, and by which certificate the server knows who asks.

use std::{io, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{self, ClientConfig, RootCertStore, pki_types::ServerName},
};
use wad_toolbox::{
    access::{Access, Identity},
    url::Url,
};

use crate::{
    error::{HttpError, broken},
    identity::{self, IdentityError},
    stream::Stream,
};

/// Trusts the certificates of a file, or else the host's.
pub fn connector(access: &Access, own: Option<&Identity>) -> Result<TlsConnector, HttpError> {
    let mut roots = RootCertStore::empty();
    match &access.ca_file {
        Some(file) => {
            let certificates = identity::certificates(&identity::read(file)?, file)?;
            roots.add_parsable_certificates(certificates);
            if roots.is_empty() {
                return Err(IdentityError::Certificates { file: file.clone() }.into());
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
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => identity::load(own, |chain, key| config.with_client_auth_cert(chain, key))?,
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

/// A certificate that is refused, or a connection that ends.
fn refused(url: &Url, error: io::Error) -> HttpError {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match refused.cloned() {
        Some(source) => HttpError::Tls { authority: url.authority(), source },
        None => broken(error),
    }
}
