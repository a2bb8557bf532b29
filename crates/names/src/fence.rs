//! Names on a network with a fence: which are asked for, and what their answers open.
//!
//! Nothing here does I/O. Whatever a server answers is hostile: only the addresses of the asked name count,
//! by its own chain of aliases, and the answer that a container gets is made anew.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::name::FlattenInto;
use domain::base::{Message, Name, ParsedName, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Cname};
use model::{DomainName, Fence, IfName, NetworkName, Service, is_public};

use crate::anew;
use crate::decide::{Question, Transport, question};
use crate::holder::Holder;
use crate::table::{Asker, Table};
use crate::write;

/// How long an answer opens its addresses: programs use them a while longer than its time to live, and
/// connect once more.
const SHORTEST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(3600);
/// No honest chain of aliases is longer.
const ALIASES: usize = 16;
/// More addresses of one answer are left out, and more ways to them are not opened.
const ADDRESSES: usize = 32;
const OPENINGS: usize = 512;
/// Records that are read of one section.
const RECORDS: usize = 1024;

/// What becomes of a query that the network's own names do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Servers are asked.
    Forward,
    /// They are, because the fence only records now; else it would be refused.
    Learn,
    /// The name is allowed, and has nothing of that kind.
    Nothing,
    /// Nobody is asked.
    Refuse,
}

/// What an answer becomes, and what it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What the container is answered.
    pub message: Vec<u8>,
    /// On which network.
    pub network: NetworkName,
    /// Its bridge.
    pub bridge: IfName,
    /// The attachment that asked, and still has the address.
    pub holder: Holder,
    /// The rules by which this is opened.
    pub fence: Fence,
    /// The name that was asked for.
    pub name: DomainName,
    /// The addresses of the container.
    pub sources: Vec<IpAddr>,
    /// The addresses that it was answered.
    pub addresses: Vec<IpAddr>,
    /// Those of them that are opened, with the ports.
    pub opened: Vec<(IpAddr, Service)>,
    /// For how long.
    pub limit: Duration,
    /// Addresses that were left out, because they are not a public name's.
    pub dropped: Vec<IpAddr>,
}

/// An answer on the way to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The network has no fence.
    AsItIs,
    /// This is answered instead, once its addresses are open.
    Answer(Box<Judged>),
    /// Nothing is: the rules have changed, or the message is none.
    Refuse(Vec<u8>),
}

/// A name with the records that count.
struct Found {
    aliases: Vec<write::Alias>,
    owner: Name<Vec<u8>>,
    addresses: Vec<(IpAddr, Ttl)>,
}

/// Decides on a query before anybody is asked.
pub(crate) fn asked(table: &Table, asker: &Asker<'_>, question: &Question) -> Option<Asked> {
    let services = services(table.fence_of_asker(asker)?, &question.name);
    Some(match services.is_some() {
        true if anew::is_asked_for(question.kind) => Asked::Forward,
        true => Asked::Nothing,
        false if table.is_learning(asker) => Asked::Learn,
        false => Asked::Refuse,
    })
}

/// The name and the ports that the fence allows of it; `None` where it allows none.
fn services(fence: &Fence, name: &str) -> Option<(DomainName, Vec<Service>)> {
    let name: DomainName = name.parse().ok()?;
    let services = fence.services_of(&name);
    (!services.is_empty()).then_some((name, services))
}

