//! Messages that are sent.

use std::net::IpAddr;

use domain::base::iana::{Opcode, Rcode, Rtype};
use domain::base::message_builder::{AnswerBuilder, PushError};
use domain::base::name::FlattenInto;
use domain::base::{Message, MessageBuilder, Name, StaticCompressor, Ttl};
use domain::rdata::{A, Aaaa, Cname, Ptr};

use crate::question::Transport;
use crate::record::records_of;

/// How much of an answer is taken in one datagram (RFC 9715).
pub(crate) const PAYLOAD: u16 = 1232;
/// What a datagram holds where the query says nothing (RFC 1035 §4.2.1).
const PLAIN: usize = 512;
/// Container come and go: nothing is kept (seconds).
const TTL: u32 = 0;

/// How long an answer of ours may be, in bytes: what the query says, within reason.
pub(crate) fn room(query: &Message<&[u8]>) -> usize {
    taken(query).min(usize::from(PAYLOAD))
}

/// How long an answer the asker takes in a datagram, in bytes.
fn taken(query: &Message<&[u8]>) -> usize {
    query.opt().map_or(0, |opt| usize::from(opt.udp_payload_size())).max(PLAIN)
}

/// An answer of another server, or that it is longer than the query says that the asker takes.
pub(crate) fn fitting(answer: Vec<u8>, query: &[u8], by: Transport) -> Vec<u8> {
    let Ok(query) = Message::from_octets(query) else { return answer };
    match by == Transport::Udp && answer.len() > taken(&query) {
        true => truncated(&query).unwrap_or_default(),
        false => answer,
    }
}

/// The addresses of a name; of a name that has none of the wanted kind, nothing. Where not all fit, those
/// that do are sent with the mark that there are more, and the asker comes again over TCP (RFC 2181 §9).
pub(crate) fn addresses(query: &Message<&[u8]>, all: &[IpAddr], room: usize) -> Option<Vec<u8>> {
    let name = owner(query)?;
    let mut count = all.len();
    loop {
        let fill = |answer: &mut Building| {
            for address in all.iter().take(count) {
                match address {
                    IpAddr::V4(v4) => answer.push((&name, TTL, A::new(*v4)))?,
                    IpAddr::V6(v6) => answer.push((&name, TTL, Aaaa::new(*v6)))?,
                }
            }
            Ok(())
        };
        let answer = built(query, Rcode::NOERROR, count < all.len(), fill)?;
        if answer.len() <= room || count == 0 {
            return Some(answer);
        }
        count = (count * room / answer.len()).min(count - 1);
    }
}

/// The room for an answer that comes back by the way of its query.
pub(crate) fn room_of(query: &Message<&[u8]>, by: Transport) -> usize {
    match by {
        Transport::Udp => room(query),
        Transport::Tcp => usize::from(u16::MAX),
    }
}

/// A name, for how long it stands for another one, and that one.
pub(crate) type Alias = (Name<Vec<u8>>, Ttl, Name<Vec<u8>>);

/// A name's aliases, and the addresses at their end.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    pub(crate) aliases: &'a [Alias],
    pub(crate) owner: &'a Name<Vec<u8>>,
    pub(crate) addresses: &'a [(IpAddr, Ttl)],
    /// Nothing is to be kept longer.
    pub(crate) most: Ttl,
    /// There are more than these.
    pub(crate) is_cut: bool,
}

