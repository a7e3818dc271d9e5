//! Questions to name servers, and what their answers say (RFC 1035, section 4).

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use simple_dns::{CLASS, Name, Packet, PacketFlag, RCODE, SimpleDnsError, TYPE, rdata::RData};

/// Most aliases that are followed to an address.
const MOST_ALIASES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// A question for the addresses of a name.
pub struct Question<'n> {
    pub id: u16,
    pub name: &'n str,
    pub family: Family,
}

/// A reply is what a message says of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There are these, and none of this family if none. None holds for no time that is
    /// known.
    Addresses {
        addresses: Vec<IpAddr>,
        holds: Option<Duration>,
    },
    NoName,
    /// The server has no answer.
    Refused {
        code: String,
    },
    /// The answer has more than a message takes.
    Truncated,
    /// It is not about this question.
    Other,
}

impl Question<'_> {
    /// Returns the message.
    pub fn bytes(&self) -> Vec<u8> {
        let mut query = Packet::new_query(self.id);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        query.questions.push(self.question());
        query.build_bytes_vec().expect("a short name fits")
    }

    fn question(&self) -> simple_dns::Question<'_> {
        let qtype = match self.family {
            Family::V4 => TYPE::A,
            Family::V6 => TYPE::AAAA,
        };
        simple_dns::Question::new(
            Name::new_unchecked(self.name),
            qtype.into(),
            CLASS::IN.into(),
            false,
        )
    }

    /// Reads what a server has sent. Aliases lead to the addresses.
    pub fn read(&self, bytes: &[u8]) -> Result<Reply, SimpleDnsError> {
        let message = Packet::parse(bytes)?;
        let asked = self.question();
        let is_about = |it: &simple_dns::Question<'_>| {
            (&it.qname, it.qtype, it.qclass) == (&asked.qname, asked.qtype, asked.qclass)
        };
        let is_reply = message.id() == self.id && message.has_flags(PacketFlag::RESPONSE);
        if !is_reply || !message.questions.iter().any(is_about) {
            return Ok(Reply::Other);
        }
        if message.has_flags(PacketFlag::TRUNCATION) {
            return Ok(Reply::Truncated);
        }
        match message.rcode() {
            RCODE::NoError => {}
            RCODE::NameError => return Ok(Reply::NoName),
            code => return Ok(Reply::Refused { code: format!("{code:?}") }),
        }
        let records: Vec<_> =
            message.answers.iter().filter(|record| record.class == CLASS::IN).collect();
        let (mut name, mut holds) = (&asked.qname, u32::MAX);
        for _ in 0..MOST_ALIASES {
            let own = || records.iter().filter(|record| record.name == *name);
            let mut addresses = Vec::new();
            for record in own() {
                if let Some(address) = self.address(&record.rdata) {
                    addresses.push(address);
                    holds = holds.min(record.ttl);
                }
            }
            if !addresses.is_empty() {
                let holds = Some(Duration::from_secs(holds.into()));
                return Ok(Reply::Addresses { addresses, holds });
            }
            let alias = own().find_map(|record| match &record.rdata {
                RData::CNAME(alias) => Some((&alias.0, record.ttl)),
                _ => None,
            });
            let Some((alias, ttl)) = alias else { break };
            (name, holds) = (alias, holds.min(ttl));
        }
        Ok(Reply::Addresses { addresses: Vec::new(), holds: None })
    }

    fn address(&self, record: &RData<'_>) -> Option<IpAddr> {
        match (record, self.family) {
            (RData::A(address), Family::V4) => Some(Ipv4Addr::from_bits(address.address).into()),
            // IPv4 connections are looked up as such.
            (RData::AAAA(address), Family::V6) => {
                Some(IpAddr::from(Ipv6Addr::from_bits(address.address)).to_canonical())
            }
            _ => None,
        }
    }
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    for family in [Family::V4, Family::V6] {
        // Any identifier is right.
        let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let question = Question { id, name: "a.b", family };
        if let Ok(Reply::Addresses { addresses, holds }) = question.read(bytes) {
            assert_eq!(addresses.is_empty(), holds.is_none());
            assert!(addresses.len() <= bytes.len() / 4);
        }
    }
}

/// Whether the question is for IPv4 addresses.
#[cfg(test)]
pub fn is_v4(question: &simple_dns::Question<'_>) -> bool {
    question.qtype == simple_dns::QTYPE::TYPE(TYPE::A)
}

