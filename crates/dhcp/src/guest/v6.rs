//! DHCPv6 (RFC 8415), as far as a server needs it whose client has fixed addresses.

use std::net::Ipv6Addr;

use super::{Answer, Guest, LEASE, REBINDING, RENEWAL, ip6, name};

const SOLICIT: u8 = 1;
const ADVERTISE: u8 = 2;
const REQUEST: u8 = 3;
const CONFIRM: u8 = 4;
const RENEW: u8 = 5;
const REBIND: u8 = 6;
const REPLY: u8 = 7;
const RELEASE: u8 = 8;
const DECLINE: u8 = 9;
const INFORMATION: u8 = 11;

const CLIENT_ID: u16 = 1;
const SERVER_ID: u16 = 2;
const ADDRESSES: u16 = 3;
const ADDRESS: u16 = 5;
const STATUS: u16 = 13;
const RAPID_COMMIT: u16 = 14;
const SERVERS: u16 = 23;
const SEARCH: u16 = 24;

const SUCCESS: u16 = 0;
const NOT_ON_LINK: u16 = 4;

/// A client's identifier is never longer, in bytes (RFC 8415 §11.1).
const LONGEST_ID: usize = 130;
/// So many options, and addresses of a client's, are read of one message.
const MOST: usize = 32;

pub(super) fn answer(guest: &Guest, from: Ipv6Addr, message: &[u8]) -> Option<Answer> {
    let (kind, exchange) = (*message.first()?, message.get(1..4)?);
    let options = read(message.get(4..)?)?;
    let client = find(&options, CLIENT_ID);
    if guest.v6.is_empty() || client.is_some_and(|id| id.len() > LONGEST_ID) {
        return None;
    }
    let own = server_id(guest);
    match (kind, find(&options, SERVER_ID)) {
        (REQUEST | RENEW | RELEASE | DECLINE, chosen) if chosen != Some(&own) => return None,
        (SOLICIT | CONFIRM | REBIND, Some(_)) => return None,
        (INFORMATION, Some(chosen)) if chosen != own => return None,
        _ => {}
    }
    // Only a client that wants nothing but settings may have no identifier.
    let client = match (client, kind) {
        (None, INFORMATION) => None,
        (None, _) => return None,
        (Some(client), _) => Some(client),
    };
    let is_rapid = kind == SOLICIT && find(&options, RAPID_COMMIT).is_some();
    let mut reply = vec![if kind == SOLICIT && !is_rapid { ADVERTISE } else { REPLY }];
    reply.extend_from_slice(exchange);
    if let Some(client) = client {
        put(&mut reply, CLIENT_ID, client);
    }
    put(&mut reply, SERVER_ID, &own);
    if is_rapid {
        put(&mut reply, RAPID_COMMIT, &[]);
    }
    say(guest, kind, &options, &mut reply)?;
    let to = ip6::to_client(ip6::link_local(guest.gateway), from, &reply);
    Some(Answer { to: guest.mac, packet: to })
}

/// What the kind of the message asks for. `None` where it is no client's.
fn say(guest: &Guest, kind: u8, options: &[(u16, &[u8])], reply: &mut Vec<u8>) -> Option<()> {
    match kind {
        SOLICIT | REQUEST | RENEW | REBIND => {
            for (_, asked) in options.iter().filter(|(code, _)| *code == ADDRESSES) {
                put(reply, ADDRESSES, &addresses(guest, asked)?);
            }
            settings(guest, reply);
        }
        CONFIRM => {
            let mut wanted = Vec::new();
            for (_, asked) in options.iter().filter(|(code, _)| *code == ADDRESSES) {
                wanted.extend(wanted_of(asked)?);
            }
            let is_on_link = |it: &Ipv6Addr| guest.v6.iter().any(|net| net.contains(it));
            let status = if wanted.iter().all(is_on_link) { SUCCESS } else { NOT_ON_LINK };
            put(reply, STATUS, &status.to_be_bytes());
        }
        RELEASE | DECLINE => put(reply, STATUS, &SUCCESS.to_be_bytes()),
        INFORMATION => settings(guest, reply),
        _ => return None,
    }
    Some(())
}

/// The machine's addresses for one of its interfaces' associations; others are over.
fn addresses(guest: &Guest, asked: &[u8]) -> Option<Vec<u8>> {
    let wanted = wanted_of(asked)?;
    let mut body = asked.get(..4)?.to_vec();
    body.extend(RENEWAL.to_be_bytes());
    body.extend(REBINDING.to_be_bytes());
    let own = guest.v6.iter().map(|net| (net.addr(), LEASE));
    let is_own = |it: &Ipv6Addr| guest.v6.iter().any(|net| net.addr() == *it);
    let over = wanted.into_iter().filter(|it| !is_own(it)).map(|it| (it, 0));
    for (address, lifetime) in own.chain(over) {
        let mut one = address.octets().to_vec();
        // Preferred, and valid.
        one.extend(lifetime.to_be_bytes());
        one.extend(lifetime.to_be_bytes());
        put(&mut body, ADDRESS, &one);
    }
    Some(body)
}

/// The addresses in a client's association.
fn wanted_of(asked: &[u8]) -> Option<Vec<Ipv6Addr>> {
    let inside = read(asked.get(12..)?)?;
    let addresses = inside.iter().filter(|(code, _)| *code == ADDRESS);
    addresses.map(|(_, value)| value.first_chunk::<16>().map(|it| Ipv6Addr::from(*it))).collect()
}

fn settings(guest: &Guest, reply: &mut Vec<u8>) {
    let servers: Vec<u8> = guest.servers_v6().flat_map(|server| server.octets()).collect();
    if !servers.is_empty() {
        put(reply, SERVERS, &servers);
    }
    let search = name::encode(&guest.search);
    if !search.is_empty() {
        put(reply, SEARCH, &search);
    }
}

/// The gateway's hardware address, of Ethernet (RFC 8415 §11.4).
fn server_id(guest: &Guest) -> Vec<u8> {
    let mut id = vec![0, 3, 0, 1];
    id.extend(guest.gateway.octets());
    id
}

fn find<'o>(options: &[(u16, &'o [u8])], code: u16) -> Option<&'o [u8]> {
    options.iter().find(|(there, _)| *there == code).map(|(_, value)| *value)
}

fn put(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend(code.to_be_bytes());
    to.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
    to.extend_from_slice(value);
}

/// `None` where they are damaged, or too many.
fn read(mut field: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut options = Vec::new();
    while !field.is_empty() {
        let (head, rest) = field.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (value, after) = rest.split_at_checked(length)?;
        options.push((u16::from_be_bytes([head[0], head[1]]), value));
        field = after;
        if options.len() > MOST {
            return None;
        }
    }
    Some(options)
}
