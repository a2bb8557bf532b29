//! Addresses of IPv4 in other spellings than the usual one.

use ipnet::{IpNet, Ipv4Net};

use super::{EgressRule, EgressTarget};
use crate::{Error, Result};

/// The bits before an IPv4 address that is written as one of IPv6.
const MAPPED: u8 = 96;

/// The IPv4 subnet that is written as one of IPv6 (`::ffff:0:0/96`).
pub(super) fn mapped(net: IpNet) -> Option<IpNet> {
    let IpNet::V6(net) = net else { return None };
    let prefix = net.prefix_len().checked_sub(MAPPED)?;
    Ipv4Net::new(net.addr().to_ipv4_mapped()?, prefix).ok().map(IpNet::V4)
}

/// Refuses what programs read as an address in hexadecimal digits (`0x0a000001`), though DNS could have the name. Not
/// where rules are read from the book: one that an earlier version took must not make its record unreadable.
pub(super) fn refuse_hexadecimal(rule: &EgressRule) -> Result<()> {
    let (EgressTarget::Name(name) | EgressTarget::Below(name)) = &rule.target else {
        return Ok(());
    };
    let last = name.as_str().rsplit('.').next().and_then(|last| last.strip_prefix("0x"));
    match last.is_some_and(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit())) {
        true => Err(Error::invalid(format!(
            "egress '{rule}': {name} ends in a number, as no name does: an IPv4 address is written as four \
             decimal numbers, such as 10.0.0.1"
        ))),
        false => Ok(()),
    }
}
