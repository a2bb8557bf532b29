//! DHCP's messages (RFC 2131 §2, RFC 2132, RFC 3396) and what carries them.

mod frame;
mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::Mac;

pub use frame::{CLIENT, SERVER, unwrap, wrap};
pub(crate) use frame::{fold, sum, unwrap_between, wrap_between};
pub(crate) use options::text;
pub use options::{Kind, Terms, code, terms};

/// Where the options begin: after the fixed fields and the cookie.
const OPTIONS: usize = 240;
/// `99.130.83.99`.
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Relays of old pass nothing on that is shorter (RFC 1542 §2.1).
const SHORTEST: usize = 300;
/// Nothing longer is sent or read: what fits into a packet of Ethernet.
pub const LONGEST: usize = 1500;
/// `sname` and `file`, which options may overflow into.
const SNAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;
/// The bit of `flags` that asks for broadcast answers.
const BROADCAST: u16 = 0x8000;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: u8 = 1;
const PAD: u8 = 0;
const END: u8 = 255;

/// A message, between a client and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether it is a server's.
    pub reply: bool,
    /// Which exchange it belongs to.
    pub exchange: u32,
    /// How long the client has been trying, in seconds.
    pub seconds: u16,
    /// Whether the client asks for broadcast answers.
    pub broadcast: bool,
    /// The client's address, where it has one.
    pub client: Ipv4Addr,
    /// The address that the server gives.
    pub yours: Ipv4Addr,
    /// The relay between them.
    pub relay: Ipv4Addr,
    /// The client's hardware address.
    pub mac: Mac,
    /// The options, each whole, without those that only structure the others.
    pub options: BTreeMap<u8, Vec<u8>>,
}

impl Message {
    /// A client's message without options.
    pub fn of(mac: Mac, exchange: u32) -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        Self {
            reply: false,
            exchange,
            seconds: 0,
            broadcast: false,
            client: none,
            yours: none,
            relay: none,
            mac,
            options: BTreeMap::new(),
        }
    }

    /// Which kind of message it is; `None` if it does not say.
    pub fn kind(&self) -> Option<Kind> {
        match self.options.get(&code::MESSAGE_TYPE).map(Vec::as_slice) {
            Some([kind]) => Kind::of(*kind),
            _ => None,
        }
    }

    /// The address in an option.
    pub fn address(&self, code: u8) -> Option<Ipv4Addr> {
        let octets: &[u8; 4] = self.options.get(&code)?.as_slice().try_into().ok()?;
        Some((*octets).into())
    }

    /// The number in an option.
    pub fn number(&self, code: u8) -> Option<u32> {
        let octets: &[u8; 4] = self.options.get(&code)?.as_slice().try_into().ok()?;
        Some(u32::from_be_bytes(*octets))
    }

    /// As bytes. Options beyond [`LONGEST`] are left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![if self.reply { REPLY } else { REQUEST }, ETHERNET, 6, 0];
        bytes.extend(self.exchange.to_be_bytes());
        bytes.extend(self.seconds.to_be_bytes());
        bytes.extend((if self.broadcast { BROADCAST } else { 0 }).to_be_bytes());
        for address in [self.client, self.yours, Ipv4Addr::UNSPECIFIED, self.relay] {
            bytes.extend(address.octets());
        }
        bytes.extend(self.mac.octets());
        bytes.resize(OPTIONS - COOKIE.len(), 0);
        bytes.extend(COOKIE);
        // The message's type comes first: some servers read no further.
        let kind = self.options.get_key_value(&code::MESSAGE_TYPE);
        let others = self.options.iter().filter(|(code, _)| **code != code::MESSAGE_TYPE);
        for (code, value) in kind.into_iter().chain(others) {
            put(&mut bytes, *code, value);
        }
        bytes.push(END);
        bytes.resize(bytes.len().max(SHORTEST), PAD);
        bytes
    }

    /// Reads a message; `None` if it is none, or not about Ethernet.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..bytes.len().min(LONGEST))?;
        let fixed: &[u8; OPTIONS] = bytes.first_chunk()?;
        let reply = match fixed[0] {
            REQUEST => false,
            REPLY => true,
            _ => return None,
        };
        if fixed[1..3] != [ETHERNET, 6] || fixed[OPTIONS - COOKIE.len()..] != COOKIE {
            return None;
        }
        let four = |at: usize| fixed[at..].first_chunk::<4>().copied().unwrap_or_default();
        let two = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        Some(Self {
            reply,
            exchange: u32::from_be_bytes(four(4)),
            seconds: two(8),
            broadcast: two(10) & BROADCAST != 0,
            client: four(12).into(),
            yours: four(16).into(),
            relay: four(24).into(),
            mac: Mac::new(*fixed[28..].first_chunk()?),
            options: read(bytes.get(OPTIONS..)?, fixed)?,
        })
    }
}

/// An option longer than 255 bytes stands in several pieces (RFC 3396 §5).
fn put(bytes: &mut Vec<u8>, code: u8, value: &[u8]) {
    let pieces = value.len().div_ceil(255).max(1);
    if bytes.len() + value.len() + 2 * pieces >= LONGEST - frame::HEADERS {
        return;
    }
    let mut rest = value;
    for _ in 0..pieces {
        let (piece, after) = rest.split_at(rest.len().min(255));
        bytes.extend([code, u8::try_from(piece.len()).unwrap_or(u8::MAX)]);
        bytes.extend_from_slice(piece);
        rest = after;
    }
}

/// The options of all fields that have some, in the order of RFC 3396 §7; pieces are joined.
fn read(field: &[u8], fixed: &[u8; OPTIONS]) -> Option<BTreeMap<u8, Vec<u8>>> {
    let mut options = BTreeMap::new();
    collect(field, &mut options)?;
    let overload = match options.remove(&code::OVERLOAD).as_deref() {
        Some([which]) => *which,
        _ => 0,
    };
    if overload & 1 != 0 {
        collect(&fixed[FILE], &mut options)?;
    }
    if overload & 2 != 0 {
        collect(&fixed[SNAME], &mut options)?;
    }
    Some(options)
}

fn collect(mut field: &[u8], options: &mut BTreeMap<u8, Vec<u8>>) -> Option<()> {
    loop {
        match field {
            // Some servers omit the end.
            [] | [END, ..] => return Some(()),
            [PAD, rest @ ..] => field = rest,
            [code, length, rest @ ..] => {
                let (value, after) = rest.split_at_checked(usize::from(*length))?;
                options.entry(*code).or_default().extend_from_slice(value);
                field = after;
            }
            [_] => return None,
        }
    }
}
