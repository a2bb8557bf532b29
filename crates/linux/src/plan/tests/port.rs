//! Ports of bridges.

use super::*;

fn in_vlans(gateway: Gateway, vlans: model::Vlans) -> LinkKind {
    let LinkKind::Bridge(mut made) = bridge(gateway) else { unreachable!() };
    made.port = model::BridgePort { vlans, isolated: true, ..made.port };
    LinkKind::Bridge(made)
}

#[test]
fn a_vlans_gateway_is_a_device_of_its_own() {
    let vlan = |number| model::VlanId::new(number).unwrap();
    let untagged = model::Vlans { untagged: Some(vlan(10)), ..model::Vlans::default() };
    let addresses = vec![address("10.1.0.2/24", None)];
    let wanted = attachment(in_vlans(Gateway::Address, untagged), addresses);
    let plan = attach(&wanted, &Facts::default()).unwrap();
    let named = plan.attached.interfaces.last().unwrap();
    assert_eq!((named.name.as_str(), named.place), ("cni0.10", InterfaceNamespace::Host));
    insta::assert_snapshot!(lines(&plan), @r"
    host: bridge cni0 16:d5:c9:f9:b7:b0 mtu 1400
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: filter VLANs of cni0
    host: gateway cni0.10 02:b3:db:13:73:79 port vlan03b3db13737 of cni0 untagged 10
    host: sysctl net/ipv6/conf/cni0.10/accept_ra = 0
    host: address 10.1.0.1/24 on cni0.10
    host: forward V4
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer eth0 46:5f:0a:1d:26:9f
    host: port vethc636e6306dc isolated untagged 10
    sandbox: address 10.1.0.2/24 on eth0
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    ");
    let facts = Facts { gateway: there(&["10.1.0.1/24"]).bridge, ..there(&[]) };
    let plan = attach(&wanted, &facts).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: filter VLANs of cni0
    host: sysctl net/ipv6/conf/cni0.10/accept_ra = 0
    host: forward V4
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer eth0 46:5f:0a:1d:26:9f
    host: port vethc636e6306dc isolated untagged 10
    sandbox: address 10.1.0.2/24 on eth0
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    ");
}

/// Another program removed the bridge: the gateway's pair is there, with its address, and no port.
#[test]
fn a_vlans_gateway_becomes_a_port_of_the_next_bridge() {
    let untagged = model::Vlans { untagged: model::VlanId::new(10), ..model::Vlans::default() };
    let wanted =
        attachment(in_vlans(Gateway::Address, untagged), vec![address("10.1.0.2/24", None)]);
    let facts = Facts { gateway: there(&["10.1.0.1/24"]).bridge, ..Facts::default() };
    let plan = lines(&attach(&wanted, &facts).unwrap());
    let ports: Vec<&str> = plan.lines().filter(|line| line.contains("gateway")).collect();
    let port = "host: gateway cni0.10 02:b3:db:13:73:79 port vlan03b3db13737 of cni0 untagged 10";
    assert_eq!(ports, [port], "{plan}");
}

#[test]
fn a_trunks_gateway_is_the_bridge() {
    let vlan = |number| model::VlanId::new(number).unwrap();
    let tagged = vec![
        model::VlanRange { first: vlan(20), last: vlan(29) },
        model::VlanRange { first: vlan(7), last: vlan(7) },
    ];
    let vlans = model::Vlans { tagged, keep_default: true, untagged: None };
    let wanted = attachment(in_vlans(Gateway::Address, vlans), vec![address("10.1.0.2/24", None)]);
    let plan = attach(&wanted, &there(&["10.1.0.1/24"])).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: filter VLANs of cni0
    host: forward V4
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer eth0 46:5f:0a:1d:26:9f
    host: port vethc636e6306dc isolated tagged 20-29 tagged 7-7 besides the default
    sandbox: address 10.1.0.2/24 on eth0
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    ");
}

#[test]
fn duplicates_are_looked_for_where_that_is_asked_for() {
    let LinkKind::Bridge(mut made) = bridge(Gateway::None) else { unreachable!() };
    made.port.duplicate_detection = true;
    let addresses = vec![address("10.1.0.2/24", None), address("fd00:1::2/64", None)];
    let plan = attach(&attachment(LinkKind::Bridge(made.clone()), addresses), &there(&[])).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer eth0 46:5f:0a:1d:26:9f
    sandbox: sysctl net/ipv6/conf/eth0/enhanced_dad = 1
    sandbox: sysctl net/ipv6/conf/eth0/accept_dad = 1
    sandbox: sysctl net/ipv6/conf/lo/disable_ipv6 = 0
    sandbox: sysctl net/ipv6/conf/eth0/disable_ipv6 = 0
    sandbox: sysctl net/ipv6/conf/eth0/keep_addr_on_down = 1
    sandbox: address 10.1.0.2/24 on eth0
    sandbox: address fd00:1::2/64 on eth0, detecting duplicates
    sandbox: sysctl net/ipv6/conf/eth0/ndisc_notify = 1
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    sandbox: settle eth0
    ");
    made.port.left_down = true;
    let plan =
        attach(&attachment(LinkKind::Bridge(made.clone()), Vec::new()), &there(&[])).unwrap();
    assert!(plan.sandbox.is_empty());
    let addressed = attachment(LinkKind::Bridge(made), vec![address("10.1.0.2/24", None)]);
    assert_eq!(attach(&addressed, &there(&[])).unwrap_err().kind(), model::Kind::Invalid);
}

/// A machine's port is a tap device in the host, and nothing of it is done in a namespace.
#[test]
fn a_machine_has_a_tap_device() {
    let mut kind = bridge(Gateway::Default);
    if let LinkKind::Bridge(bridge) = &mut kind {
        bridge.hairpin = true;
        bridge.port.tap = Some(model::Tap { owner: Some(64055), ..model::Tap::default() });
    }
    let mut machine = attachment(kind, vec![address("10.70.1.2/24", Some("10.70.1.1"))]);
    machine.sandbox = None;
    machine.handoff = model::Handoff::Caller;
    let plan = attach(&machine, &there(&["10.70.1.1/24"])).unwrap();
    let end = host_end(&machine).unwrap();
    let shown = lines(&plan);
    let made = [
        r#"owner Some(64055) group None bridge Some("cni0")"#.to_owned(),
        format!("hairpin of {end}"),
        format!("no IPv6 addresses on {end}"),
        format!("up {end}"),
    ];
    for line in made {
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    assert!(plan.sandbox.is_empty() && !shown.contains("veth veth"), "{shown}");
    let inside = plan.attached.interfaces.last().unwrap();
    assert_eq!((inside.name.as_str(), inside.place), ("eth0", InterfaceNamespace::Sandbox));
    assert_eq!(inside.mac, hardware_address(&machine));
    assert_ne!(inside.mac, Some(Identity::of(&machine.id).host_mac()));
}
