//! A port's link in the kernel.

use model::{
    Binding, Device, DeviceChoice, IfName, InterfaceNamespace, Ipvlan, Link, LinkKind, Macvlan,
    NeutronLink, Parent, Plug, Result, Vif, Vlan,
};

use super::end_of;

/// The link that the dataplane makes for a port.
///
/// # Errors
/// None, as ids are short enough to be in an interface's name.
pub fn kernel_link(_neutron: &NeutronLink, binding: &Binding, link: &Link) -> Result<Link> {
    let plug = |offload| -> Result<LinkKind> {
        Ok(LinkKind::Plug(Plug { end: end_of(&binding.port)?, offload }))
    };
    let kind = match &binding.vif {
        Vif::Ovs { offload, .. } | Vif::OvsHybrid { offload, .. } => plug(*offload)?,
        Vif::Bridge { .. } | Vif::Tap | Vif::Script { .. } => plug(true)?,
        Vif::Macvlan { parent, mode } => LinkKind::Macvlan(Macvlan {
            parent: in_host(parent),
            mode: *mode,
            broadcast_queue: None,
            host_access: false,
            probe: false,
        }),
        Vif::Ipvlan { parent, mode } => {
            LinkKind::Ipvlan(Ipvlan { parent: in_host(parent), mode: *mode })
        }
        Vif::Trunk { parent, vlan, .. } => {
            LinkKind::Vlan(Vlan { parent: in_host(parent), id: (*vlan).into() })
        }
        Vif::Function { slot, .. } => {
            LinkKind::Device(Device { choice: DeviceChoice::Bus(slot.clone()) })
        }
    };
    // These have an address that is not theirs to choose.
    let has_own = !matches!(kind, LinkKind::Ipvlan(_) | LinkKind::Device(_));
    Ok(Link { kind, name: link.name.clone(), mac: link.mac.filter(|_| has_own), mtu: link.mtu })
}

fn in_host(name: &IfName) -> Parent {
    Parent { name: Some(name.clone()), place: InterfaceNamespace::Host, vlan: None }
}

#[cfg(test)]
mod tests {
    use model::{IpvlanMode, Mac, MacvlanMode, Mtu, Ownership, PortSpec, PortUser, VlanId};

    use super::*;

    fn made(vif: Vif) -> Link {
        let network = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f".parse().unwrap();
        let neutron =
            NeutronLink { network, subnets: vec![], spec: PortSpec::default(), binding: None };
        let port = "31b4f5a6-1c2d-4e3f-8a9b-0c1d2e3f4a5b".parse().unwrap();
        let binding = Binding { port, ownership: Ownership::Own, vif, user: PortUser::Container };
        let link = Link {
            kind: LinkKind::Neutron(Box::new(neutron.clone())),
            name: Some("eth7".parse().unwrap()),
            mac: Some(Mac::new([0xfa, 0x16, 0x3e, 1, 2, 3])),
            mtu: Mtu::new(1442),
        };
        kernel_link(&neutron, &binding, &link).unwrap()
    }

    #[test]
    fn what_a_switch_takes_is_a_plug() {
        let bridge: IfName = "br-int".parse().unwrap();
        let details = String::new();
        let name = "midonet".to_owned().try_into().unwrap();
        for (vif, offload) in [
            (Vif::Ovs { bridge: bridge.clone(), offload: false }, false),
            (Vif::OvsHybrid { bridge: bridge.clone(), offload: true }, true),
            (Vif::Bridge { bridge }, true),
            (Vif::Tap, true),
            (Vif::Script { name, details }, true),
        ] {
            let link = made(vif.clone());
            let plug = Plug { end: "tap31b4f5a6-1c".parse().unwrap(), offload };
            assert_eq!(link.kind, LinkKind::Plug(plug), "{vif:?}");
            assert_eq!(link.mac, Some(Mac::new([0xfa, 0x16, 0x3e, 1, 2, 3])));
            assert_eq!((link.name.unwrap().as_str(), link.mtu), ("eth7", Mtu::new(1442)));
        }
    }

    #[test]
    fn what_is_nested_has_a_parent() {
        let parent: IfName = "ens3".parse().unwrap();
        let vlan = VlanId::new(101).unwrap();
        let macvlan = made(Vif::Macvlan { parent: parent.clone(), mode: MacvlanMode::Bridge });
        let ipvlan = made(Vif::Ipvlan { parent: parent.clone(), mode: IpvlanMode::L2 });
        let trunk = "31b4f5a6".parse().unwrap();
        let subport = made(Vif::Trunk { parent: parent.clone(), vlan, trunk });
        for link in [&macvlan, &ipvlan, &subport] {
            assert_eq!(link.kind.parent(), Some(&in_host(&parent)));
        }
        assert!(macvlan.mac.is_some() && subport.mac.is_some() && ipvlan.mac.is_none());
        assert!(matches!(subport.kind, LinkKind::Vlan(Vlan { id, .. }) if id == vlan.into()));
    }

    #[test]
    fn a_function_is_a_device() {
        let slot: model::DeviceAddress = "0000:05:10.3".to_owned().try_into().unwrap();
        let link = made(Vif::Function { slot: slot.clone(), vlan: VlanId::new(7) });
        let device = Device { choice: DeviceChoice::Bus(slot) };
        assert_eq!((link.kind, link.mac), (LinkKind::Device(device), None));
    }
}
