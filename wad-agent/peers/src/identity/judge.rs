//! Judges whose a certificate is: the chain first, without a name, and then the identity in it;
//! or the key alone, where that is known.

use std::{sync::Arc, time::SystemTime};

use ipnet::IpNet;
use jiff::Timestamp;
use tokio_rustls::rustls::{
    self, CertificateError, Error, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime},
    server::{ParsedCertificate, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use wad_policy::config::{KnownBy, Peer};

use super::{
    both,
    leaf::{Leaf, Validity},
    uri::NodeUri,
};
use crate::refusal::Refusal;

/// Knows the peers, and whose word counts for who they are.
#[derive(Debug)]
pub struct Judge {
    known: Vec<Known>,
    /// Whose signatures count; None where all peers are known by their keys.
    authorities: Option<Authorities>,
    provider: Arc<CryptoProvider>,
}

/// A peer as the file has it.
#[derive(Clone, Debug)]
struct Known {
    by: KnownBy,
    /// The most that it may speak for.
    prefixes: Option<Vec<IpNet>>,
}

#[derive(Debug)]
struct Authorities {
    roots: Arc<RootCertStore>,
    /// Checks chains of those that ask.
    asking: Arc<dyn ClientCertVerifier>,
}

/// The end of a connection that shows a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Asks,
    Answers,
}

/// A peer that a certificate is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The peer's place in the file.
    pub peer: usize,
    /// Its certificate and the file let it speak for these.
    pub prefixes: Vec<IpNet>,
    pub valid_until: Timestamp,
}

impl Judge {
    /// Makes it of the peers of a file, and of the certificates of authorities.
    ///
    /// # Errors
    /// Where a certificate is none of an authority.
    pub fn new(
        peers: &[Peer],
        authorities: Option<Vec<CertificateDer<'static>>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let known = peers
            .iter()
            .map(|peer| Known { by: peer.known_by.clone(), prefixes: peer.prefixes.clone() });
        let authorities = authorities.map(|of| Authorities::new(of, &provider)).transpose()?;
        Ok(Self { known: known.collect(), authorities, provider })
    }

    /// Says whose a certificate is. Those between it and its authority come behind it.
    pub fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        role: Role,
        now: UnixTime,
    ) -> Result<Judged, Refusal> {
        let (own, between) = chain.split_first().ok_or(Refusal::NoCertificate)?;
        let leaf = Leaf::parse(own).map_err(|_| Refusal::Unreadable)?;
        let by_key = self.place(&KnownBy::Key(leaf.pin));
        if by_key.is_none() {
            let authorities = self.authorities.as_ref().ok_or(Refusal::Stranger)?;
            authorities.check(own, between, (role, now), &self.provider).map_err(|e| of(&e))?;
        }
        // Also of a key that is known, and of a chain that ends at it.
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(now.as_secs());
        match leaf.is_valid_at(at) {
            Validity::Now => {}
            Validity::NotYet => return Err(Refusal::NotYetValid),
            Validity::Over => return Err(Refusal::Expired),
        }
        if leaf.signs_others {
            return Err(Refusal::Authority);
        }
        let valid_until = leaf.valid_until;
        let (peer, prefixes) = match by_key {
            // Nobody has signed what it says it may speak for.
            Some(peer) => (peer, self.known[peer].prefixes.clone().unwrap_or_default()),
            None => {
                let node = identity(&leaf)?;
                let peer = self.place(&KnownBy::Name(node.name)).ok_or(Refusal::Stranger)?;
                let prefixes = match &self.known[peer].prefixes {
                    Some(most) => both(&node.prefixes, most),
                    None => node.prefixes,
                };
                (peer, prefixes)
            }
        };
        Ok(Judged { peer, prefixes, valid_until })
    }

    fn place(&self, by: &KnownBy) -> Option<usize> {
        self.known.iter().position(|known| known.by == *by)
    }

    pub fn provider(&self) -> &CryptoProvider {
        &self.provider
    }
}

impl Authorities {
    fn new(
        of: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in of {
            roots.add(certificate)?;
        }
        let roots = Arc::new(roots);
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider));
        let asking = builder.build().map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { roots, asking })
    }

    /// Checks that one of them has signed it, by way of others if need be, for that role.
    fn check(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        (role, now): (Role, UnixTime),
        provider: &CryptoProvider,
    ) -> Result<(), Error> {
        match role {
            Role::Asks => self.asking.verify_client_cert(own, between, now).map(|_| ()),
            Role::Answers => verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(own)?,
                &self.roots,
                between,
                now,
                provider.signature_verification_algorithms.all,
            ),
        }
    }
}

/// Returns the one identity of a certificate.
fn identity(leaf: &Leaf) -> Result<NodeUri, Refusal> {
    match &leaf.uris[..] {
        [] => Err(Refusal::NoIdentity),
        [uri] => NodeUri::parse(uri).ok_or(Refusal::NoIdentity),
        _ => Err(Refusal::SeveralIdentities),
    }
}

/// Returns the reason for which a chain does not count, or a connection did not come about.
pub fn of(error: &Error) -> Refusal {
    let Error::InvalidCertificate(error) = error else {
        return match error {
            Error::NoCertificatesPresented => Refusal::NoCertificate,
            _ => Refusal::Tls,
        };
    };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Refusal::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Refusal::NotYetValid
        }
        CertificateError::BadEncoding => Refusal::Unreadable,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Refusal::Purpose
        }
        CertificateError::Other(other) => {
            other.0.downcast_ref::<Refusal>().copied().unwrap_or(Refusal::Untrusted)
        }
        _ => Refusal::Untrusted,
    }
}

