//! The options of a server (RFC 2132, RFC 3397, RFC 3442).

use std::net::Ipv4Addr;

use model::{Ipv4Net, Mac};
use serde::{Deserialize, Serialize};

use super::Message;

/// The numbers of options.
#[allow(missing_docs)]
pub mod code {
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTERS: u8 = 3;
    pub const DNS: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN: u8 = 15;
    pub const MTU: u8 = 26;
    pub const STATIC_ROUTES: u8 = 33;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const PARAMETERS: u8 = 55;
    pub const MESSAGE: u8 = 56;
    pub const LARGEST: u8 = 57;
    pub const RENEWAL: u8 = 58;
    pub const REBINDING: u8 = 59;
    pub const CLIENT: u8 = 61;
    pub const SEARCH: u8 = 119;
    pub const ROUTES: u8 = 121;
    pub const MICROSOFT_ROUTES: u8 = 249;
}

/// The lease of a server that does not say how long it is, in seconds: an hour, as the reference
/// assumes.
const LEASE: u32 = 3600;
/// The limit of a server's domains; further ones are ignored.
const DOMAINS: usize = 32;
/// A domain name, in bytes (RFC 1035 §2.3.4).
const NAME: usize = 253;

/// The kind of a message (RFC 2132 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Discover = 1,
    Offer = 2,
    Request = 3,
    Decline = 4,
    Ack = 5,
    Nak = 6,
    Release = 7,
    Inform = 8,
}