#[cfg(test)]
pub fn record<'n>(name: Name<'n>, ttl: u32, rdata: RData<'n>) -> simple_dns::ResourceRecord<'n> {
    simple_dns::ResourceRecord::new(name, CLASS::IN, ttl, rdata)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simple_dns::rdata::{A, AAAA, CNAME};

    use super::*;

    const ASKED: Question<'static> =
        Question { id: 7, name: "dtn.example.org", family: Family::V4 };

    fn name(name: &str) -> Name<'_> {
        Name::new(name).expect("a name")
    }

    fn v4(owner: &'static str, ttl: u32, last: u8) -> simple_dns::ResourceRecord<'static> {
        let address = Ipv4Addr::new(192, 0, 2, last).to_bits();
        record(name(owner), ttl, RData::A(A { address }))
    }

    fn alias(
        owner: &'static str,
        ttl: u32,
        to: &'static str,
    ) -> simple_dns::ResourceRecord<'static> {
        record(name(owner), ttl, RData::CNAME(CNAME(name(to))))
    }

    fn reply(change: impl FnOnce(&mut Packet<'_>)) -> Reply {
        let query = ASKED.bytes();
        let mut reply = Packet::parse(&query).expect("a message").into_reply();
        change(&mut reply);
        ASKED.read(&reply.build_bytes_vec_compressed().expect("bytes")).expect("a message")
    }

    fn addresses(last: &[u8], holds: Option<u64>) -> Reply {
        let address = |last: &u8| IpAddr::from([192, 0, 2, *last]);
        let holds = holds.map(Duration::from_secs);
        Reply::Addresses { addresses: last.iter().map(address).collect(), holds }
    }

    #[test]
    fn addresses_hold_as_long_as_the_least_on_the_way() {
        let direct = reply(|it| {
            it.answers = vec![v4("DTN.example.org", 60, 1), v4("dtn.example.org", 30, 2)];
        });
        assert_eq!(direct, addresses(&[1, 2], Some(30)));
        let aliased = reply(|it| {
            it.answers = vec![
                v4("a.example.net", 60, 1),
                alias("dtn.example.org", 20, "b.example.net"),
                alias("b.example.net", 90, "a.example.net"),
                v4("elsewhere.example.net", 1, 9),
            ];
        });
        assert_eq!(aliased, addresses(&[1], Some(20)));
    }

    #[test]
    fn what_has_no_address_is_told_apart() {
        assert_eq!(reply(|_| {}), addresses(&[], None));
        let circle = reply(|it| {
            it.answers = vec![
                alias("dtn.example.org", 20, "b.example.net"),
                alias("b.example.net", 20, "dtn.example.org"),
            ];
        });
        assert_eq!(circle, addresses(&[], None));
        let other_family = reply(|it| {
            let aaaa = RData::AAAA(AAAA { address: 1 });
            it.answers = vec![record(name("dtn.example.org"), 20, aaaa)];
        });
        assert_eq!(other_family, addresses(&[], None));
        assert_eq!(reply(|it| *it.rcode_mut() = RCODE::NameError), Reply::NoName);
        let refused = reply(|it| *it.rcode_mut() = RCODE::Refused);
        assert_eq!(refused, Reply::Refused { code: "Refused".to_owned() });
        assert_eq!(reply(|it| it.set_flags(PacketFlag::TRUNCATION)), Reply::Truncated);
        assert_eq!(reply(|it| it.set_id(8)), Reply::Other);
        assert_eq!(reply(|it| it.questions.clear()), Reply::Other);
        assert_eq!(reply(|it| it.questions[0].qname = name("dtn.example.com")), Reply::Other);
        assert_eq!(reply(|it| it.remove_flags(PacketFlag::RESPONSE)), Reply::Other);
        assert!(ASKED.read(b"").is_err());
    }

    #[test]
    fn ipv4_within_ipv6_is_ipv4() {
        let asked = Question { family: Family::V6, ..ASKED };
        let query = asked.bytes();
        let mut reply = Packet::parse(&query).expect("a message").into_reply();
        for address in ["::ffff:192.0.2.1", "2001:db8::1"] {
            let address = address.parse::<Ipv6Addr>().expect("an address").to_bits();
            reply.answers.push(record(name("dtn.example.org"), 5, RData::AAAA(AAAA { address })));
        }
        let read = asked.read(&reply.build_bytes_vec().expect("bytes")).expect("a message");
        let Reply::Addresses { addresses, .. } = read else { panic!("{read:?}") };
        let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.1", "2001:db8::1"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = ASKED.read(&bytes);
            // With a head that is right.
            let _ = ASKED.read(&[ASKED.bytes(), bytes].concat());
        }
    }
}
