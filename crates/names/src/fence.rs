//! Names on a network with a fence: which are asked for, and what their answers open.
//!
//! Nothing here does I/O. Whatever a server answers is hostile: only the addresses of the asked name count,
//! by its own chain of aliases, and the answer that a container gets is made anew.
//!
//! A container on several networks with fences is answered what the rules of any of them allow, and each opens
//! what it allows: by which network the container uses an address is not known here.

mod found;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use domain::base::Message;
use domain::base::iana::{Rcode, Rtype};
use model::{DomainName, Fence, IfName, NetworkName, Service, behind_nat64, is_public};

use crate::holder::Holder;
use crate::outside_query;
use crate::question::{Question, Transport, question};
use crate::table::{Asker, Table};
use crate::write;
use found::Found;

/// More addresses of one answer are left out, and more ways to them are not opened.
const ADDRESSES: usize = 32;
const OPENINGS: usize = 512;

/// What becomes of a query that the network's own names do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Servers are asked.
    Forward,
    /// They are, because the fence only records now; else it would be refused.
    Learn,
    /// The name is allowed, and has nothing of that kind.
    Nothing,
    /// No server is asked: the name is denied.
    Deny,
}

/// What an answer becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What the container is answered, once all of it is open.
    pub message: Vec<u8>,
    /// What it opens: by the rules of one network, or of several that the container is on.
    pub by: Vec<Judged>,
    /// Addresses that were left out, because they are not a public name's.
    pub dropped: Vec<IpAddr>,
}

/// What an answer opens on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// On which network.
    pub network: NetworkName,
    /// Its bridge.
    pub bridge: IfName,
    /// The attachment that the container has there, and still has.
    pub holder: Holder,
    /// The address by which it is known there.
    pub asker: IpAddr,
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
}

/// An answer on the way to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The network has no fence.
    AsItIs,
    /// This is answered instead, once its addresses are open.
    Answer(Box<Judgement>),
    /// Nothing is: the rules have changed, or the message is none.
    Refuse(Vec<u8>),
}

/// Rules that allow a name, or learn, of one network that the container is on.
struct Allowing<'a> {
    asker: Asker<'a>,
    fence: &'a Fence,
    is_learning: bool,
    services: Vec<Service>,
}

/// Decides on a query before anybody is asked, and by the rules of which network.
pub(crate) fn asked<'a>(
    table: &'a Table,
    asker: &Asker<'a>,
    question: &Question,
) -> Option<(Asked, Asker<'a>)> {
    let askers = table.askers_of(asker);
    let allows = |it: &&Asker<'a>| {
        let fence = table.fence_of_asker(it);
        fence.is_some_and(|fence| services(fence, &question.name).is_some())
    };
    if let Some(by) = askers.iter().find(allows) {
        let is_asked_for = outside_query::is_asked_for(question.kind);
        return Some((if is_asked_for { Asked::Forward } else { Asked::Nothing }, *by));
    }
    // A name that no rule can name goes nowhere: its characters would carry anything out.
    let can_be_allowed = question.name.parse::<DomainName>().is_ok();
    match askers.iter().find(|it| can_be_allowed && table.is_learning(it)) {
        Some(by) => Some((Asked::Learn, *by)),
        None => Some((Asked::Deny, *askers.first()?)),
    }
}

/// The name and the ports that the fence allows of it; `None` where it allows none.
fn services(fence: &Fence, name: &str) -> Option<Vec<Service>> {
    let name: DomainName = name.parse().ok()?;
    let services = fence.services_of(&name);
    (!services.is_empty()).then_some(services)
}

/// Judges what a server answered. `is_near` says which addresses are this host's or its
/// containers'.
pub fn judge(
    table: &Table,
    asker: &Asker<'_>,
    (query, answer): (&[u8], &[u8]),
    by: Transport,
    is_near: &dyn Fn(IpAddr) -> bool,
) -> Verdict {
    let askers = table.askers_of(asker);
    if askers.is_empty() {
        return Verdict::AsItIs;
    }
    let Ok(query) = Message::from_octets(query) else { return Verdict::Refuse(Vec::new()) };
    let failed = |rcode| Verdict::Refuse(write::failure(&query, rcode).unwrap_or_default());
    let Ok(question) = question(&query) else { return failed(Rcode::FORMERR) };
    let allowing: Vec<_> =
        askers.iter().filter_map(|it| Allowing::of(table, it, &question.name)).collect();
    // A name that no rule can name is refused while the fence learns, too.
    let Some(name) = question.name.parse().ok().filter(|_| !allowing.is_empty()) else {
        return failed(Rcode::NXDOMAIN);
    };
    let Ok(answer) = Message::from_octets(answer) else { return failed(Rcode::SERVFAIL) };
    let found = match Found::read(&query, &answer, question.kind) {
        Some(found) if !answer.header().tc() || !found.addresses.is_empty() => found,
        // Without addresses there is nothing to use of it: the asker comes again over TCP.
        _ if answer.header().tc() => {
            return Verdict::Refuse(write::truncated(&query).unwrap_or_default());
        }
        Some(_) | None => return failed(Rcode::SERVFAIL),
    };
    let room = write::room_of(&query, by);
    let judged = answered(table, &allowing, (&query, &answer, room), (name, found), is_near);
    judged.map_or_else(|| failed(Rcode::SERVFAIL), |it| Verdict::Answer(Box::new(it)))
}

