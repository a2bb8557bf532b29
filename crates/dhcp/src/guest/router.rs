//! Router advertisements (RFC 4861 §4.2, RFC 8106): the gateway, the subnets on the link, and that
//! addresses come by DHCPv6.

use std::net::Ipv6Addr;

use super::{Answer, Guest, ip6};

const ADVERTISEMENT: u8 = 134;
const HOPS: u8 = 64;
/// Addresses and everything else come by DHCPv6.
const MANAGED: u8 = 0xc0;
/// In seconds: as long as there can be (RFC 8319), because the gateway outlives the daemon.
const LIFETIME: u16 = u16::MAX;
/// All stations of the link, and their hardware address.
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ON_LINK: u8 = 0x80;
const SOURCE: u8 = 1;
const PREFIX: u8 = 3;
const MTU: u8 = 5;
const SERVERS: u8 = 25;
/// More do not matter to a resolver.
const MOST_SERVERS: usize = 8;

/// For the machine that asks from this address. It may have none yet.
pub(super) fn advertisement(guest: &Guest, asker: Option<Ipv6Addr>) -> Option<Answer> {
    if guest.v6.is_empty() {
        return None;
    }
    let from = ip6::link_local(guest.gateway);
    let to = asker.filter(|asker| !asker.is_unspecified()).unwrap_or(ALL);
    let mut message = vec![ADVERTISEMENT, 0, 0, 0, HOPS, MANAGED];
    message.extend(if guest.leads_v6 { LIFETIME } else { 0 }.to_be_bytes());
    message.extend([0; 8]);
    message.extend([SOURCE, 1]);
    message.extend(guest.gateway.octets());
    for net in &guest.v6 {
        message.extend([PREFIX, 4, net.prefix_len(), ON_LINK]);
        // Valid and preferred for ever, and a reserved field.
        message.extend([0xff; 8]);
        message.extend([0; 4]);
        message.extend(net.network().octets());
    }
    if let Some(mtu) = guest.mtu {
        message.extend([MTU, 1, 0, 0]);
        message.extend(u32::from(mtu).to_be_bytes());
    }
    let servers: Vec<Ipv6Addr> = guest.servers_v6().take(MOST_SERVERS).collect();
    if let Ok(count) = u8::try_from(servers.len())
        && count > 0
    {
        message.extend([SERVERS, 1 + 2 * count, 0, 0]);
        message.extend([0xff; 4]);
        message.extend(servers.iter().flat_map(Ipv6Addr::octets));
    }
    Some(Answer { to: guest.mac, packet: ip6::icmp(from, to, message) })
}
