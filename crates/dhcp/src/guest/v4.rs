//! DHCP for IPv4.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::Ipv4Net;

use super::{Answer, Guest, LEASE, REBINDING, RENEWAL, name};
use crate::packet::{CLIENT, Kind, Message, SERVER, code, unwrap_between, wrap_between};

/// Every station of a link.
const EVERYBODY: model::Mac = model::Mac::new([0xff; 6]);

pub(super) fn answer(guest: &Guest, packet: &[u8]) -> Option<Answer> {
    let (_, bytes) = unwrap_between(packet, (CLIENT, SERVER))?;
    let asked = Message::decode(bytes)?;
    let (own, server) = guest.v4?;
    if asked.reply || asked.mac != guest.mac {
        return None;
    }
    // Another server was chosen, on another segment by then.
    if asked.address(code::SERVER).is_some_and(|chosen| chosen != server) {
        return None;
    }
    let kind = kind(&asked, own.addr())?;
    let mut reply = Message { reply: true, ..Message::of(guest.mac, asked.exchange) };
    reply.broadcast = asked.broadcast;
    reply.options = match kind {
        Kind::Nak => BTreeMap::new(),
        _ => options(guest, own),
    };
    match asked.kind() {
        Some(Kind::Inform) => {
            reply.client = asked.client;
            for lease in [code::LEASE_TIME, code::RENEWAL, code::REBINDING] {
                reply.options.remove(&lease);
            }
        }
        _ if kind != Kind::Nak => {
            reply.client = asked.client;
            reply.yours = own.addr();
        }
        _ => {}
    }
    reply.options.insert(code::MESSAGE_TYPE, vec![kind as u8]);
    reply.options.insert(code::SERVER, server.octets().to_vec());
    Some(sent(guest, server, &reply))
}

/// The kind of the answer.
fn kind(asked: &Message, own: Ipv4Addr) -> Option<Kind> {
    match asked.kind()? {
        Kind::Discover => Some(Kind::Offer),
        Kind::Inform => Some(Kind::Ack),
        Kind::Request => {
            let held = Some(asked.client).filter(|client| !client.is_unspecified());
            let wanted = asked.address(code::REQUESTED_ADDRESS).or(held);
            Some(if wanted == Some(own) { Kind::Ack } else { Kind::Nak })
        }
        // The address stays the machine's whatever it says of it.
        Kind::Decline | Kind::Release | Kind::Offer | Kind::Ack | Kind::Nak => None,
    }
}

/// As RFC 2131 §4.1 says, without a relay.
fn sent(guest: &Guest, server: Ipv4Addr, reply: &Message) -> Answer {
    let refuses = reply.yours.is_unspecified() && reply.client.is_unspecified();
    let (to, station) = if !reply.client.is_unspecified() {
        (reply.client, guest.mac)
    } else if reply.broadcast || refuses {
        (Ipv4Addr::BROADCAST, EVERYBODY)
    } else {
        (reply.yours, guest.mac)
    };
    Answer { to: station, packet: wrap_between((server, SERVER), (to, CLIENT), &reply.encode()) }
}

fn options(guest: &Guest, own: Ipv4Net) -> BTreeMap<u8, Vec<u8>> {
    let mut options = BTreeMap::from([
        (code::SUBNET_MASK, own.netmask().octets().to_vec()),
        (code::LEASE_TIME, LEASE.to_be_bytes().to_vec()),
        (code::RENEWAL, RENEWAL.to_be_bytes().to_vec()),
        (code::REBINDING, REBINDING.to_be_bytes().to_vec()),
    ]);
    let default = guest.routes.iter().find(|(dst, _)| dst.prefix_len() == 0);
    if let Some((_, via)) = default {
        options.insert(code::ROUTERS, via.octets().to_vec());
    }
    if guest.routes.iter().any(|(dst, _)| dst.prefix_len() != 0) {
        options.insert(code::ROUTES, routes(&guest.routes));
    }
    let servers: Vec<u8> = guest.servers_v4().flat_map(|server| server.octets()).collect();
    if !servers.is_empty() {
        options.insert(code::DNS, servers);
    }
    if let Some(domain) = guest.search.first() {
        options.insert(code::DOMAIN, domain.clone().into_bytes());
        options.insert(code::SEARCH, name::encode(&guest.search));
    }
    if let Some(name) = &guest.name {
        options.insert(code::HOST_NAME, name.clone().into_bytes());
    }
    if let Some(mtu) = guest.mtu {
        options.insert(code::MTU, mtu.to_be_bytes().to_vec());
    }
    options
}

/// All of them, the default route too: who reads these reads no other (RFC 3442).
fn routes(all: &[(Ipv4Net, Ipv4Addr)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (dst, via) in all {
        bytes.push(dst.prefix_len());
        let significant = usize::from(dst.prefix_len().div_ceil(8));
        bytes.extend(dst.network().octets().into_iter().take(significant));
        bytes.extend(via.octets());
    }
    bytes
}
