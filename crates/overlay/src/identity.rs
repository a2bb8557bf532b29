//! Names and addresses that follow from what they are of.

use model::{Error, HostName, IfName, Mac, NetworkName, Result, Vni};
use sha2::{Digest, Sha256};

/// What the names of VXLAN devices begin with.
const BEGIN: &str = "spokevx";

/// The VXLAN device of a network.
///
/// # Errors
/// `Bug` where it is no name, which no VNI can cause.
pub fn device(vni: Vni) -> Result<IfName> {
    format!("{BEGIN}{vni}").parse().map_err(|_: Error| Error::bug("vxlan name"))
}

/// Whether a device of this name is one of a network's.
pub(crate) fn is_device(name: &str) -> bool {
    let number = name.strip_prefix(BEGIN).and_then(|rest| rest.parse::<u32>().ok());
    number.and_then(Vni::new).is_some()
}

/// The hardware address that the bridge of a network has on a host. The kernel of each host would take
/// what is for another host's bridge for its own, if they had one in common.
pub fn gateway_mac(network: &NetworkName, host: &HostName) -> Mac {
    let mut hash = Sha256::new();
    for part in [network.as_str(), host.as_str()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest: [u8; 32] = hash.finalize().into();
    Mac::local([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_are_known_again() {
        let name = device(Vni::new(Vni::LAST).unwrap()).unwrap();
        assert!(is_device(name.as_str()), "{name}");
        for other in ["spokevx", "spokevx0", "spokevx99999999", "vxlan1", "spokevx-1"] {
            assert!(!is_device(other), "{other}");
        }
    }

    #[test]
    fn each_host_has_its_own() {
        let (network, other) = ("front".parse().unwrap(), "back".parse().unwrap());
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        assert_ne!(gateway_mac(&network, &a), gateway_mac(&network, &b));
        assert_ne!(gateway_mac(&network, &a), gateway_mac(&other, &a));
        assert_eq!(gateway_mac(&network, &a).octets()[0] & 3, 2);
    }
}
