//! Links without an end in the host: what is planned for each kind, also where the kernel lacks it.

use model::{
    Device, DeviceChoice, Dhcp, Ipam, Ipvlan, IpvlanMode, Kind, Macvlan, Parent, Tap, Vlan, VlanId,
};

use super::*;
use crate::identity::{Users, shim_link, shim_mac};

fn parent(place: InterfaceNamespace, vlan: Option<u16>) -> Parent {
    Parent { name: "lan0".parse().ok(), place, vlan: vlan.and_then(VlanId::new) }
}

fn macvlan(parent: Parent) -> Macvlan {
    let mode = MacvlanMode::Bridge;
    Macvlan { parent, mode, broadcast_queue: None, host_access: false, probe: false }
}

fn lan0() -> Facts {
    let parent = ParentFacts {
        name: "lan0".parse().unwrap(),
        base: None,
        is_ours: false,
        alias: None,
        mac: "02:00:00:00:00:09".parse().ok(),
        mtu: 1500,
        addresses: vec!["10.1.0.1/24".parse().unwrap(), "fd00:1::1/64".parse().unwrap()],
    };
    Facts { parent: Some(parent), ..Facts::default() }
}

/// The attachment's own hardware address is shown as MAC.
fn planned(kind: LinkKind, facts: &Facts) -> String {
    let attachment = attachment(kind, vec![address("10.1.0.2/24", Some("10.1.0.1"))]);
    let mac = container_mac(&attachment, attachment.wiring.link.as_ref().unwrap());
    lines(&attach(&attachment, facts).unwrap()).replace(&mac.to_string(), "MAC")
}

const USABLE: &str = "sandbox: address 10.1.0.2/24 on eth0
sandbox: up eth0
sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1";

/// The same of a hardware address that does not derive from the address.
const ANNOUNCED: &str = "sandbox: address 10.1.0.2/24 on eth0
sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
sandbox: up eth0";

#[test]
fn each_kind_comes_into_being_in_one_step() {
    let sandbox = || parent(InterfaceNamespace::Sandbox, None);
    let host = || parent(InterfaceNamespace::Host, None);
    let id = VlanId::new(7).unwrap();
    let mode = IpvlanMode::L3s;
    let table = [
        (
            LinkKind::Macvlan(macvlan(host())),
            "host: Macvlan { mode: Bridge, broadcast_queue: None } eth0 on lan0 MAC mtu 1400 in the container",
        ),
        (
            LinkKind::Macvlan(macvlan(sandbox())),
            "sandbox: Macvlan { mode: Bridge, broadcast_queue: None } eth0 on lan0 MAC mtu 1400",
        ),
        (
            LinkKind::Macvlan(Macvlan {
                mode: MacvlanMode::Passthru,
                broadcast_queue: Some(9),
                ..macvlan(host())
            }),
            "host: Macvlan { mode: Passthru, broadcast_queue: Some(9) } eth0 on lan0 - mtu 1400 in the container",
        ),
        (
            LinkKind::Ipvlan(Ipvlan { parent: host(), mode }),
            "host: Ipvlan(L3s) eth0 on lan0 - mtu 1400 in the container",
        ),
        (
            LinkKind::Ipvlan(Ipvlan { parent: sandbox(), mode }),
            "sandbox: Ipvlan(L3s) eth0 on lan0 - mtu 1400",
        ),
        (
            LinkKind::Vlan(Vlan { parent: host(), id: id.into() }),
            "host: Vlan(VlanTag(7)) eth0 on lan0 - mtu 1400 in the container",
        ),
        (
            LinkKind::Vlan(Vlan { parent: sandbox(), id: id.into() }),
            "sandbox: Vlan(VlanTag(7)) eth0 on lan0 - mtu 1400",
        ),
        (LinkKind::Dummy, "host: Dummy eth0 on - MAC mtu 1400 in the container"),
        (
            LinkKind::Tap(Tap { multi_queue: true, owner: Some(1), ..Tap::default() }),
            "sandbox: tap eth0 MAC multi-queue owner Some(1) group None bridge None",
        ),
    ];
    for (kind, born) in table {
        assert_eq!(planned(kind, &lan0()), format!("{born}\n{USABLE}"));
    }
}

