//! What becomes of a query.

use std::net::IpAddr;

use domain::base::Message;
use domain::base::iana::{Opcode, Rcode, Rtype};
use model::{NAME_DOMAIN, NetworkName};

use crate::fence::{self, Asked};
use crate::outside_query;
use crate::question::{Question, Transport, question};
use crate::refusal::{Refusal, Why};
use crate::reverse::{PrivateReverse, private_reverse, reversed};
use crate::table::{Asker, Entry, Table};
use crate::write;

/// What becomes of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This is the answer.
    Answer(Vec<u8>),
    /// It is not allowed or not understood; this says so.
    Refuse(Vec<u8>),
    /// Others know: these servers, or where there are none this host's.
    Forward(Vec<IpAddr>),
    /// They are asked this instead of what came, because the network has a fence.
    Ask(Vec<u8>, Vec<IpAddr>),
    /// The network's fence does not allow the name: this says that there is none, and it is reported.
    Deny(Vec<u8>, String),
    /// As [`Decision::Ask`]; without the fence's learning it would be refused, and is reported.
    Learn(Vec<u8>, Vec<IpAddr>, Box<Refusal>),
    /// It is no query, or no container's. Who answers answers starts a loop.
    Drop,
}

/// Decides on a message of an asker.
pub fn decide(table: &Table, asker: &Asker<'_>, message: &[u8], by: Transport) -> Decision {
    let Ok(query) = Message::from_octets(message) else { return Decision::Drop };
    let header = query.header();
    // An answer to an address that no container has waits in the gateway's socket for an address
    // resolution that never ends, and keeps the answers of others there.
    if header.qr() || !table.is_known(asker) {
        return Decision::Drop;
    }
    match answerable(&query) {
        Err(refusal) => refusal,
        Ok(question) => answered(table, asker, &query, &question, by),
    }
}

/// Decides on a message of this host, which is on every network: names below `.spoke` and addresses of networks are
/// answered. For everything else it has servers of its own.
pub fn decide_for_host(table: &Table, message: &[u8], by: Transport) -> Decision {
    let Ok(query) = Message::from_octets(message) else { return Decision::Drop };
    if query.header().qr() {
        return Decision::Drop;
    }
    let question = match answerable(&query) {
        Err(refusal) => return refusal,
        Ok(question) => question,
    };
    let is_ours =
        |address: IpAddr| table.places().iter().any(|place| place.gateway.contains(&address));
    match named(table, &table.networks(), &query, &question, by) {
        Some(decision) => decision,
        None if reversed(&question.name).is_some_and(is_ours) => {
            answer_code(&query, Rcode::NXDOMAIN)
        }
        None => refuse(&query, Rcode::REFUSED),
    }
}

/// What is asked, or what is to be said where that is nothing that is answered.
fn answerable(query: &Message<&[u8]>) -> Result<Question, Decision> {
    if query.header().opcode() != Opcode::QUERY {
        return Err(Decision::Refuse(write::header_only(query, Rcode::NOTIMP)));
    }
    match question(query) {
        Err(rcode) => Err(Decision::Refuse(write::header_only(query, rcode))),
        Ok(Question { kind: Rtype::AXFR | Rtype::IXFR, .. }) => Err(refuse(query, Rcode::REFUSED)),
        Ok(question) => Ok(question),
    }
}

/// Who on these networks is found by a name as it is written, or has an address.
pub fn lookup<'a>(table: &'a Table, networks: &[&NetworkName], name: &str) -> Vec<&'a Entry> {
    let lower = name.to_ascii_lowercase();
    let lower = lower.strip_suffix('.').unwrap_or(&lower);
    let address = lower.parse().ok().or_else(|| reversed(lower));
    if let Some(address) = address {
        return networks.iter().filter_map(|it| table.named_at(&[*it], address)).collect();
    }
    match of_network(table, networks, lower) {
        Some((_, entries)) => entries,
        None => table.find(networks, lower),
    }
}

fn answered(
    table: &Table,
    asker: &Asker<'_>,
    query: &Message<&[u8]>,
    question: &Question,
    by: Transport,
) -> Decision {
    let networks = table.networks_of(asker);
    if let Some(decision) = named(table, &networks, query, question, by) {
        return decision;
    }
    let entries = table.find(&networks, &question.name);
    if !entries.is_empty() {
        return found(&entries, query, question, by);
    }
    // This host's server asks the other network's gateway, which answers the host.
    if reversed(&question.name).is_some_and(|it| table.is_only_hosts(&networks, it)) {
        return answer_code(query, Rcode::NXDOMAIN);
    }
    if let Some(reverse) = private_reverse(table.subnets_of(&networks), &question.name) {
        return match reverse {
            PrivateReverse::Unused => answer_code(query, Rcode::NXDOMAIN),
            PrivateReverse::Domain => found(&[], query, question, by),
        };
    }
    let by_fence = fence::asked(table, asker, question);
    let who = by_fence.map_or(*asker, |(_, it)| it);
    let Some(servers) = table.servers_of(&who) else { return refuse(query, Rcode::REFUSED) };
    match by_fence.map(|(asked, _)| asked) {
        None => Decision::Forward(servers),
        Some(Asked::Forward) => match outside_query::query(question) {
            Some(asked) => Decision::Ask(asked, servers),
            None => answer_code(query, Rcode::FORMERR),
        },
        Some(Asked::Learn) => match outside_query::query(question) {
            Some(asked) => {
                let (network, source) = (who.network.clone(), who.address);
                let (name, why) = (question.name.clone(), Why::Learned);
                Decision::Learn(asked, servers, Box::new(Refusal { network, source, name, why }))
            }
            None => answer_code(query, Rcode::FORMERR),
        },
        Some(Asked::Nothing) => found(&[], query, question, by),
        Some(Asked::Deny) => deny(query, question),
    }
}