impl Kind {
    /// Of its number.
    pub(super) fn of(number: u8) -> Option<Self> {
        use Kind::{Ack, Decline, Discover, Inform, Nak, Offer, Release, Request};
        [Discover, Offer, Request, Decline, Ack, Nak, Release, Inform]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// The terms of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The address, with its subnet's prefix length.
    pub address: Ipv4Net,
    /// The server.
    pub server: Ipv4Addr,
    /// The sender of the answer on the link: the server or a relay.
    pub station: Option<Mac>,
    /// How long it may be used without being renewed, in seconds; `u32::MAX` is for ever.
    pub lease: u32,
    /// After how many seconds the server is asked for more time.
    pub renewal: u32,
    /// After how many seconds every server is.
    pub rebinding: u32,
    /// The gateways, the best one first.
    #[serde(default)]
    pub routers: Vec<Ipv4Addr>,
    /// The routes, each with its next hop; unspecified on the link itself.
    #[serde(default)]
    pub routes: Vec<(Ipv4Net, Ipv4Addr)>,
    /// The name servers.
    #[serde(default)]
    pub dns: Vec<Ipv4Addr>,
    /// The domain.
    pub domain: Option<String>,
    /// The domains to search.
    #[serde(default)]
    pub search: Vec<String>,
    /// The link's MTU, in bytes.
    pub mtu: Option<u16>,
}

/// The terms in an acknowledgement; `None` where it has no address that a host can use.
pub fn terms(message: &Message, station: Option<Mac>) -> Option<Terms> {
    let address = message.yours;
    let unusable = address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_loopback();
    if unusable {
        return None;
    }
    let mask = message.address(code::SUBNET_MASK).unwrap_or_else(|| classful(address));
    let lease = message.number(code::LEASE_TIME).filter(|time| *time > 0).unwrap_or(LEASE);
    let share = |of: u64| u32::try_from(u64::from(lease) * of / 1000).unwrap_or(lease);
    let rebinding = message.number(code::REBINDING).filter(|at| (1..=lease).contains(at));
    let rebinding = rebinding.unwrap_or_else(|| share(875));
    let renewal = message.number(code::RENEWAL).filter(|at| (1..=rebinding).contains(at));
    let routers = addresses(message, code::ROUTERS);
    Some(Terms {
        address: Ipv4Net::with_netmask(address, mask).ok()?,
        server: message.address(code::SERVER)?,
        station,
        lease,
        renewal: renewal.unwrap_or_else(|| share(500).min(rebinding)),
        rebinding,
        routes: routes(message, routers.first().copied()),
        routers,
        dns: addresses(message, code::DNS),
        domain: text(message, code::DOMAIN).filter(|name| is_name(name)),
        search: message.options.get(&code::SEARCH).map(|bytes| names(bytes)).unwrap_or_default(),
        mtu: message.options.get(&code::MTU).and_then(|bytes| mtu(bytes)),
    })
}

/// A server's message for a person.
pub(crate) fn text(message: &Message, code: u8) -> Option<String> {
    let bytes = message.options.get(&code)?;
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.chars().filter(|c| !c.is_control()).take(255).collect();
    Some(text).filter(|text| !text.is_empty())
}

/// Classless routes stand for all others (RFC 3442); without them the static ones, and the router for
/// the rest.
fn routes(message: &Message, router: Option<Ipv4Addr>) -> Vec<(Ipv4Net, Ipv4Addr)> {
    let classless = [code::ROUTES, code::MICROSOFT_ROUTES]
        .into_iter()
        .filter_map(|code| message.options.get(&code))
        .filter_map(|bytes| classless(bytes))
        .find(|routes| !routes.is_empty());
    if let Some(routes) = classless {
        return routes;
    }
    let fixed = message.options.get(&code::STATIC_ROUTES).map(Vec::as_slice).unwrap_or_default();
    let (pairs, _) = fixed.as_chunks::<8>();
    let pairs = pairs.iter().filter_map(|pair| {
        let [a, b, c, d, e, f, g, h] = *pair;
        let to = Ipv4Addr::new(a, b, c, d);
        // Zero is no destination of this option (RFC 2132 §5.8).
        let net = Ipv4Net::with_netmask(to, classful(to)).ok().filter(|_| !to.is_unspecified())?;
        Some((net.trunc(), Ipv4Addr::new(e, f, g, h)))
    });
    let rest = router.map(|router| (Ipv4Net::default(), router));
    pairs.chain(rest).collect()
}

/// A prefix length, as many octets as that needs, and the next hop.
fn classless(mut bytes: &[u8]) -> Option<Vec<(Ipv4Net, Ipv4Addr)>> {
    let mut routes = Vec::new();
    while let [length, rest @ ..] = bytes {
        let (significant, rest) = rest.split_at_checked(usize::from(*length).div_ceil(8))?;
        let (router, rest) = rest.split_first_chunk::<4>()?;
        let mut octets = [0; 4];
        octets.get_mut(..significant.len())?.copy_from_slice(significant);
        let net = Ipv4Net::new(octets.into(), *length).ok()?;
        routes.push((net.trunc(), (*router).into()));
        bytes = rest;
    }
    Some(routes)
}

fn addresses(message: &Message, code: u8) -> Vec<Ipv4Addr> {
    let bytes = message.options.get(&code).map(Vec::as_slice).unwrap_or_default();
    let (whole, _) = bytes.as_chunks::<4>();
    whole.iter().map(|octets| Ipv4Addr::from(*octets)).filter(|ip| !ip.is_unspecified()).collect()
}

fn mtu(bytes: &[u8]) -> Option<u16> {
    let octets: &[u8; 2] = bytes.try_into().ok()?;
    // The least that IPv4 works with (RFC 2132 §5.1).
    Some(u16::from_be_bytes(*octets)).filter(|mtu| *mtu >= 68)
}

/// The mask that an address had before there were prefix lengths (RFC 791 §2.3).
fn classful(address: Ipv4Addr) -> Ipv4Addr {
    match address.octets()[0] {
        0..128 => Ipv4Addr::new(255, 0, 0, 0),
        128..192 => Ipv4Addr::new(255, 255, 0, 0),
        _ => Ipv4Addr::new(255, 255, 255, 0),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= NAME && name.chars().all(is_part)
}

/// Domain names, compressed as in DNS (RFC 3397 §2). A pointer leads backwards, so that reading
/// ends.
fn names(bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < bytes.len() && names.len() < DOMAINS {
        let Some((name, after)) = name(bytes, at) else { break };
        names.extend(Some(name).filter(|name| is_name(name)));
        at = after;
    }
    names
}

/// The name at `at`, and where the next one begins.
fn name(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut after = None;
    loop {
        let length = *bytes.get(at)?;
        match length {
            0 => return Some((name, after.unwrap_or(at + 1))),
            1..64 => {
                let label = bytes.get(at + 1..at + 1 + usize::from(length))?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(std::str::from_utf8(label).ok()?);
                at += 1 + usize::from(length);
            }
            192.. => {
                let to = usize::from(length & 63) << 8 | usize::from(*bytes.get(at + 1)?);
                after = after.or(Some(at + 2));
                at = Some(to).filter(|to| *to < at)?;
            }
            _ => return None,
        }
        if name.len() > NAME {
            return None;
        }
    }
}
