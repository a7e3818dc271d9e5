//! A certificate with its key, by which a client or a server says who it is: PEM files that
//! are read anew each time, as they may have been replaced.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tokio_rustls::rustls::{
    self,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use wad_toolbox::access::Identity;

/// Says what is wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} holds no certificate that can be used", file.display())]
    Certificates { file: PathBuf },
    #[error("{} holds no private key that can be used: it takes PEM without a passphrase", file.display())]
    Key { file: PathBuf },
    #[error("the key in {} is not of the certificate in {}", key.display(), certificate.display())]
    Apart { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// Reads the files, and returns what is made of the certificate, with those between it and
/// its authority, and of the key.
///
/// # Errors
/// Where they cannot be read, hold nothing of use, or do not go together.
pub fn load<T>(
    identity: &Identity,
    make: impl FnOnce(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) -> Result<T, rustls::Error>,
) -> Result<T, IdentityError> {
    let Identity { certificate, key } = identity;
    let chain = certificates(certificate)?;
    let of_key = private_key(&read(key)?, key)?;
    make(chain, of_key).map_err(|source| {
        let (certificate, key) = (certificate.clone(), key.clone());
        IdentityError::Apart { certificate, key, source }
    })
}

/// Returns the key in PEM, which is of this file.
///
/// # Errors
/// Where there is none that can be used.
pub fn private_key(pem: &[u8], file: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| IdentityError::Key { file: file.to_owned() })
}

/// Reads the certificates of a file: at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let pem = read(file)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if certificates.is_empty() {
        return Err(IdentityError::Certificates { file: file.to_owned() });
    }
    Ok(certificates)
}

fn read(file: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(file).map_err(|source| IdentityError::File { file: file.to_owned(), source })
}
