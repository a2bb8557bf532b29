//! The names of the parameters that people are shown, and the commands that set them.

use std::fmt;

use model::Family;

/// A parameter, by its path below `/proc/sys`. Its text is the name that sysctl(8) takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter(String);

impl Parameter {
    fn of_device(family: Family, device: &str, name: &str) -> Self {
        let family = match family {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        };
        Self(format!("net/{family}/conf/{device}/{name}"))
    }

    /// Whether what comes in by a device is forwarded. `all` is every device.
    pub fn forwarding(family: Family, device: &str) -> Self {
        Self::of_device(family, device, "forwarding")
    }

    /// Whether the host forwards at all.
    pub fn host_forwarding(family: Family) -> Self {
        match family {
            Family::V4 => Self("net/ipv4/ip_forward".to_owned()),
            Family::V6 => Self::forwarding(family, "all"),
        }
    }

    /// Whether what comes in by a device is forwarded although other devices do not forward (IPv6 alone).
    pub fn force_forwarding(device: &str) -> Self {
        Self::of_device(Family::V6, device, "force_forwarding")
    }

    /// Whether packets are dropped whose senders are not reached by the device.
    pub fn rp_filter(device: &str) -> Self {
        Self::of_device(Family::V4, device, "rp_filter")
    }

    /// Whether routes by the device are passed over while it has no carrier.
    pub fn ignore_routes_with_linkdown(family: Family, device: &str) -> Self {
        Self::of_device(family, device, "ignore_routes_with_linkdown")
    }

    /// Which questions of ARP the device does not answer.
    pub fn arp_ignore(device: &str) -> Self {
        Self::of_device(Family::V4, device, "arp_ignore")
    }

    /// Whether loopback addresses are routed by the device.
    pub fn route_localnet(device: &str) -> Self {
        Self::of_device(Family::V4, device, "route_localnet")
    }

    /// Whether the device has no IPv6.
    pub fn disable_ipv6(device: &str) -> Self {
        Self::of_device(Family::V6, device, "disable_ipv6")
    }

    /// Whether the device answers for addresses that are reached by it.
    pub fn proxy(family: Family, device: &str) -> Self {
        let name = match family {
            Family::V4 => "proxy_arp_pvlan",
            Family::V6 => "proxy_ndp",
        };
        Self::of_device(family, device, name)
    }

    /// Whether echo requests are ignored.
    pub fn echo_ignore_all(family: Family) -> Self {
        Self(match family {
            Family::V4 => "net/ipv4/icmp_echo_ignore_all".to_owned(),
            Family::V6 => "net/ipv6/icmp/echo_ignore_all".to_owned(),
        })
    }

    /// Whether the packet filter of the host sees what bridges switch.
    pub fn bridge_calls(family: Family) -> Self {
        Self(match family {
            Family::V4 => "net/bridge/bridge-nf-call-iptables".to_owned(),
            Family::V6 => "net/bridge/bridge-nf-call-ip6tables".to_owned(),
        })
    }

    /// The path below `/proc/sys`.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// The command that sets it.
    pub fn command(&self, value: &str) -> String {
        format!("sysctl -w {self}={value}")
    }
}

impl fmt::Display for Parameter {
    /// With dots. A device's name may have a dot itself, as `eth0.5`: then with slashes, because sysctl(8) takes the
    /// first separator for all of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.contains('.') {
            true => f.write_str(&self.0),
            false => f.write_str(&self.0.replace('/', ".")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_a_dot_is_named_with_slashes() {
        for (device, expected) in [
            ("eth0", "sysctl -w net.ipv4.conf.eth0.rp_filter=2"),
            ("eth0.5", "sysctl -w net/ipv4/conf/eth0.5/rp_filter=2"),
        ] {
            let parameter = Parameter::rp_filter(device);
            assert_eq!(parameter.command("2"), expected);
            assert_eq!(parameter.path(), format!("net/ipv4/conf/{device}/rp_filter"));
        }
    }
}
