//! The result of ADD, in every version, both ways (CNI 1.1.0 §5, "Success"; 0.2.0 and 0.4.0,
//! "Result").

mod from;
mod read;
mod write;

use std::net::IpAddr;

use model::{Dns, IpNet, Route};

pub use read::{parse_dns, parse_routes};
pub(crate) use write::NO_ADDRESS;

/// A result with every field of any version. Names are kept as they came, so that another plugin's
/// result is passed on unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Success {
    /// Those that were made, on either side.
    pub interfaces: Vec<Interface>,
    /// The addresses.
    pub ips: Vec<Ip>,
    /// The container's routes.
    pub routes: Vec<Route>,
    /// The resolver configuration for the container.
    pub dns: Dns,
}

/// An interface in a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address; may be empty.
    pub mac: String,
    /// Its MTU (1.1.0).
    pub mtu: Option<u32>,
    /// The namespace that it is in; empty for the host's.
    pub sandbox: String,
    /// The socket that it is (1.1.0); may be empty.
    pub socket_path: String,
    /// The PCI device that it is (1.1.0); may be empty.
    pub pci_id: String,
}

/// An address in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// With its subnet's prefix length.
    pub address: IpNet,
    /// Of its subnet.
    pub gateway: Option<IpAddr>,
    /// The place in [`Success::interfaces`] of the one that has it.
    pub interface: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Object, Version};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn parse(value: &Value, version: Version) -> Success {
        Success::parse(&Object::new("", value.as_object().unwrap()), version).unwrap()
    }

    fn full() -> Value {
        json!({"cniVersion": "1.1.0",
            "interfaces": [{"name": "br0"}, {"name": "eth0", "mac": "02:00:00:00:00:01",
                "mtu": 1400, "sandbox": "/n", "socketPath": "/s", "pciID": "p"}],
            "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 1},
                {"address": "fd00::5/64"}],
            "routes": [{"dst": "0.0.0.0/0", "mtu": 1300, "advmss": 1200, "priority": 5,
                "table": 0, "scope": 253}, {"dst": "::/0", "gw": "fd00::1"}],
            "dns": {"domain": "x", "nameservers": ["1.1.1.1"]}})
    }

    #[test]
    fn the_newest_version_goes_through_unchanged() {
        let success = parse(&full(), Version::V110);
        assert_eq!(success.render(Version::V110).unwrap(), full());
    }

    #[test]
    fn version_0_4_has_families_and_dns_and_lacks_devices() {
        let expected = json!({"cniVersion": "0.4.0",
            "interfaces": [{"name": "br0"},
                {"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/n"}],
            "ips": [{"version": "4", "address": "10.0.0.5/24", "gateway": "10.0.0.1",
                "interface": 1}, {"version": "6", "address": "fd00::5/64"}],
            "routes": [{"dst": "0.0.0.0/0", "mtu": 1300, "advmss": 1200, "priority": 5,
                "table": 0, "scope": 253}, {"dst": "::/0", "gw": "fd00::1"}],
            "dns": {"domain": "x", "nameservers": ["1.1.1.1"]}});
        assert_eq!(parse(&full(), Version::V110).render(Version::V040).unwrap(), expected);
        let bare = json!({"ips": [{"address": "10.0.0.5/24", "version": "4"}]});
        let bare = parse(&bare, Version::V040);
        assert_eq!(bare.render(Version::V031).unwrap()["dns"], json!({}));
        assert_eq!(bare.render(Version::V100).unwrap().get("dns"), None);
    }

    #[test]
    fn version_0_2_has_one_address_per_family() {
        let expected = json!({"cniVersion": "0.2.0",
            "ip4": {"ip": "10.0.0.5/24", "gateway": "10.0.0.1",
                "routes": [{"dst": "0.0.0.0/0"}]},
            "ip6": {"ip": "fd00::5/64", "routes": [{"dst": "::/0", "gw": "fd00::1"}]},
            "dns": {"domain": "x", "nameservers": ["1.1.1.1"]}});
        assert_eq!(parse(&full(), Version::V110).render(Version::V020).unwrap(), expected);
        let back = parse(&expected, Version::V020);
        assert_eq!(back.render(Version::V020).unwrap(), expected);
        assert_eq!(back.ips.len(), 2);
        let error = Success::default().render(Version::V010).unwrap_err();
        assert_eq!(error.to_string(), "cannot convert: no valid IP addresses");
    }

    #[test]
    fn refuses_what_it_cannot_pass_on() {
        for bad in [
            json!({"cniVersion": "7"}),
            json!({"ips": [{"address": "10.0.0.5"}]}),
            json!({"ips": [{}]}),
            json!({"routes": [{"gw": "1.1.1.1"}]}),
            json!({"interfaces": {}}),
        ] {
            let object = Object::new("prevResult", bad.as_object().unwrap());
            assert!(Success::parse(&object, Version::V110).is_err(), "{bad}");
        }
    }

    fn ip() -> impl Strategy<Value = Ip> {
        let v4 = (any::<u32>(), 0u8..=32)
            .prop_map(|(bits, prefix)| IpNet::new(IpAddr::V4(bits.into()), prefix).unwrap());
        let v6 = (any::<u64>(), 0u8..=128).prop_map(|(bits, prefix)| {
            let bits = (0x2001_0db8_u128 << 96) | u128::from(bits);
            IpNet::new(IpAddr::V6(bits.into()), prefix).unwrap()
        });
        (prop_oneof![v4, v6], prop::option::of(0i64..4)).prop_map(|(address, interface)| Ip {
            address,
            gateway: None,
            interface,
        })
    }

    proptest! {
        #[test]
        fn converts_there_and_back(ips in prop::collection::vec(ip(), 1..5), name in "[a-z]{1,8}") {
            let interfaces = vec![Interface { name, ..Interface::default() }];
            let success = Success { interfaces, ips, ..Success::default() };
            for version in [Version::V030, Version::V031, Version::V040, Version::V100,
                Version::V110] {
                let value = success.render(version).unwrap();
                prop_assert_eq!(&parse(&value, Version::V010), &success);
            }
            for version in [Version::V010, Version::V020] {
                let value = success.render(version).unwrap();
                let again = parse(&value, version).render(version).unwrap();
                prop_assert_eq!(value, again);
            }
        }
    }
}
