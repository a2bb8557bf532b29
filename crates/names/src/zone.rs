//! The domains of a network.

use std::net::IpAddr;

use model::IpNet;

/// The domain of the addresses of a subnet (RFC 1035 §3.5, RFC 3596 §2.5), where the subnet has one of its own: its length
/// is a multiple of eight bits, of four in IPv6.
pub fn reverse_domain(net: &IpNet) -> Option<String> {
    let length = usize::from(net.prefix_len());
    match net.network() {
        IpAddr::V4(address) if length > 0 && length.is_multiple_of(8) => {
            let octets = address.octets();
            let parts = octets.iter().take(length / 8).rev().map(ToString::to_string);
            Some(format!("{}.in-addr.arpa", parts.collect::<Vec<_>>().join(".")))
        }
        IpAddr::V6(address) if length > 0 && length.is_multiple_of(4) => {
            let octets = address.octets();
            let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
            let digits: Vec<String> =
                digits.take(length / 4).map(|digit| format!("{digit:x}")).collect();
            let parts: Vec<&str> = digits.iter().rev().map(String::as_str).collect();
            Some(format!("{}.ip6.arpa", parts.join(".")))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_has_a_domain_where_its_length_is_one_of_digits() {
        let of = |net: &str| reverse_domain(&net.parse().unwrap());
        assert_eq!(of("10.70.1.1/24").unwrap(), "1.70.10.in-addr.arpa");
        assert_eq!(of("10.64.0.1/16").unwrap(), "64.10.in-addr.arpa");
        assert_eq!(of("fd71::1/20").unwrap(), "0.1.7.d.f.ip6.arpa");
        assert_eq!([of("10.70.1.1/27"), of("fd71::1/65"), of("0.0.0.0/0")], [None, None, None]);
    }
}
