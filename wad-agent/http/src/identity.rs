//! A certificate with its key, by which a client or a server says who it is: PEM files that
//! are read anew each time, as they may have been replaced.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tokio_rustls::rustls::{
    self,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _, SectionKind},
    },
};
use wad_toolbox::{access::Identity, others_file};

/// Says what is wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} holds no certificate that can be used", file.display())]
    Certificates { file: PathBuf },
    #[error("{}, line {line}: what begins here is not whole PEM", file.display())]
    Damaged { file: PathBuf, line: usize, source: pem::Error },
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
    let chain = certificates(&read(certificate)?, certificate)?;
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

/// Returns the certificates in PEM, at least one, which are of this file. Other things in PEM may
/// stand beside them.
///
/// # Errors
/// Where there is none, or something in PEM is damaged: what is left would not be what was meant.
pub fn certificates(
    pem: &[u8],
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let mut all = Vec::new();
    for (line, mut section) in sections(pem) {
        match pem::from_buf(&mut section) {
            Ok(Some((SectionKind::Certificate, der))) => all.push(CertificateDer::from(der)),
            Ok(_) => {}
            Err(source) => {
                return Err(IdentityError::Damaged { file: file.to_owned(), line, source });
            }
        }
    }
    if all.is_empty() {
        return Err(IdentityError::Certificates { file: file.to_owned() });
    }
    Ok(all)
}

/// Returns what stands from each line that begins something up to the next such one, and the
/// number of that line, from 1 on.
fn sections(pem: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut begins, mut line, mut at) = (Vec::new(), 1, 0);
    for text in pem.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        if text.starts_with(b"-----BEGIN ") {
            begins.push((line, at));
        }
        line += usize::from(text.ends_with(b"\n"));
        at += text.len();
    }
    let ends = begins.iter().skip(1).map(|(_, at)| *at).chain([pem.len()]);
    begins.iter().zip(ends).map(|(&(line, begin), end)| (line, &pem[begin..end])).collect()
}

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(file)
        .map_err(|error| others_file::told(file, error))
        .map_err(|source| IdentityError::File { file: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    // What stands in a certificate does not matter here.
    const WHOLE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

    fn read(pem: &str) -> Result<usize, String> {
        let read = certificates(pem.as_bytes(), Path::new("ca.pem"));
        read.map(|all| all.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn other_things_may_stand_beside_certificates() {
        let key = WHOLE.replace("CERTIFICATE", "PRIVATE KEY");
        let parameters = WHOLE.replace("CERTIFICATE", "DH PARAMETERS");
        let all = format!("# of ours\n{WHOLE}{key}\n{parameters}{WHOLE}the end");
        assert_eq!(read(&all), Ok(2));
        assert_eq!(read(&all.replace('\n', "\r\n")), Ok(2));
        for none in ["", "no certificate", &key] {
            assert!(read(none).unwrap_err().contains("holds no certificate"), "{none}");
        }
    }

    #[test]
    fn what_is_damaged_is_refused_with_its_line() {
        let parameters = WHOLE.replace("CERTIFICATE", "DH PARAMETERS");
        for damaged in [
            WHOLE.replace("MIIB", "MI B\u{e4}"),
            WHOLE.replace("-----END CERTIFICATE-----\n", ""),
            WHOLE.replace("CERTIFICATE-----", "CERTIFICATE---"),
        ] {
            for behind in ["", WHOLE] {
                let pem = format!("{WHOLE}\n{parameters}{damaged}{behind}");
                assert_eq!(
                    read(&pem).unwrap_err(),
                    "ca.pem, line 8: what begins here is not whole PEM",
                    "{pem}"
                );
            }
        }
    }
}
