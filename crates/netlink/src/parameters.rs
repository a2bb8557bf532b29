//! Kernel parameters of devices, as rtnetlink has them (`IFLA_AF_SPEC`, `RTM_GETNETCONF`; `linux/netconf.h`).
//!
//! The same values stand in files below `/proc/sys/net`. To open one, the kernel looks through those of that name
//! of every network namespace, which takes up to a millisecond where there are a thousand.

use model::{Family, Result};

use crate::link::{At, GET, INFO, NEW, SKIP_STATS, ifla, info};
use crate::wire::{Attribute, Batch, Message, array};
use crate::{Errno, Socket};

const NEW_CONF: u16 = 80;
const GET_CONF: u16 = 82;
/// Length of `struct netconfmsg`, aligned.
const CONF: usize = 4;
/// `NETCONFA_IFINDEX`, with the number that means all devices.
const IFINDEX: u16 = 1;
const ALL: u32 = u32::MAX;
/// `NETCONFA_FORWARDING`.
const FORWARDING: u16 = 2;

/// `AF_INET` and `AF_INET6`, as types in `IFLA_AF_SPEC`.
const INET: u16 = 2;
const INET6: u16 = 10;
/// `IFLA_INET_CONF` and `IFLA_INET6_CONF`: arrays of 32-bit numbers.
const INET_CONF: u16 = 1;
const INET6_CONF: u16 = 2;
/// Where parameters are in the first (`IPV4_DEVCONF_*`, from 1 on), and in the second (`DEVCONF_*`).
const V4_FORWARDING: usize = 0;
const V4_TAG: usize = 11;
const V4_ROUTE_LOCALNET: usize = 25;
const V6_FORWARDING: usize = 0;

/// Parameters of a device, those of `/proc/sys/net/ipv4/conf` and `ipv6/conf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// A number that the kernel leaves to users.
    pub tag: u32,
    /// Whether packets with addresses of `127.0.0.0/8` pass it.
    pub route_localnet: bool,
    forwards_v4: Option<bool>,
    forwards_v6: Option<bool>,
}

impl Parameters {
    /// Whether it forwards packets of this family; `None` where it does not have the family.
    pub fn forwards(&self, family: Family) -> Option<bool> {
        match family {
            Family::V4 => self.forwards_v4,
            Family::V6 => self.forwards_v6,
        }
    }
}

impl Socket {
    /// The parameters of a device; `None` if there is none.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn parameters(&mut self, at: At<'_>) -> Result<Option<Parameters>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET, 0, format!("reading the parameters of {at}"));
        request.bytes(&info(at.index(), 0, 0)).u32(ifla::EXT_MASK, SKIP_STATS);
        at.name(&mut request);
        self.get(&mut batch, &[Errno::NODEV], read)
    }

    /// Whether the namespace forwards packets of this family (`conf/all/forwarding`); `None` where the kernel does
    /// not have the family.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn forwards(&mut self, family: Family) -> Result<Option<bool>> {
        let (number, what) = match family {
            Family::V4 => (INET, "IPv4"),
            Family::V6 => (INET6, "IPv6"),
        };
        let mut batch = Batch::new();
        let [kind, _] = number.to_le_bytes();
        let mut request = batch.request(GET_CONF, 0, format!("asking whether {what} is forwarded"));
        request.bytes(&[kind, 0, 0, 0]).u32(IFINDEX, ALL);
        let absent = [Errno::OPNOTSUPP, Errno::AFNOSUPPORT];
        self.get(&mut batch, &absent, |message| read_forwarding(message, kind))
    }
}

fn read(message: &Message<'_>) -> Option<Parameters> {
    if message.kind != NEW {
        return None;
    }
    let mut parameters = Parameters::default();
    let families = message.attributes(INFO).find_kind(ifla::AF_SPEC);
    for family in families.iter().flat_map(Attribute::nested) {
        match family.kind {
            INET => {
                let Some(all) = family.nested().find_kind(INET_CONF) else { continue };
                parameters.tag = number(&all, V4_TAG).unwrap_or_default();
                parameters.route_localnet = number(&all, V4_ROUTE_LOCALNET).is_some_and(is_set);
                parameters.forwards_v4 = number(&all, V4_FORWARDING).map(is_set);
            }
            INET6 => {
                let all = family.nested().find_kind(INET6_CONF);
                parameters.forwards_v6 =
                    all.and_then(|all| number(&all, V6_FORWARDING)).map(is_set);
            }
            _ => {}
        }
    }
    Some(parameters)
}

fn read_forwarding(message: &Message<'_>, family: u8) -> Option<bool> {
    if message.kind != NEW_CONF || message.payload.first() != Some(&family) {
        return None;
    }
    message.attributes(CONF).find_kind(FORWARDING)?.u32().map(is_set)
}

fn number(all: &Attribute<'_>, at: usize) -> Option<u32> {
    array(all.value, at * size_of::<u32>()).map(u32::from_ne_bytes)
}

fn is_set(number: u32) -> bool {
    number != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..512)) {
            for kind in [NEW, NEW_CONF] {
                let message = Message { kind, flags: 0, sequence: 0, payload: &payload };
                let _ = (read(&message), read_forwarding(&message, 2));
            }
        }
    }
}
