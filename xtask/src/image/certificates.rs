//! The certificates that TLS trusts in the image, where there is no host's to ask: those
//! of Mozilla, by a crate of a locked version, so that the image does not depend on how
//! old the packages of the machine are that builds it. `wad` itself takes what it finds
//! at that place; who trusts others mounts theirs there, or names them in the file.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// They are from this crate.
pub const CRATE: &str = "webpki-root-certs";

/// Returns them as PEM (RFC 7468): 64 figures to a line.
pub fn pem() -> String {
    let mut out = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        out.push_str("-----BEGIN CERTIFICATE-----\n");
        let text = STANDARD.encode(certificate);
        for line in text.as_bytes().chunks(64) {
            out.extend(line.iter().copied().map(char::from));
            out.push('\n');
        }
        out.push_str("-----END CERTIFICATE-----\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_there() {
        let pem = pem();
        assert!(TLS_SERVER_ROOT_CERTS.len() > 100);
        assert_eq!(pem.matches("-----BEGIN").count(), TLS_SERVER_ROOT_CERTS.len());
        assert!(pem.lines().all(|line| line.len() <= 64));
        let first = pem.lines().skip(1).take_while(|line| !line.starts_with('-'));
        let bytes = STANDARD.decode(first.collect::<String>()).unwrap();
        assert_eq!(bytes, TLS_SERVER_ROOT_CERTS[0].as_ref());
    }
}