/// Judges what a server answered. `is_host` says which addresses are this host's.
pub fn judge(
    table: &Table,
    asker: &Asker<'_>,
    (query, answer): (&[u8], &[u8]),
    by: Transport,
    is_host: &dyn Fn(IpAddr) -> bool,
) -> Verdict {
    let Some(fence) = table.fence_of_asker(asker) else { return Verdict::AsItIs };
    let Ok(query) = Message::from_octets(query) else { return Verdict::Refuse(Vec::new()) };
    let failed = |rcode| Verdict::Refuse(write::failure(&query, rcode).unwrap_or_default());
    let Ok(question) = question(&query) else { return failed(Rcode::FORMERR) };
    let allowed = services(fence, &question.name);
    let is_learning = table.is_learning(asker);
    if allowed.is_none() && !is_learning {
        return failed(Rcode::NXDOMAIN);
    }
    let Ok(answer) = Message::from_octets(answer) else { return failed(Rcode::SERVFAIL) };
    let room = write::room_of(&query, by);
    if answer.header().tc() {
        return Verdict::Refuse(write::truncated(&query).unwrap_or_default());
    }
    let Some(mut found) = Found::read(&query, &answer, question.kind) else {
        return failed(Rcode::SERVFAIL);
    };
    let (name, services) = match allowed {
        Some(allowed) => allowed,
        // A name that no rule can name is resolved while the fence learns, and suggested to nobody.
        None => match question.name.parse() {
            Ok(name) => (name, Vec::new()),
            Err(_) => return failed(Rcode::NXDOMAIN),
        },
    };
    let is_given = |address: IpAddr| {
        let is_elsewhere = is_public(address) && !is_host(address);
        is_elsewhere || is_learning || fence.covers(address)
    };
    let dropped: Vec<IpAddr> =
        found.addresses.iter().map(|(it, _)| *it).filter(|it| !is_given(*it)).collect();
    found.addresses.retain(|(address, _)| is_given(*address));
    let ports: usize = services.iter().map(|service| service.ports().len()).sum();
    found.addresses.truncate(ADDRESSES.min(OPENINGS / ports.max(1)).max(1));
    let limit = found.limit();
    let others = if is_address(question.kind) { None } else { Some((&answer, question.kind)) };
    let written = write::chain(&query, answer.header().rcode(), &found.parts(), others, room);
    let Some((message, count)) = written else { return failed(Rcode::SERVFAIL) };
    found.addresses.truncate(count);
    let addresses: Vec<IpAddr> = found.addresses.iter().map(|(address, _)| *address).collect();
    let is_opened = |address: &&IpAddr| is_public(**address) && !is_host(**address);
    let opened = addresses.iter().filter(is_opened);
    let opened = opened.flat_map(|to| services.iter().map(|service| (*to, *service))).collect();
    let Some((bridge, holder)) = table.bridge_of(asker.network).zip(table.holder_of(asker)) else {
        return failed(Rcode::SERVFAIL);
    };
    Verdict::Answer(Box::new(Judged {
        message,
        network: asker.network.clone(),
        bridge: bridge.clone(),
        holder: holder.clone(),
        fence: fence.clone(),
        name,
        sources: table.addresses_of(asker),
        addresses,
        opened,
        limit,
        dropped,
    }))
}

fn is_address(kind: Rtype) -> bool {
    matches!(kind, Rtype::A | Rtype::AAAA | Rtype::CNAME)
}

impl Found {
    /// Follows the aliases of the asked name, and takes the addresses at their end. Records of other names,
    /// of other kinds and of other sections are passed over.
    fn read(query: &Message<&[u8]>, answer: &Message<&[u8]>, kind: Rtype) -> Option<Self> {
        let mut owner: Name<Vec<u8>> =
            query.sole_question().ok()?.qname().try_flatten_into().ok()?;
        let section = answer.answer().ok()?;
        let mut known: Vec<write::Alias> = Vec::new();
        for record in section.limit_to_in::<Cname<ParsedName<&[u8]>>>().take(RECORDS) {
            let record = record.ok()?;
            let to = record.data().cname().try_flatten_into().ok()?;
            known.push((record.owner().try_flatten_into().ok()?, record.ttl(), to));
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
                add(record.owner(), record.data().addr().into(), record.ttl());
            }
        }
        if kind == Rtype::AAAA {
            for record in section.limit_to_in::<Aaaa>().take(RECORDS) {
                let record = record.ok()?;
                add(record.owner(), record.data().addr().into(), record.ttl());
            }
        }
        Some(Self { aliases, owner, addresses })
    }

    /// How long the addresses stay open: as the shortest time to live says, within bounds.
    fn limit(&self) -> Duration {
        let aliases = self.aliases.iter().map(|(_, ttl, _)| *ttl);
        let ttls = aliases.chain(self.addresses.iter().map(|(_, ttl)| *ttl));
        let shortest = ttls.map(|ttl| Duration::from_secs(ttl.as_secs().into())).min();
        shortest.unwrap_or(SHORTEST).clamp(SHORTEST, LONGEST)
    }

    fn parts(&self) -> write::Chain<'_> {
        let most = Ttl::from_secs(u32::try_from(LONGEST.as_secs()).unwrap_or(u32::MAX));
        write::Chain {
            aliases: &self.aliases,
            owner: &self.owner,
            addresses: &self.addresses,
            most,
        }
    }
}

/// The records of one kind that a message has of a name.
pub(crate) fn records_of<'a>(
    answer: &'a Message<&'a [u8]>,
    owner: &'a Name<Vec<u8>>,
    kind: Rtype,
) -> impl Iterator<Item = (Ttl, AllRecordData<&'a [u8], ParsedName<&'a [u8]>>)> {
    let section = answer.answer().ok();
    let records = section.map(|section| section.limit_to_in::<AllRecordData<_, _>>());
    let records = records.into_iter().flatten().take(RECORDS).filter_map(Result::ok);
    let records = records.filter(move |it| it.owner() == owner && it.rtype() == kind);
    records.map(|record| (record.ttl(), record.into_data()))
}

#[cfg(test)]
mod tests;
