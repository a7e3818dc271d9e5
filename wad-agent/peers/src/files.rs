//! Looks at the files of `[peers]` before anything is done with them: whether peers would know
//! this end by them, and it them.

use std::{io, path::Path, sync::Arc, time::SystemTime};

use tokio_rustls::rustls;
use wad_http::identity::{IdentityError, certificates, private_key};
use wad_policy::config::Peers;
use wad_toolbox::{access::Identity, causes::told};

use crate::{
    credentials::{CredentialsError, certified_key, judge, own, read},
    identity::{Leaf, Validity},
};

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The key of `[peers]` that names the file.
    pub key: &'static str,
    pub why: String,
    /// The file may only be read by somebody else: it may well be right.
    pub is_denied: bool,
}

impl FileFault {
    fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self { key, why: why.into(), is_denied: false }
    }

    fn of(key: &'static str, error: &CredentialsError) -> Self {
        let is_denied = matches!(
            error,
            CredentialsError::Identity(IdentityError::File { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied
        );
        Self { key, why: told(error), is_denied }
    }
}

/// Returns what is wrong with the files, as they are now.
#[must_use]
pub fn faults(settings: &Peers) -> Vec<FileFault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let Identity { certificate, key } = &settings.identity;
    let mut faults = Vec::new();
    let chain = read(certificate).and_then(|pem| Ok(certificates(&pem, certificate)?));
    match &chain {
        Err(error) => faults.push(FileFault::of("certificate", error)),
        Ok(chain) => {
            if let Err(error) = own(settings, &chain[0]) {
                faults.push(FileFault::of("certificate", &error));
            } else if let Ok(leaf) = Leaf::parse(&chain[0]) {
                faults.extend(of_leaf(&leaf, certificate));
            }
        }
    }
    let of_key = read(key).and_then(|pem| Ok(private_key(&pem, key)?));
    match of_key {
        Err(error) => faults.push(FileFault::of("key", &error)),
        Ok(of_key) => {
            if let Ok(chain) = chain
                && let Err(error) = certified_key(settings, chain, of_key, &provider)
            {
                faults.push(FileFault::of("key", &error));
            }
        }
    }
    if let Some(ca) = &settings.ca {
        let judge = read(ca).and_then(|pem| judge(settings, Some(&pem), &provider));
        faults.extend(judge.err().map(|error| FileFault::of("ca", &error)));
    }
    faults
}

/// Peers refuse such certificates.
fn of_leaf(leaf: &Leaf, file: &Path) -> impl Iterator<Item = FileFault> {
    let certificate = format!("the certificate in {}", file.display());
    let time = match leaf.is_valid_at(SystemTime::now()) {
        Validity::Now => None,
        Validity::NotYet => Some(format!("{certificate} is not valid before {}", leaf.valid_from)),
        Validity::Over => Some(format!(
            "{certificate} has expired at {}; `wad peer rotate` renews it, or `wad peer issue \
             --again` where the authority is",
            leaf.valid_until
        )),
    };
    let uris = leaf.uris.len();
    let several = (uris > 1)
        .then(|| format!("{certificate} has {uris} URIs among its names, where peers take one"));
    let signs = leaf.signs_others.then(|| {
        format!("{certificate} may sign others, and is none of a host's own: peers refuse it")
    });
    [time, several, signs].into_iter().flatten().map(|why| FileFault::new("certificate", why))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::{Authority, Kind, named, nets, own_files};

    /// The faults of the files of a folder, without its name.
    fn faults_in(folder: &Path, settings: &Peers) -> Vec<(&'static str, String)> {
        let folder = format!("{}/", folder.display());
        let faults = faults(settings).into_iter();
        faults.map(|FileFault { key, why, .. }| (key, why.replace(&folder, ""))).collect()
    }

    #[test]
    fn each_fault_is_of_the_key_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let authority = Authority::new();
        let settings = Peers { peers: vec![named("b", "b.example")], ..own_files(at) };
        let missing: Vec<_> = faults_in(at, &settings).into_iter().map(|(key, _)| key).collect();
        assert_eq!(missing, ["certificate", "key", "ca"]);

        authority.write(at);
        let good = Kind::of("a.example", &["192.0.2.0/24"]);
        let host = authority.host(&good);
        host.write(at);
        assert_eq!(faults(&settings), []);

        let other = Peers { prefixes: Some(nets(&["203.0.113.0/24"])), ..settings.clone() };
        let [("certificate", why)] = &faults_in(at, &other)[..] else { panic!("one fault") };
        assert!(why.starts_with("[peers] prefixes has 203.0.113.0/24, which"), "{why}");

        let uris = ["wad://a.example", "wad://b.example"].map(str::to_owned).to_vec();
        for (kind, says) in [
            (Kind { days: -9..-1, ..good.clone() }, "the certificate in host.crt has expired at"),
            (Kind { days: 1..9, ..good.clone() }, "the certificate in host.crt is not valid befo"),
            (Kind { uris, ..good.clone() }, "the certificate in host.crt has 2 URIs among its na"),
            (Kind { signs_others: true, ..good.clone() }, "the certificate in host.crt may sign"),
        ] {
            authority.host(&kind).write(at);
            let [("certificate", why)] = &faults_in(at, &settings)[..] else { panic!("{says}") };
            assert!(why.starts_with(says), "{why}");
        }

        host.write(at);
        let key = fs::read(at.join("host.key")).unwrap();
        authority.host(&good).write(at);
        fs::write(at.join("host.key"), key).unwrap();
        let [("key", why)] = &faults_in(at, &settings)[..] else { panic!("one fault") };
        let says = "the key in host.key is not of the certificate in host.crt";
        assert!(why.starts_with(says), "{why}");

        for name in ["host.crt", "host.key", "ca.crt"] {
            fs::write(at.join(name), "no PEM").unwrap();
        }
        let keys: Vec<_> = faults_in(at, &settings).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["certificate", "key", "ca"]);
    }
}
