//! How packets of a network of many hosts go from host to host.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Unknown;
use crate::{Error, Mac, Result};

/// How packets of a network go from host to host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Transport {
    /// In packets of VXLAN (RFC 7348), over any underlay.
    #[default]
    Vxlan,
    /// As they are: the hosts share a segment, and each has a route to the blocks of the others.
    Route,
    /// In a way that only later versions know. Such a network is not used.
    Other,
}

impl Transport {
    /// Whether it is the one that every version knows.
    pub fn is_vxlan(&self) -> bool {
        *self == Transport::Vxlan
    }
}

impl Unknown for Transport {
    fn unknown() -> Self {
        Transport::Other
    }
}

impl From<String> for Transport {
    fn from(text: String) -> Self {
        match text.as_str() {
            "vxlan" => Transport::Vxlan,
            "route" => Transport::Route,
            _ => Transport::Other,
        }
    }
}

impl From<Transport> for String {
    fn from(transport: Transport) -> Self {
        transport.to_string()
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Vxlan => "vxlan",
            Transport::Route => "route",
            Transport::Other => "other",
        })
    }
}

/// What is asked for when a network is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportChoice {
    /// Packets of VXLAN.
    #[default]
    Vxlan,
    /// Routes.
    Route,
    /// Routes where every host of the network is on the segment of the host that declares it; VXLAN otherwise.
    Auto,
}

impl FromStr for TransportChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "vxlan" => Ok(TransportChoice::Vxlan),
            "route" => Ok(TransportChoice::Route),
            "auto" => Ok(TransportChoice::Auto),
            other => Err(Error::invalid(format!(
                "transport {:?} is not auto, vxlan or route",
                crate::text::shown(other)
            ))),
        }
    }
}

/// By what a host is known on the segment that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostLink {
    /// The hardware address of the device that has the host's address.
    pub mac: Mac,
    /// The link-local IPv6 address of that device, where it has one: the next hop of the host's IPv6 blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v6: Option<Ipv6Addr>,
}

impl HostLink {
    /// Without what no device has: other hosts write it. None where its hardware address is none of one device.
    pub fn checked(self) -> Option<Self> {
        let octets = self.mac.octets();
        let is_one = octets[0] & 1 == 0 && octets != [0; 6];
        let v6 = self.v6.filter(Ipv6Addr::is_unicast_link_local);
        is_one.then_some(Self { v6, ..self })
    }
}

impl Unknown for Option<HostLink> {
    fn unknown() -> Self {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_one_device_s() {
        let link = |mac: &str, v6: &str| {
            HostLink { mac: mac.parse().unwrap(), v6: v6.parse().ok() }.checked()
        };
        let known = link("02:00:00:00:00:01", "fe80::1").unwrap();
        assert_eq!(known.v6, "fe80::1".parse().ok());
        for v6 in ["2001:db8::1", "ff02::1", "::", "::1"] {
            assert_eq!(link("02:00:00:00:00:01", v6).unwrap().v6, None, "{v6}");
        }
        for mac in ["00:00:00:00:00:00", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff"] {
            assert_eq!(link(mac, "fe80::1"), None, "{mac}");
        }
    }
}
