//! Refusals: all the reasons for which a peer, or whoever takes itself for one, is not heard.

/// A reason, of a closed set: each is counted for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("too many connections at a time")]
    Crowded,
    #[error("it took too long")]
    Slow,
    #[error("no connection over TLS 1.3 came about")]
    Tls,
    #[error("it shows no certificate")]
    NoCertificate,
    #[error("its certificate cannot be read")]
    Unreadable,
    #[error("its certificate is of no authority in `ca`")]
    Untrusted,
    #[error("its certificate has expired")]
    Expired,
    #[error("its certificate is not valid yet")]
    NotYetValid,
    #[error("its certificate is for another purpose")]
    Purpose,
    #[error("its certificate may sign others, and is none of a host's own")]
    Authority,
    #[error("its certificate has no wad:// name")]
    NoIdentity,
    #[error("its certificate has more than one URI as a name")]
    SeveralIdentities,
    #[error("no [[peer]] has its name or its key")]
    Stranger,
    #[error("it is another peer than the one that was asked")]
    OtherPeer,
    #[error("this is no request that peers make")]
    Request,
    #[error("it says more than 64 KiB")]
    TooLarge,
    #[error("what it says cannot be read")]
    Malformed,
    #[error("it speaks another version")]
    Version,
    #[error("it says a value that cannot be")]
    OutOfRange,
    #[error("it speaks for prefixes that are not its own")]
    Prefix,
    #[error("it asks too much at a time")]
    Busy,
    #[error("it asks too often")]
    TooOften,
}

impl Refusal {
    pub const ALL: [Self; 22] = [
        Self::Crowded,
        Self::Slow,
        Self::Tls,
        Self::NoCertificate,
        Self::Unreadable,
        Self::Untrusted,
        Self::Expired,
        Self::NotYetValid,
        Self::Purpose,
        Self::Authority,
        Self::NoIdentity,
        Self::SeveralIdentities,
        Self::Stranger,
        Self::OtherPeer,
        Self::Request,
        Self::TooLarge,
        Self::Malformed,
        Self::Version,
        Self::OutOfRange,
        Self::Prefix,
        Self::Busy,
        Self::TooOften,
    ];
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the word that metrics have.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Crowded => "crowded",
            Self::Slow => "slow",
            Self::Tls => "tls",
            Self::NoCertificate => "no-certificate",
            Self::Unreadable => "unreadable",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::Purpose => "purpose",
            Self::Authority => "authority",
            Self::NoIdentity => "no-identity",
            Self::SeveralIdentities => "several-identities",
            Self::Stranger => "stranger",
            Self::OtherPeer => "other-peer",
            Self::Request => "request",
            Self::TooLarge => "too-large",
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::OutOfRange => "out-of-range",
            Self::Prefix => "prefix",
            Self::Busy => "busy",
            Self::TooOften => "too-often",
        }
    }
}

/// Counts by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::COUNT]);

impl Refusals {
    pub const fn count(&mut self, refusal: Refusal) {
        self.0[refusal as usize] = self.0[refusal as usize].saturating_add(1);
    }

    /// Returns the counts by their words.
    pub fn by_label(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.into_iter().map(|refusal| (refusal.label(), self.0[refusal as usize]))
    }

    #[cfg(test)]
    pub const fn get(&self, refusal: Refusal) -> u64 {
        self.0[refusal as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_reason_has_a_place_and_a_word_of_its_own() {
        let mut counts = Refusals::default();
        for (place, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, place, "{refusal:?}");
            counts.count(refusal);
            assert_eq!(counts.get(refusal), 1);
        }
        let labels: HashSet<_> = counts.by_label().map(|(label, _)| label).collect();
        assert_eq!(labels.len(), Refusal::COUNT);
    }
}
