//! Between a result and the model.

use model::{
    Attached, Attachment, Error, IfName, InterfaceAddress, InterfaceNamespace, Mac, Mtu, Result,
};

use super::{Interface, Ip, Success};

impl Success {
    /// The result that reports `attached`; interfaces of the container are in `netns`.
    pub fn of(attached: &Attached, netns: &str) -> Self {
        let interface = |it: &model::Interface| Interface {
            name: it.name.to_string(),
            mac: it.mac.map(|mac| mac.to_string()).unwrap_or_default(),
            mtu: it.mtu.map(Mtu::bytes),
            sandbox: match it.place {
                InterfaceNamespace::Host => String::new(),
                InterfaceNamespace::Sandbox => netns.to_owned(),
            },
            socket_path: String::new(),
            pci_id: String::new(),
        };
        Self {
            interfaces: attached.interfaces.iter().map(interface).collect(),
            ips: attached.addresses.iter().map(ip).collect(),
            routes: attached.routes.clone(),
            dns: attached.dns.clone(),
        }
    }

    /// The abbreviated result of an IPAM plugin: what the record says, without interfaces.
    pub fn of_leases(attachment: &Attachment) -> Self {
        let without_interface = |held| Ip { interface: None, ..ip(held) };
        Self {
            interfaces: Vec::new(),
            ips: attachment.addresses.iter().map(without_interface).collect(),
            routes: attachment.routes.clone(),
            dns: attachment.dns.clone(),
        }
    }

    /// The attachment in the result, for a comparison with the kernel. Spoke did not make an
    /// interface whose name the kernel would refuse.
    pub fn attached(&self) -> Result<Attached> {
        let mut attached =
            Attached { routes: self.routes.clone(), dns: self.dns.clone(), ..Attached::default() };
        let mut places = Vec::new();
        for interface in &self.interfaces {
            let Ok(name) = interface.name.parse::<IfName>() else {
                places.push(None);
                continue;
            };
            places.push(Some(attached.interfaces.len()));
            attached.interfaces.push(model::Interface {
                name,
                mac: mac(interface)?,
                mtu: interface.mtu.and_then(Mtu::new),
                place: match interface.sandbox.is_empty() {
                    true => InterfaceNamespace::Host,
                    false => InterfaceNamespace::Sandbox,
                },
            });
        }
        for ip in &self.ips {
            let place = ip.interface.and_then(|place| usize::try_from(place).ok());
            attached.addresses.push(InterfaceAddress {
                address: ip.address,
                gateway: ip.gateway,
                interface: place.and_then(|place| places.get(place).copied().flatten()),
            });
        }
        Ok(attached)
    }

    /// Every address.
    pub fn addresses(&self) -> Vec<InterfaceAddress> {
        self.ips.iter().map(address).collect()
    }

    /// The addresses of the container's interface `ifname`. One that is on no known interface may
    /// be its own.
    pub fn addresses_of(&self, ifname: &IfName) -> Vec<InterfaceAddress> {
        let elsewhere = |ip: &&Ip| {
            let place = ip.interface.and_then(|place| usize::try_from(place).ok());
            let interface = place.and_then(|place| self.interfaces.get(place));
            interface.is_some_and(|it| it.name != ifname.as_str() || it.sandbox.is_empty())
        };
        self.ips.iter().filter(|ip| !elsewhere(ip)).map(address).collect()
    }

    /// The first interface of the host: the bridge, or the host's end of a pair.
    pub fn host_side(&self) -> Option<IfName> {
        let first = self.interfaces.iter().find(|interface| interface.sandbox.is_empty())?;
        first.name.parse().ok()
    }
}

fn ip(held: &InterfaceAddress) -> Ip {
    Ip {
        address: held.address,
        gateway: held.gateway,
        interface: held.interface.and_then(|place| i64::try_from(place).ok()),
    }
}

fn address(ip: &Ip) -> InterfaceAddress {
    InterfaceAddress { address: ip.address, gateway: ip.gateway, interface: None }
}

fn mac(interface: &Interface) -> Result<Option<Mac>> {
    if interface.mac.is_empty() {
        return Ok(None);
    }
    let doing = |error: Error| error.context(format!("interface {:?}", interface.name));
    match interface.mac.parse() {
        Err(_) if is_of_another_length(&interface.mac) => Ok(None),
        parsed => parsed.map(Some).map_err(doing),
    }
}

/// Whether it is a hardware address that is no Ethernet's, such as InfiniBand's of 20 octets. The model
/// has none of these.
fn is_of_another_length(text: &str) -> bool {
    let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|it| it.is_ascii_hexdigit());
    text.split(':').count() != 6 && text.split(':').all(is_octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(mac: &str) -> Result<Attached> {
        let interface = |name: &str, mac: &str| Interface {
            name: name.into(),
            mac: mac.into(),
            sandbox: "/ns".into(),
            ..Interface::default()
        };
        let interfaces = vec![interface("ib0", mac), interface("eth0", "02:00:00:00:00:01")];
        Success { interfaces, ..Success::default() }.attached()
    }

    #[test]
    fn a_hardware_address_of_another_length_is_none() {
        let infiniband = "80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:5d:c8:31";
        let attached_with = |mac: &str| attached(mac).unwrap().interfaces;
        for mac in [infiniband, "00:11:22:33:44:55:66:77", ""] {
            let interfaces = attached_with(mac);
            assert_eq!((interfaces.len(), interfaces[0].mac), (2, None), "{mac}");
            assert!(interfaces[1].mac.is_some());
        }
        for bad in ["02:00:00:00:00:zz", "+2:00", "02-00", ":", "none"] {
            assert!(attached(bad).unwrap_err().to_string().contains("ib0"), "{bad}");
        }
    }
}