/// The part of a name before the domain of the first of these networks below which it is, and who is called so there. Of
/// several domains of one network it is the first below which a container is, or else the longest.
fn of_network<'t, 'n>(
    table: &'t Table,
    networks: &[&NetworkName],
    name: &'n str,
) -> Option<(&'n str, Vec<&'t Entry>)> {
    networks.iter().find_map(|network| {
        let domains = table.domains_of(network);
        let parts = domains.iter().filter_map(|domain| below(name, domain));
        let found = parts.map(|part| (part, table.find(&[*network], part)));
        found.min_by_key(|(part, entries)| if entries.is_empty() { part.len() + 1 } else { 0 })
    })
}

/// What is answered for a name below a network's domain, or for an address; `None` where it is neither.
fn named(
    table: &Table,
    networks: &[&NetworkName],
    query: &Message<&[u8]>,
    question: &Question,
    by: Transport,
) -> Option<Decision> {
    let found = |entries: &[&Entry]| Some(found(entries, query, question, by));
    if let Some(below) = below(&question.name, NAME_DOMAIN) {
        return match of_network(table, networks, &question.name) {
            // The domains themselves are there, and have no records.
            Some((name, entries)) if name.is_empty() || !entries.is_empty() => found(&entries),
            None if below.is_empty() => found(&[]),
            Some(_) | None => Some(answer_code(query, Rcode::NXDOMAIN)),
        };
    }
    if let Some(address) = reversed(&question.name)
        && let Some(entry) = table.named_at(networks, address)
    {
        let name = table.full_name(entry);
        return match question.kind {
            Rtype::PTR | Rtype::ANY if !entry.name.is_empty() => {
                let room = write::room_of(query, by);
                Some(write::pointer(query, &name, room).map_or(Decision::Drop, Decision::Answer))
            }
            _ => found(&[]),
        };
    }
    None
}

/// These, as far as they have addresses of the kind that is asked for.
fn found(
    entries: &[&Entry],
    query: &Message<&[u8]>,
    question: &Question,
    by: Transport,
) -> Decision {
    let addresses = wanted(entries, question.kind, query.header().id());
    let room = write::room_of(query, by);
    write::addresses(query, &addresses, room).map_or(Decision::Drop, Decision::Answer)
}

/// The addresses of the wanted kind, each once. Several take turns at being the first.
fn wanted(entries: &[&Entry], kind: Rtype, turn: u16) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Vec::new();
    for address in entries.iter().flat_map(|entry| &entry.addresses) {
        let is_wanted = match kind {
            Rtype::A => address.is_ipv4(),
            Rtype::AAAA => address.is_ipv6(),
            Rtype::ANY => true,
            _ => false,
        };
        if is_wanted && !all.contains(address) {
            all.push(*address);
        }
    }
    all.sort();
    if !all.is_empty() {
        let first = usize::from(turn) % all.len();
        all.rotate_left(first);
    }
    all
}

/// What stands before a domain in a name; empty for the domain itself.
fn below<'a>(name: &'a str, domain: &str) -> Option<&'a str> {
    let rest = name.strip_suffix(domain)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_suffix('.') }
}

/// [`Decision::Refuse`] with this code.
fn refuse(query: &Message<&[u8]>, rcode: Rcode) -> Decision {
    write::failure(query, rcode).map_or(Decision::Drop, Decision::Refuse)
}

/// [`Decision::Deny`]: with another code than NXDOMAIN resolvers would ask again, ask others, or wait.
fn deny(query: &Message<&[u8]>, question: &Question) -> Decision {
    match write::failure(query, Rcode::NXDOMAIN) {
        Some(message) => Decision::Deny(message, question.name.clone()),
        None => Decision::Drop,
    }
}

/// [`Decision::Answer`] with this code and without records.
fn answer_code(query: &Message<&[u8]>, rcode: Rcode) -> Decision {
    write::failure(query, rcode).map_or(Decision::Drop, Decision::Answer)
}

#[cfg(test)]
mod tests;
