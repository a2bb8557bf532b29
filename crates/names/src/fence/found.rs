//! What counts of an answer: the addresses of the asked name, at the end of its own chain of aliases.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::Rtype;
use domain::base::name::FlattenInto;
use domain::base::{Message, Name, ParsedName, Ttl};
use domain::rdata::{A, Aaaa, Cname};

use crate::record::{RECORDS, lifetime};
use crate::write;

/// How long an answer opens its addresses: programs use them a while longer than its time to live, and
/// connect once more.
const SHORTEST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(3600);
/// No honest chain of aliases is longer.
const ALIASES: usize = 16;

/// A name with the records that count.
pub(super) struct Found {
    pub(super) aliases: Vec<write::Alias>,
    pub(super) owner: Name<Vec<u8>>,
    pub(super) addresses: Vec<(IpAddr, Ttl)>,
}

impl Found {
    /// Follows the aliases of the asked name, and takes the addresses at their end. Records of other names,
    /// of other kinds and of other sections are passed over.
    pub(super) fn read(
        query: &Message<&[u8]>,
        answer: &Message<&[u8]>,
        kind: Rtype,
    ) -> Option<Self> {
        let mut owner: Name<Vec<u8>> =
            query.sole_question().ok()?.qname().try_flatten_into().ok()?;
        let section = answer.answer().ok()?;
        let mut known: Vec<write::Alias> = Vec::new();
        for record in section.limit_to_in::<Cname<ParsedName<&[u8]>>>().take(RECORDS) {
            let record = record.ok()?;
            let to = record.data().cname().try_flatten_into().ok()?;
            known.push((record.owner().try_flatten_into().ok()?, lifetime(record.ttl()), to));
        }
        let mut aliases = Vec::new();
        while let Some(next) = known.iter().find(|(from, ..)| *from == owner) {
            if aliases.len() == ALIASES {
                return None;
            }
            owner.clone_from(&next.2);
            aliases.push(next.clone());
            if kind == Rtype::CNAME {
                break;
            }
        }
        let mut addresses: Vec<(IpAddr, Ttl)> = Vec::new();
        let mut add = |from: &ParsedName<&[u8]>, address: IpAddr, ttl: Ttl| {
            if *from == owner && !addresses.iter().any(|(known, _)| *known == address) {
                addresses.push((address, ttl));
            }
        };
        if kind == Rtype::A {
            for record in section.limit_to_in::<A>().take(RECORDS) {
                let record = record.ok()?;
                add(record.owner(), record.data().addr().into(), lifetime(record.ttl()));
            }
        }
        if kind == Rtype::AAAA {
            for record in section.limit_to_in::<Aaaa>().take(RECORDS) {
                let record = record.ok()?;
                add(record.owner(), record.data().addr().into(), lifetime(record.ttl()));
            }
        }
        Some(Self { aliases, owner, addresses })
    }

    /// How long the addresses stay open: as the shortest time to live says, within bounds.
    pub(super) fn limit(&self) -> Duration {
        let aliases = self.aliases.iter().map(|(_, ttl, _)| *ttl);
        let ttls = aliases.chain(self.addresses.iter().map(|(_, ttl)| *ttl));
        let shortest = ttls.map(|ttl| Duration::from_secs(ttl.as_secs().into())).min();
        shortest.unwrap_or(SHORTEST).clamp(SHORTEST, LONGEST)
    }

    pub(super) fn parts(&self, is_cut: bool) -> write::Chain<'_> {
        let most = Ttl::from_secs(u32::try_from(LONGEST.as_secs()).unwrap_or(u32::MAX));
        write::Chain {
            aliases: &self.aliases,
            owner: &self.owner,
            addresses: &self.addresses,
            most,
            is_cut,
        }
    }
}