/// Returns a refusal as rustls hands it on.
pub fn as_error(refusal: Refusal) -> Error {
    Error::InvalidCertificate(match refusal {
        // For these the other end hears the reason, by an alert of its own.
        Refusal::Expired => CertificateError::Expired,
        Refusal::NotYetValid => CertificateError::NotValidYet,
        Refusal::Unreadable => CertificateError::BadEncoding,
        Refusal::Untrusted => CertificateError::UnknownIssuer,
        Refusal::Purpose => CertificateError::InvalidPurpose,
        other => CertificateError::Other(rustls::OtherError(Arc::new(other))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Authority, Host, Kind, named, nets, pinned};

    fn judge(peers: &[Peer], authority: Option<&Authority>) -> Judge {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let authorities = authority.map(|it| vec![it.der().to_vec().into()]);
        Judge::new(peers, authorities, provider).unwrap()
    }

    fn judged(judge: &Judge, host: &Host) -> Result<Judged, Refusal> {
        let chain = [host.der.clone().into()];
        let roles = [Role::Asks, Role::Answers];
        let [asks, answers] = roles.map(|role| judge.judge(&chain, role, UnixTime::now()));
        assert_eq!(asks, answers);
        asks
    }

    #[test]
    fn a_certificate_is_of_the_peer_that_it_names() {
        let authority = Authority::new();
        let mut peers = [named("tokyo", "b.example"), named("osaka", "a.example")];
        let host = authority.host(&Kind::of("a.example", &["192.0.2.0/24", "2001:db8::/48"]));
        let found = judged(&judge(&peers, Some(&authority)), &host).unwrap();
        assert_eq!((found.peer, found.prefixes), (1, nets(&["192.0.2.0/24", "2001:db8::/48"])));
        // The file bounds it, and never widens it.
        peers[1].prefixes = Some(nets(&["192.0.0.0/16", "2001:db8:0:1::/64"]));
        let found = judged(&judge(&peers, Some(&authority)), &host).unwrap();
        assert_eq!(found.prefixes, nets(&["192.0.2.0/24", "2001:db8:0:1::/64"]));
    }

    #[test]
    fn whatever_is_wrong_with_a_certificate_has_its_reason() {
        let (authority, other) = (Authority::new(), Authority::new());
        let kind = || Kind::of("a.example", &["192.0.2.0/24"]);
        let judge = judge(&[named("p", "a.example")], Some(&authority));
        let uris = |uris: &[&str]| Kind {
            uris: uris.iter().map(|&uri| uri.to_owned()).collect(),
            ..kind()
        };
        for (host, reason) in [
            (other.host(&kind()), Refusal::Untrusted),
            (authority.host(&Kind { days: -2..-1, ..kind() }), Refusal::Expired),
            (authority.host(&Kind { days: 1..2, ..kind() }), Refusal::NotYetValid),
            (authority.host(&Kind { signs_others: true, ..kind() }), Refusal::Authority),
            (authority.host(&Kind { for_servers_alone: true, ..kind() }), Refusal::Purpose),
            (authority.host(&Kind::of("b.example", &[])), Refusal::Stranger),
            (authority.host(&uris(&[])), Refusal::NoIdentity),
            (authority.host(&uris(&["https://a.example"])), Refusal::NoIdentity),
            (
                authority.host(&uris(&["wad://a.example", "wad://b.example"])),
                Refusal::SeveralIdentities,
            ),
            (
                authority.host(&uris(&["wad://a.example", "https://a.example"])),
                Refusal::SeveralIdentities,
            ),
        ] {
            let chain = [host.der.into()];
            let found = judge.judge(&chain, Role::Asks, UnixTime::now());
            assert_eq!(found, Err(reason));
        }
        let garbage = [vec![0x30, 1, 0].into()];
        let found = judge.judge(&garbage, Role::Asks, UnixTime::now());
        assert_eq!(found, Err(Refusal::Unreadable));
        assert_eq!(judge.judge(&[], Role::Asks, UnixTime::now()), Err(Refusal::NoCertificate));
    }

    #[test]
    fn a_known_key_needs_no_authority_and_speaks_for_what_the_file_says() {
        let (authority, nobody) = (Authority::new(), Authority::new());
        let kind = Kind::of("a.example", &["0.0.0.0/0"]);
        let host = nobody.host(&kind);
        let peers = [named("other", "b.example"), pinned("p", host.pin(), &["192.0.2.0/24"])];
        for authority in [None, Some(&authority)] {
            let judge = judge(&peers, authority);
            let found = judged(&judge, &host).unwrap();
            assert_eq!((found.peer, found.prefixes), (1, nets(&["192.0.2.0/24"])));
            // Another key of the same name.
            let stranger = judged(&judge, &nobody.host(&kind)).unwrap_err();
            let expected = authority.map_or(Refusal::Stranger, |_| Refusal::Untrusted);
            assert_eq!(stranger, expected);
        }
        for (kind, reason) in [
            (Kind { days: -2..-1, ..kind.clone() }, Refusal::Expired),
            (Kind { days: 1..2, ..kind.clone() }, Refusal::NotYetValid),
            (Kind { signs_others: true, ..kind }, Refusal::Authority),
        ] {
            let host = nobody.host(&kind);
            let judge = judge(&[pinned("p", host.pin(), &["192.0.2.0/24"])], None);
            assert_eq!(judged(&judge, &host), Err(reason));
        }
    }
}