/// The answer that is made of what was found, and what it opens. `None` where there is none.
fn answered(
    table: &Table,
    allowing: &[Allowing<'_>],
    (query, answer, room): (&Message<&[u8]>, &Message<&[u8]>, usize),
    (name, mut found): (DomainName, Found),
    is_near: &dyn Fn(IpAddr) -> bool,
) -> Option<Judgement> {
    let is_given = |address| allowing.iter().any(|it| it.gives(address, is_near));
    let dropped: Vec<IpAddr> =
        found.addresses.iter().map(|(it, _)| *it).filter(|it| !is_given(*it)).collect();
    found.addresses.retain(|(address, _)| is_given(*address));
    let most = allowing.iter().map(Allowing::most).min();
    found.addresses.truncate(most.unwrap_or(ADDRESSES));
    let limit = found.limit();
    let kind = query.sole_question().ok()?.qtype();
    let others = if is_address(kind) { None } else { Some((answer, kind)) };
    let (parts, rcode) = (found.parts(answer.header().tc()), answer.header().rcode());
    let (message, count) = write::chain(query, rcode, &parts, others, room)?;
    let all: Vec<IpAddr> = found.addresses.iter().take(count).map(|(it, _)| *it).collect();
    let judged = allowing.iter().map(|it| it.judged(table, &name, (&all, limit), is_near));
    Some(Judgement { message, by: judged.collect::<Option<_>>()?, dropped })
}

impl<'a> Allowing<'a> {
    /// `None` where they allow nothing of the name, and do not learn.
    fn of(table: &'a Table, asker: &Asker<'a>, name: &str) -> Option<Self> {
        let (fence, is_learning) = (table.fence_of_asker(asker)?, table.is_learning(asker));
        let services = services(fence, name).or_else(|| is_learning.then(Vec::new))?;
        Some(Self { asker: *asker, fence, is_learning, services })
    }

    /// Whether an address is answered by these rules.
    fn gives(&self, address: IpAddr, is_near: &dyn Fn(IpAddr) -> bool) -> bool {
        is_elsewhere(address, is_near) || self.is_learning || self.fence.covers(address)
    }

    /// So many addresses can be opened.
    fn most(&self) -> usize {
        let ports: usize = self.services.iter().map(|service| service.ports().len()).sum();
        ADDRESSES.min(OPENINGS / ports.max(1)).max(1)
    }

    /// What these rules open of the addresses that the answer has.
    fn judged(
        &self,
        table: &Table,
        name: &DomainName,
        (all, limit): (&[IpAddr], Duration),
        is_near: &dyn Fn(IpAddr) -> bool,
    ) -> Option<Judged> {
        let asker = &self.asker;
        let of = |to: IpAddr| self.services.iter().map(move |service| (to, *service));
        let opened = all.iter().copied().filter(|it| is_elsewhere(*it, is_near)).flat_map(of);
        Some(Judged {
            network: asker.network.clone(),
            bridge: table.bridge_of(asker.network)?.clone(),
            holder: table.holder_of(asker)?.clone(),
            asker: asker.address,
            fence: self.fence.clone(),
            name: name.clone(),
            sources: table.addresses_of(asker),
            addresses: all.iter().copied().filter(|it| self.gives(*it, is_near)).collect(),
            opened: opened.collect(),
            limit,
        })
    }
}

fn is_elsewhere(address: IpAddr, is_near: &dyn Fn(IpAddr) -> bool) -> bool {
    let is_near = |address: IpAddr| is_near(address) || behind_nat64(address).is_some_and(is_near);
    is_public(address) && !is_near(address)
}

fn is_address(kind: Rtype) -> bool {
    matches!(kind, Rtype::A | Rtype::AAAA | Rtype::CNAME)
}