#[test]
fn what_shares_its_parents_address_tells_it() {
    let facts = lan0();
    let host = || parent(InterfaceNamespace::Host, None);
    let passthru = Macvlan { mode: MacvlanMode::Passthru, ..macvlan(host()) };
    let ipvlan = Ipvlan { parent: host(), mode: IpvlanMode::L2 };
    for kind in [LinkKind::Macvlan(passthru), LinkKind::Ipvlan(ipvlan)] {
        let attachment = attachment(kind, Vec::new());
        let became = attach(&attachment, &facts).unwrap().attached;
        assert_eq!(became.interfaces[0].mac, facts.parent.as_ref().unwrap().mac);
        assert_eq!(hardware_address(&attachment), None);
    }
}

#[test]
fn a_device_is_moved_once() {
    let kind = || LinkKind::Device(Device { choice: DeviceChoice::Name("nic0".parse().unwrap()) });
    let with = |device| Facts { device: Some(device), ..Facts::default() };
    let there = with(DeviceFacts::Host { name: "nic0".parse().unwrap(), mac: None });
    let moved = "host: move nic0 to eth0 and remember";
    assert_eq!(planned(kind(), &there), format!("{moved}\n{USABLE}"));
    assert_eq!(planned(kind(), &with(DeviceFacts::There { mac: None })), USABLE);
    assert_eq!(planned(kind(), &with(DeviceFacts::Program)), "");
    let missing = attach(&attachment(kind(), Vec::new()), &Facts::default()).unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
}

#[test]
fn a_vlan_of_a_parent_is_made_for_all() {
    let kind = |vlan| LinkKind::Ipvlan(Ipvlan { parent: vlan, mode: IpvlanMode::L2 });
    let mut facts = lan0();
    let below = facts.parent.as_mut().unwrap();
    (below.name, below.base) = ("lan0.7".parse().unwrap(), "lan0".parse().ok());
    let network = "front".parse().unwrap();
    let users = Users::default().with(&network).unwrap().to_string();
    let made = format!(
        "host: Vlan(VlanTag(7)) lan0.7 on lan0 - mtu - for all
host: sysctl net/ipv6/conf/lan0.7/accept_ra = 0
host: up lan0.7
host: alias {users:?} of lan0.7"
    );
    let own = "host: Ipvlan(L2) eth0 on lan0.7 - mtu 1400 in the container";
    let on_vlan = || kind(parent(InterfaceNamespace::Host, Some(7)));
    assert_eq!(planned(on_vlan(), &facts), format!("{made}\n{own}\n{USABLE}"));

    // One of ours that knows its user, and one of another program.
    let below = facts.parent.as_mut().unwrap();
    (below.base, below.is_ours, below.alias) = (None, true, Some(users));
    assert_eq!(planned(on_vlan(), &facts), format!("{own}\n{USABLE}"));
    let below = facts.parent.as_mut().unwrap();
    (below.is_ours, below.alias) = (false, None);
    assert_eq!(planned(on_vlan(), &facts), format!("{own}\n{USABLE}"));
}

