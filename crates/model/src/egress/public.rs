//! Which addresses can be those of public names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::Family;

/// Of a link (RFC 3927, RFC 4291).
const LINK_LOCAL_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16);
const LINK_LOCAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);

/// The addresses of a link, `169.254.0.0/16` and `fe80::/10`.
pub fn link_local(family: Family) -> IpNet {
    match family {
        Family::V4 => LINK_LOCAL_V4.into(),
        Family::V6 => LINK_LOCAL_V6.into(),
    }
}

/// Whether an address can be that of a public name: not private, not of a link or of this host, no
/// multicast, and not one that stands for such another one (RFC 6890, RFC 4291, RFC 6052, RFC 3056).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || a == 0
        || a >= 224
        // RFC 6598, RFC 6890 (IETF protocols), RFC 2544.
        || (a == 100 && (64..128).contains(&b))
        // RFC 7526 (6to4), and where Azure's hosts get their secrets.
        || (a, b, c) == (192, 88, 99)
        || address == Ipv4Addr::new(168, 63, 129, 16)
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (b == 18 || b == 19));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(behind) = behind_nat64(IpAddr::V6(address)) {
        return is_public(behind);
    }
    let [a, b, c, ..] = address.segments();
    // 6to4 and Teredo carry addresses of IPv4. RFC 9637 (documentation), RFC 5180 (benchmarks), RFC 7343 (ORCHID).
    let is_special = a == 0x2002
        || (a, b) == (0x2001, 0)
        || (a, b & 0xf000) == (0x3fff, 0)
        || (a, b, c) == (0x2001, 2, 0)
        || (a == 0x2001 && (0x10..0x30).contains(&b));
    (a & 0xe000) == 0x2000 && !is_special
}

/// The address of IPv4 to which an address of NAT64's well-known prefix leads (RFC 6052).
pub fn behind_nat64(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() else { return None };
    let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
    Some(Ipv4Addr::new(a, b, c, d).into())
}
