//! Which addresses containers can use at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Range;
use crate::{Error, Result};

/// What an address can be that no interface of a container works with (RFC 6890, RFC 919 §7): its first
/// and its last.
const UNUSABLE: [(&str, IpAddr, IpAddr); 5] = [
    ("a loopback address", v4(127, 0, 0, 0), v4(127, 255, 255, 255)),
    ("a multicast address", v4(224, 0, 0, 0), v4(239, 255, 255, 255)),
    // The kernel sends to the last of them on every link; the others have no subnet of their own.
    ("beside the address of all hosts", v4(255, 255, 255, 0), v4(255, 255, 255, 255)),
    ("a loopback address", v6(0, 1), v6(0, 1)),
    ("a multicast address", v6(0xff00, 0), IpAddr::V6(Ipv6Addr::from_bits(u128::MAX))),
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(first: u16, last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last))
}

impl Range {
    /// Refuses a range with addresses that no interface of a container ever works with: those of the
    /// loopback, which leave no interface, those of groups, and those around the limited broadcast.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`], naming the subnet.
    pub fn for_containers(self) -> Result<Self> {
        for (what, first, last) in UNUSABLE {
            let shared = self.first.max(first);
            if first.is_ipv4() == self.first.is_ipv4() && shared <= self.last.min(last) {
                return Err(Error::invalid(format!(
                    "subnet {} cannot be used for containers: {shared} is {what}",
                    self.subnet
                )));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(subnet: &str, part: Option<&str>) -> Option<String> {
        let part = part.map(|part| part.parse().unwrap());
        let range = Range::of_hosts(subnet.parse().unwrap(), part, None).unwrap();
        range.for_containers().err().map(|error| error.to_string())
    }

    #[test]
    fn refuses_what_no_container_can_use() {
        for (subnet, holds) in [
            ("127.0.0.0/8", false),
            ("127.5.0.0/16", false),
            ("126.0.0.0/7", false),
            ("224.0.0.0/4", false),
            ("239.1.0.0/16", false),
            ("255.255.255.0/24", false),
            ("255.255.255.128/25", false),
            ("240.0.0.0/4", false),
            ("ff05::/64", false),
            ("::/64", false),
            // Both ends are usable, and not what is between.
            ("0.0.0.0/0", false),
            ("192.0.0.0/2", false),
            ("126.0.0.0/8", true),
            ("240.0.0.0/24", true),
            ("255.255.254.0/24", true),
            ("fd00::/64", true),
        ] {
            let refused = refusal(subnet, None);
            assert_eq!(refused.is_none(), holds, "{subnet}: {refused:?}");
            assert!(refused.is_none_or(|error| error.contains(subnet)));
        }
        assert_eq!(refusal("240.0.0.0/4", Some("240.1.0.0/16")), None, "the range is what counts");
    }
}
