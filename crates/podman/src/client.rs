//! The identity of a container as a DHCP client.

use model::{Dhcp, DhcpOption, Ipam, Mac, NetworkName, OwnerName, Wiring};
use sha2::{Digest, Sha256};

/// `Client-identifier` (RFC 2132 §9.14).
const CLIENT: u8 = 61;

/// A container that returns under its name is the same client: it has the same hardware address,
/// for servers that identify clients by that, and the same identifier for the others. A requested
/// hardware address stays.
pub(crate) fn be_known(
    owner: &OwnerName,
    network: &NetworkName,
    site: [u8; 5],
    wiring: &mut Wiring,
    ipam: &mut Ipam,
) {
    let (Ipam::Dhcp(dhcp), Some(link)) = (ipam, &mut wiring.link) else { return };
    let mac = *link.mac.get_or_insert_with(|| lasting(owner, network, site));
    identify(dhcp, mac);
}

/// Another one on each host: neighbours on a segment may have networks and containers of one name.
fn lasting(owner: &OwnerName, network: &NetworkName, site: [u8; 5]) -> Mac {
    let mut hash = Sha256::new_with_prefix(b"spoke client");
    hash.update(site);
    for part in [network.as_str(), owner.as_str()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let [a, b, c, d, e, f, ..] = digest;
    Mac::local([a, b, c, d, e, f])
}

/// The reference's daemon takes only text, and so it is text.
fn identify(dhcp: &mut Dhcp, mac: Mac) {
    if dhcp.provide.iter().all(|option| option.code != CLIENT) {
        let value = format!("\0spoke/{mac}").into_bytes();
        dhcp.provide.push(DhcpOption { code: CLIENT, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_container_network_or_host_is_another_client() {
        let of = |owner: &str, network: &str, site: &[u8; 5]| {
            lasting(&owner.parse().unwrap(), &network.parse().unwrap(), *site)
        };
        let web = of("web", "lan", b"one--");
        assert_eq!(of("web", "lan", b"one--"), web);
        for other in
            [of("w", "lan", b"one--"), of("web", "l", b"one--"), of("web", "lan", b"two--")]
        {
            assert_ne!(other, web);
        }
    }
}