#[test]
fn the_host_reaches_containers_through_a_device_of_its_own() {
    let kind = Macvlan { host_access: true, ..macvlan(parent(InterfaceNamespace::Host, None)) };
    let network = "front".parse().unwrap();
    let shim = shim_link(&network).unwrap();
    let (mac, plan) = (shim_mac(&network), planned(LinkKind::Macvlan(kind.clone()), &lan0()));
    let expected = format!(
        "host: Macvlan {{ mode: Bridge, broadcast_queue: None }} {shim} on lan0 {mac} mtu - for all
host: sysctl net/ipv4/conf/{shim}/arp_filter = 1
host: sysctl net/ipv6/conf/{shim}/accept_ra = 0
host: up {shim}
host: address fd00:1::1/128 on {shim}
host: Macvlan {{ mode: Bridge, broadcast_queue: None }} eth0 on lan0 MAC mtu 1400 in the container
{USABLE}
after: route 10.1.0.2/32 via - on {shim} src 10.1.0.1"
    );
    assert_eq!(plan, expected);
    let hidden = Macvlan { mode: MacvlanMode::Private, ..kind };
    let refused = attach(&attachment(LinkKind::Macvlan(hidden), Vec::new()), &lan0());
    assert_eq!(refused.unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_link_is_made_before_its_addresses() {
    let mut first =
        attachment(LinkKind::Macvlan(macvlan(parent(InterfaceNamespace::Host, None))), Vec::new());
    first.ipam = Ipam::Dhcp(Dhcp {
        socket: "/run/cni/dhcp.sock".into(),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    });
    let mac = hardware_address(&first).unwrap();
    let born =
        format!("Macvlan {{ mode: Bridge, broadcast_queue: None }} NAME on lan0 {mac} mtu 1400");
    let (inside, outside) = (born.replace("NAME", "eth0"), born);
    assert_eq!(
        lines(&connect(&first, &lan0()).unwrap()),
        format!("host: {inside} in the container\nsandbox: up eth0")
    );
    first.addresses = vec![address("10.1.0.2/24", None)];
    assert_eq!(hardware_address(&first), Some(mac), "it asked as that one");
    let there = |place| Facts { connected: Some(Connected { place, mac: Some(mac) }), ..lan0() };
    assert_eq!(lines(&attach(&first, &there(InterfaceNamespace::Sandbox)).unwrap()), ANNOUNCED);

    // Made before there was a container.
    let guest = Identity::of(&first.id).guest_link().unwrap();
    let moved = lines(&attach(&first, &there(InterfaceNamespace::Host)).unwrap());
    assert_eq!(moved, format!("host: move {guest} to eth0\n{ANNOUNCED}"));
    first.sandbox = None;
    let outside = outside.replace("NAME", guest.as_str());
    assert_eq!(
        lines(&connect(&first, &lan0()).unwrap()),
        format!("host: {outside}\nhost: up {guest}")
    );

    // Another address was chosen since.
    first.ipam = Ipam::None;
    first.sandbox = Some(model::Sandbox { path: "/run/netns/web".into(), inode: 1 });
    let other = hardware_address(&first).unwrap();
    let changed = lines(&attach(&first, &there(InterfaceNamespace::Sandbox)).unwrap());
    assert_eq!(changed, format!("sandbox: mac {other} of eth0\n{USABLE}"));
}

/// Of every kind: what was made in the host's namespace and is no port of a bridge takes no route
/// from the device at its other end.
#[test]
fn nothing_made_on_the_host_takes_router_advertisements() {
    let vlan = VlanId::new(7);
    let with_vlan = || {
        let mut facts = lan0();
        let below = facts.parent.as_mut().unwrap();
        (below.name, below.base) = ("lan0.7".parse().unwrap(), "lan0".parse().ok());
        facts
    };
    let on_vlan = || parent(InterfaceNamespace::Host, Some(7));
    let vlans = model::Vlans { untagged: vlan, ..model::Vlans::default() };
    let port = model::BridgePort { vlans, ..model::BridgePort::default() };
    let on_bridge = |port| match bridge(Gateway::Address) {
        LinkKind::Bridge(bridge) => LinkKind::Bridge(Bridge { port, ..bridge }),
        other => other,
    };
    let table = [
        (bridge(Gateway::Address), Facts::default()),
        (on_bridge(port), Facts::default()),
        (LinkKind::Ptp(model::Ptp::default()), Facts::default()),
        (LinkKind::Macvlan(Macvlan { host_access: true, ..macvlan(on_vlan()) }), with_vlan()),
        (LinkKind::Ipvlan(Ipvlan { parent: on_vlan(), mode: IpvlanMode::L2 }), with_vlan()),
        (LinkKind::Vlan(Vlan { parent: on_vlan(), id: vlan.unwrap().into() }), with_vlan()),
        (LinkKind::Dummy, lan0()),
        (LinkKind::Tap(Tap::default()), lan0()),
        (LinkKind::Loopback, lan0()),
    ];
    for (kind, facts) in table {
        let name = format!("{kind:?}");
        let steps = attach(&attachment(kind, Vec::new()), &facts).unwrap().host;
        for device in steps.iter().filter_map(made_on_the_host) {
            let refused = refuse_router_advertisements(device);
            assert!(steps.contains(&refused), "{name}: {device}\n{steps:?}");
        }
    }
}

/// The device of the host's that a step makes and that packets reach the host by.
fn made_on_the_host(step: &Step) -> Option<&IfName> {
    match step {
        Step::Bridge { name, .. } => Some(name),
        Step::Veth(veth) if veth.master.is_none() => Some(&veth.host),
        Step::VlanGateway(gateway) => Some(&gateway.name),
        Step::Single(single) if single.shared => Some(&single.name),
        _ => None,
    }
}
