use super::*;

fn plug(offload: bool) -> LinkKind {
    LinkKind::Plug(model::Plug { end: "tap31b4f5a6-1c".parse().unwrap(), offload })
}

/// A port of Neutron's: its address, its hardware address, a default route.
fn port(offload: bool) -> Attachment {
    let mut port = attachment(plug(offload), vec![address("10.1.0.7/24", Some("10.1.0.1"))]);
    port.wiring.link.as_mut().unwrap().mac = Some("fa:16:3e:01:02:03".parse().unwrap());
    port.routes = vec![Route::new(Family::V4.everything(), None)];
    port
}

#[test]
fn a_plug_is_nothing_to_the_host() {
    let plan = attach(&port(true), &Facts::default()).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: veth tap31b4f5a6-1c - master - peer eth0 fa:16:3e:01:02:03 alias c636e6306dcdd7c5edcfff8810c3fbb8/link
    host: sysctl net/ipv6/conf/tap31b4f5a6-1c/accept_ra = 0
    sandbox: address 10.1.0.7/24 on eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    sandbox: up eth0
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth0 src -
    ");
    let names: Vec<&str> =
        plan.attached.interfaces.iter().map(|known| known.name.as_str()).collect();
    assert_eq!(names, ["tap31b4f5a6-1c", "eth0"]);
    assert_eq!(plan.attached.addresses[0].interface, Some(1));
    assert!(plan.after.is_empty());
}

#[test]
fn beside_a_program_the_host_is_deaf_and_checksums_are_made() {
    let plan = attach(&port(false), &Facts::default()).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: veth tap31b4f5a6-1c - master - peer eth0 fa:16:3e:01:02:03 alias c636e6306dcdd7c5edcfff8810c3fbb8/link
    host: sysctl net/ipv6/conf/tap31b4f5a6-1c/disable_ipv6 = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/rp_filter = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/arp_ignore = 8
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/drop_unicast_in_l2_multicast = 1
    sandbox: checksums made by eth0's sender
    sandbox: address 10.1.0.7/24 on eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    sandbox: up eth0
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth0 src -
    ");
}

#[test]
fn checksums_are_made_before_a_runtime_moves_it() {
    let mut handed = port(false);
    handed.handoff = Handoff::Caller;
    handed.runtime = Runtime::Docker;
    let plan = attach(&handed, &Facts::default()).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: veth tap31b4f5a6-1c - master - peer vetcc636e6306dc fa:16:3e:01:02:03 alias c636e6306dcdd7c5edcfff8810c3fbb8/link
    host: sysctl net/ipv6/conf/tap31b4f5a6-1c/disable_ipv6 = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/rp_filter = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/arp_ignore = 8
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/drop_unicast_in_l2_multicast = 1
    host: checksums made by vetcc636e6306dc's sender
    ");
    let there = Connected { place: InterfaceNamespace::Host, mac: None };
    handed.handoff = Handoff::Finish;
    let facts = Facts { connected: Some(there), ..Facts::default() };
    insta::assert_snapshot!(lines(&attach(&handed, &facts).unwrap()), @r"
    host: move vetcc636e6306dc to eth0
    host: sysctl net/ipv6/conf/tap31b4f5a6-1c/disable_ipv6 = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/rp_filter = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/arp_ignore = 8
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/drop_unicast_in_l2_multicast = 1
    sandbox: checksums made by eth0's sender
    sandbox: address 10.1.0.7/24 on eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    sandbox: up eth0
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth0 src -
    ");
}

#[test]
fn a_plug_may_come_before_its_addresses() {
    let mut early = port(false);
    early.sandbox = None;
    let plan = connect(&early, &Facts::default()).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: veth tap31b4f5a6-1c - master - peer vetcc636e6306dc fa:16:3e:01:02:03 alias c636e6306dcdd7c5edcfff8810c3fbb8/link
    host: sysctl net/ipv6/conf/tap31b4f5a6-1c/disable_ipv6 = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/rp_filter = 1
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/arp_ignore = 8
    host: sysctl net/ipv4/conf/tap31b4f5a6-1c/drop_unicast_in_l2_multicast = 1
    host: checksums made by vetcc636e6306dc's sender
    host: up vetcc636e6306dc
    ");
}