/// An answer of these, or of the records of another kind that a message has at the end of the aliases. Says
/// how many addresses it has: those that fit.
pub(crate) fn chain(
    query: &Message<&[u8]>,
    rcode: Rcode,
    chain: &Chain<'_>,
    others: Option<(&Message<&[u8]>, Rtype)>,
    room: usize,
) -> Option<(Vec<u8>, usize)> {
    let mut count = chain.addresses.len();
    loop {
        let fill = |answer: &mut Building| {
            for (from, ttl, to) in chain.aliases {
                answer.push((from, (*ttl).min(chain.most), Cname::new(to)))?;
            }
            for (address, ttl) in chain.addresses.iter().take(count) {
                let ttl = (*ttl).min(chain.most);
                match address {
                    IpAddr::V4(v4) => answer.push((chain.owner, ttl, A::new(*v4)))?,
                    IpAddr::V6(v6) => answer.push((chain.owner, ttl, Aaaa::new(*v6)))?,
                }
            }
            let records = others.map(|(from, kind)| records_of(from, chain.owner, kind));
            for (ttl, data) in records.into_iter().flatten() {
                answer.push((chain.owner, ttl.min(chain.most), data))?;
            }
            Ok(())
        };
        let is_cut = chain.is_cut || count < chain.addresses.len();
        let answer = built(query, rcode, is_cut, fill)?;
        match answer.len() <= room {
            true => return Some((answer, count)),
            false if count == 0 => return Some((truncated(query)?, 0)),
            false => count = (count * room / answer.len()).min(count - 1),
        }
    }
}

/// What an asker gets whose answer is longer than it takes: the mark that there is more.
pub(crate) fn truncated(query: &Message<&[u8]>) -> Option<Vec<u8>> {
    built(query, Rcode::NOERROR, true, |_| Ok(()))
}

/// The name of an address.
pub(crate) fn pointer(query: &Message<&[u8]>, name: &str, room: usize) -> Option<Vec<u8>> {
    let (owner, target) = (owner(query)?, name.parse::<Name<Vec<u8>>>().ok()?);
    let fill = |answer: &mut Building| answer.push((&owner, TTL, Ptr::new(&target)));
    finished(query, Rcode::NOERROR, room, fill)
}

/// An answer without records.
pub(crate) fn failure(query: &Message<&[u8]>, rcode: Rcode) -> Option<Vec<u8>> {
    finished(query, rcode, PLAIN, |_| Ok(()))
}

/// That no server answered.
pub(crate) fn server_failure(query: &[u8]) -> Vec<u8> {
    let query = Message::from_octets(query).ok();
    query.and_then(|query| failure(&query, Rcode::SERVFAIL)).unwrap_or_default()
}

/// What a message that cannot be understood gets: its header again, and nothing else.
pub(crate) fn header_only(query: &Message<&[u8]>, rcode: Rcode) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    let header = builder.header_mut();
    header.set_id(query.header().id());
    header.set_qr(true);
    header.set_opcode(match query.header().opcode() {
        known @ (Opcode::QUERY | Opcode::NOTIFY | Opcode::UPDATE | Opcode::STATUS) => known,
        _ => Opcode::QUERY,
    });
    header.set_rcode(rcode);
    builder.finish()
}

type Building = AnswerBuilder<StaticCompressor<Vec<u8>>>;

fn owner(query: &Message<&[u8]>) -> Option<Name<Vec<u8>>> {
    query.sole_question().ok()?.qname().try_flatten_into().ok()
}

/// What does not fit is not sent at all, and the asker comes again over TCP (RFC 2181 §9).
fn finished(
    query: &Message<&[u8]>,
    rcode: Rcode,
    room: usize,
    fill: impl Fn(&mut Building) -> Result<(), PushError>,
) -> Option<Vec<u8>> {
    let whole = built(query, rcode, false, fill)?;
    if whole.len() <= room { Some(whole) } else { built(query, rcode, true, |_| Ok(())) }
}

fn built(
    query: &Message<&[u8]>,
    rcode: Rcode,
    truncated: bool,
    fill: impl Fn(&mut Building) -> Result<(), PushError>,
) -> Option<Vec<u8>> {
    let builder = MessageBuilder::from_target(StaticCompressor::new(Vec::new())).ok()?;
    let mut answer = builder.start_answer(query, rcode).ok()?;
    fill(&mut answer).ok()?;
    let header = answer.header_mut();
    header.set_ra(true);
    header.set_aa(rcode == Rcode::NOERROR || rcode == Rcode::NXDOMAIN);
    header.set_tc(truncated);
    let mut additional = answer.additional();
    if query.opt().is_some() {
        let sized = additional.opt(|opt| {
            opt.set_udp_payload_size(PAYLOAD);
            Ok(())
        });
        sized.ok()?;
    }
    Some(additional.finish().into_target())
}
