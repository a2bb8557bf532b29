//! Plans as tables: one line for each step.

use model::{
    Attachment, Bridge, Gateway, Ipam, Layer, Link, LinkKind, Mtu, Phase, Process, Ptp, Runtime,
    Timestamp, Wiring,
};

use super::*;

mod absent;
mod external;
mod kinds;
mod plug;
mod port;

fn address(net: &str, gateway: Option<&str>) -> InterfaceAddress {
    InterfaceAddress {
        address: net.parse().unwrap(),
        gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        interface: None,
    }
}

fn attachment(kind: LinkKind, addresses: Vec<InterfaceAddress>) -> Attachment {
    let link = Link { kind, name: None, mac: None, mtu: Mtu::new(1400) };
    Attachment {
        wiring: Wiring { link: Some(link), ..Wiring::default() },
        addresses,
        sandbox: Some(model::Sandbox { path: "/run/netns/web".into(), inode: 1 }),
        ..Attachment::new(
            doubles::attachment_id("front", "web"),
            Layer::Link,
            Runtime::Cni,
            Timestamp(0),
            Phase::Attaching { by: Process { pid: 1, start: 1 } },
        )
    }
}

fn bridge(gateway: Gateway) -> LinkKind {
    doubles::bridge("cni0", gateway)
}

fn there(addresses: &[&str]) -> Facts {
    let addresses = addresses.iter().map(|net| net.parse().unwrap()).collect();
    Facts {
        bridge: Some(BridgeFacts {
            is_bridge: true,
            is_up: true,
            promiscuous: false,
            is_ours: true,
            follows: false,
            mac: None,
            addresses,
        }),
        ..Facts::default()
    }
}

fn lines(plan: &Plan) -> String {
    let line = |place, steps: &[Step]| -> Vec<String> {
        steps.iter().map(|step| format!("{place}: {}", show(step))).collect()
    };
    [line("host", &plan.host), line("sandbox", &plan.sandbox), line("after", &plan.after)]
        .concat()
        .join("\n")
}

fn show(step: &Step) -> String {
    match step {
        Step::Bridge { name, mac, mtu } => {
            format!("bridge {name} {mac} mtu {}", mtu.map_or("-".into(), |mtu| mtu.to_string()))
        }
        Step::Veth(veth) => format!(
            "veth {} {} master {} peer {} {}{}",
            veth.host,
            veth.host_mac.map_or("-".into(), |mac| mac.to_string()),
            veth.master.as_ref().map_or("-", |master| master.as_str()),
            veth.peer,
            veth.peer_mac,
            veth.alias.as_ref().map_or(String::new(), |alias| format!(" alias {alias}"))
        ),
        Step::Single(single) => show_single(single),
        Step::Tap(Tap { name, mac, tap, .. }) => format!(
            "tap {name} {mac} {}owner {:?} group {:?} bridge {:?}",
            if tap.multi_queue { "multi-queue " } else { "" },
            tap.owner,
            tap.group,
            tap.bridge.as_ref().map(|bridge| bridge.as_str())
        ),
        Step::Move { from, to, remembers } => {
            format!("move {from} to {to}{}", if *remembers { " and remember" } else { "" })
        }
        Step::Mark { link, alias, .. } => format!("mark {link} {alias:?}"),
        Step::Rename { from, to } => format!("rename {from} to {to}"),
        Step::Mtu(name, mtu) => format!("mtu {mtu} of {name}"),
        Step::RouteAnywhere(route) => {
            format!("route {} via {} on whatever", route.dst, route.via.unwrap())
        }
        Step::DropRouteAnywhere(net, via) => format!("drop route {net} via {via}"),
        Step::Mac(name, mac) => format!("mac {mac} of {name}"),
        Step::Checksums(name) => format!("checksums made by {name}'s sender"),
        Step::Alias(name, text) => format!("alias {text:?} of {name}"),
        Step::Up(name) => format!("up {name}"),
        Step::Down(name) => format!("down {name}"),
        Step::Hairpin(name) => format!("hairpin of {name}"),
        Step::NoIpv6Addresses(name) => format!("no IPv6 addresses on {name}"),
        Step::Promiscuous(name) => format!("promiscuous {name}"),
        Step::Address(name, net) => format!("address {net} on {name}"),
        Step::Detected(name, net) => format!("address {net} on {name}, detecting duplicates"),
        Step::Settle(name) => format!("settle {name}"),
        Step::FilterVlans(name) => format!("filter VLANs of {name}"),
        Step::Port(port) => format!(
            "port {}{}{} {}",
            port.name,
            if port.isolated { " isolated" } else { "" },
            if port.filtered { " filtered" } else { "" },
            show_vlans(&port.vlans)
        ),
        Step::VlanGateway(gateway) => format!(
            "gateway {} {} port {} of {} {}",
            gateway.name,
            gateway.mac,
            gateway.port,
            gateway.bridge,
            show_vlans(&gateway.vlans)
        ),
        Step::Gateway(name, net) => format!("gateway {net} on {name}"),
        Step::DropAddress(name, net) => format!("drop address {net} of {name}"),
        Step::Route { link, route, source } => format!(
            "route {} via {} on {link} src {}",
            route.dst,
            route.via.map_or("-".into(), |via| via.to_string()),
            source.map_or("-".into(), |source| source.to_string())
        ),
        Step::DropRoute(name, net) => format!("drop route {net} on {name}"),
        Step::Sysctl { path, value, .. } => format!("sysctl {path} = {value}"),
        Step::Forward(family) => format!("forward {family:?}"),
    }
}

fn show_vlans(vlans: &model::Vlans) -> String {
    let mut shown: Vec<String> = vlans.untagged.iter().map(|id| format!("untagged {id}")).collect();
    let tagged = vlans.tagged.iter();
    shown.extend(tagged.map(|range| format!("tagged {}-{}", range.first, range.last)));
    shown.extend(vlans.keep_default.then(|| "besides the default".to_owned()));
    shown.join(" ")
}

fn show_single(single: &Single) -> String {
    format!(
        "{:?} {} on {} {} mtu {}{}{}",
        single.kind,
        single.name,
        single.parent.as_ref().map_or("-", |parent| parent.as_str()),
        single.mac.map_or("-".into(), |mac| mac.to_string()),
        single.mtu.map_or("-".into(), |mtu| mtu.to_string()),
        if single.away { " in the container" } else { "" },
        if single.shared { " for all" } else { "" },
    )
}

#[test]
fn the_first_container_of_a_gateway_bridge() {
    let addresses = vec![address("10.1.0.2/24", None), address("fd00:1::2/64", None)];
    let plan = attach(&attachment(bridge(Gateway::Default), addresses), &Facts::default());
    insta::assert_snapshot!(lines(&plan.unwrap()), @r"
    host: bridge cni0 16:d5:c9:f9:b7:b0 mtu 1400
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: address 10.1.0.1/24 on cni0
    host: address fd00:1::1/64 on cni0
    host: forward V4
    host: forward V6
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer eth0 46:5f:0a:1d:26:9f
    sandbox: sysctl net/ipv6/conf/lo/disable_ipv6 = 0
    sandbox: sysctl net/ipv6/conf/eth0/disable_ipv6 = 0
    sandbox: sysctl net/ipv6/conf/eth0/keep_addr_on_down = 1
    sandbox: address 10.1.0.2/24 on eth0
    sandbox: address fd00:1::2/64 on eth0
    sandbox: sysctl net/ipv6/conf/eth0/ndisc_notify = 1
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth0 src -
    sandbox: route ::/0 via fd00:1::1 on eth0 src -
    ");
}

#[test]
fn routers_on_a_bridge_of_the_administrator_stay_the_hosts() {
    let mut facts = there(&[]);
    let refuses = |runtime, facts: &Facts| {
        let found = attachment(bridge(Gateway::None), vec![address("10.1.0.3/24", None)]);
        let plan = attach(&Attachment { runtime, ..found }, facts).unwrap();
        let network = Network { runtime, ..network_of(Ipam::None, Gateway::None) };
        let raised = Plan { host: up(&network, facts).unwrap(), ..Plan::default() };
        let of = |plan| lines(plan).contains("accept_ra");
        assert_eq!(of(&plan), of(&raised), "{runtime}");
        of(&plan)
    };
    let all = [Runtime::Cni, Runtime::Podman, Runtime::Spoke, Runtime::Docker, Runtime::Kurma];
    assert!(all.iter().all(|runtime| refuses(*runtime, &facts)));
    assert!(all.iter().all(|runtime| refuses(*runtime, &Facts::default())));
    facts.bridge.as_mut().unwrap().is_ours = false;
    let refusing: Vec<_> = all.into_iter().filter(|it| refuses(*it, &facts)).collect();
    assert_eq!(refusing, [Runtime::Cni], "the reference does");
}

#[test]
fn a_later_container_changes_nothing_shared() {
    let addresses = vec![address("10.1.0.3/24", Some("10.1.0.1"))];
    let facts = there(&["10.1.0.1/24"]);
    let plan = attach(&attachment(bridge(Gateway::Address), addresses), &facts);
    insta::assert_snapshot!(lines(&plan.unwrap()), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: forward V4
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer eth0 f6:9d:1d:c9:76:92
    sandbox: address 10.1.0.3/24 on eth0
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    ");
}

/// What a bridge would hand to the host as its port's comes up from the bridge, where that is filtered.
#[test]
fn ports_of_a_filtered_bridge_are_born_so() {
    let addresses = vec![address("10.1.0.3/24", Some("10.1.0.1"))];
    let mut plain = attachment(bridge(Gateway::Address), addresses);
    let planned = |it: &Attachment| lines(&attach(it, &there(&["10.1.0.1/24"])).unwrap());
    assert!(!planned(&plain).contains(" filtered"));
    plain.wiring.fence = Some("none".parse().unwrap());
    assert!(!planned(&plain).contains(" filtered"));
    let strict = model::Fence { strict: true, ..model::Fence::default() };
    let wirings = [
        Wiring { fence: Some(strict), ..plain.wiring.clone() },
        Wiring { via: Some("wg0".parse().unwrap()), fence: None, ..plain.wiring.clone() },
    ];
    for wiring in wirings {
        let filtered = Attachment { wiring, ..plain.clone() };
        assert!(planned(&filtered).contains(" filtered"), "{}", planned(&filtered));
    }
}

#[test]
fn another_address_on_the_bridge_is_in_the_way() {
    let addresses = vec![address("10.1.0.3/24", None)];
    let mut wanted = attachment(bridge(Gateway::Address), addresses);
    let error = attach(&wanted, &there(&["10.9.0.1/24"])).unwrap_err();
    assert_eq!(error.kind(), model::Kind::Conflict);
    let Some(link) = &mut wanted.wiring.link else { unreachable!() };
    if let LinkKind::Bridge(bridge) = &mut link.kind {
        bridge.force_address = true;
    }
    let plan = attach(&wanted, &there(&["10.9.0.1/24"])).unwrap();
    assert!(
        plan.host
            .contains(&Step::DropAddress("cni0".parse().unwrap(), "10.9.0.1/24".parse().unwrap()))
    );
}

#[test]
fn a_bridge_that_follows_its_ports_keeps_the_address_that_it_has() {
    let plan = |follows| {
        let mut facts = there(&[]);
        let bridge_there = facts.bridge.as_mut().unwrap();
        (bridge_there.follows, bridge_there.mac) = (follows, Some(Mac::new([2, 0, 0, 0, 0, 9])));
        attach(&attachment(bridge(Gateway::None), Vec::new()), &facts).unwrap()
    };
    let pinned = Step::Mac("cni0".parse().unwrap(), Mac::new([2, 0, 0, 0, 0, 9]));
    assert!(plan(true).host.contains(&pinned));
    assert!(!plan(false).host.contains(&pinned));
}

#[test]
fn a_device_that_is_no_bridge_is_refused() {
    let mut facts = there(&[]);
    facts.bridge.as_mut().unwrap().is_bridge = false;
    let error = attach(&attachment(bridge(Gateway::None), Vec::new()), &facts).unwrap_err();
    assert!(error.to_string().contains("already exists but is not a bridge"), "{error}");
}

#[test]
fn ptp_routes_everything_through_the_host() {
    let addresses = vec![address("10.1.0.2/24", None)];
    let plan = attach(&attachment(LinkKind::Ptp(Ptp::default()), addresses), &Facts::default());
    insta::assert_snapshot!(lines(&plan.unwrap()), @r"
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master - peer eth0 46:5f:0a:1d:26:9f
    host: forward V4
    host: sysctl net/ipv6/conf/vethc636e6306dc/accept_ra = 0
    sandbox: address 10.1.0.2/24 on eth0
    sandbox: up eth0
    sandbox: sysctl net/ipv4/conf/eth0/arp_notify = 1
    sandbox: drop route 10.1.0.0/24 on eth0
    sandbox: route 10.1.0.1/32 via - on eth0 src 10.1.0.2
    sandbox: route 10.1.0.0/24 via 10.1.0.1 on eth0 src 10.1.0.2
    after: address 10.1.0.1/32 on vethc636e6306dc
    after: route 10.1.0.2/32 via - on vethc636e6306dc src -
    ");
}

#[test]
fn what_the_runtime_completes_has_no_steps_in_the_sandbox() {
    let mut handed = attachment(bridge(Gateway::Default), vec![address("10.1.0.3/24", None)]);
    handed.handoff = Handoff::Caller;
    handed.runtime = Runtime::Docker;
    let plan = attach(&handed, &there(&["10.1.0.1/24"])).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: forward V4
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer vetcc636e6306dc f6:9d:1d:c9:76:92
    ");
    assert!(plan.attached.routes.is_empty());
    let last = plan.attached.interfaces.last().unwrap();
    assert_eq!(
        (last.name.as_str(), last.place),
        ("vetcc636e6306dc", model::InterfaceNamespace::Host)
    );
}

#[test]
fn docker_chooses_the_default_route() {
    let mut ours = attachment(bridge(Gateway::Default), vec![address("10.1.0.3/24", None)]);
    let Some(link) = &mut ours.wiring.link else { unreachable!() };
    link.name = Some("web7".parse().unwrap());
    ours.runtime = Runtime::Docker;
    // Another subnet of the network, or whatever else the bridge has.
    let plan = attach(&ours, &there(&["10.9.0.1/24", "10.1.0.1/24"])).unwrap();
    insta::assert_snapshot!(lines(&plan), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: forward V4
    host: veth vethc636e6306dc 82:bf:cf:2e:ab:5e master cni0 peer web7 f6:9d:1d:c9:76:92
    sandbox: address 10.1.0.3/24 on web7
    sandbox: up web7
    sandbox: sysctl net/ipv4/conf/web7/arp_notify = 1
    ");
}

fn network_of(ipam: Ipam, gateway: Gateway) -> Network {
    let link = Link { kind: bridge(gateway), name: None, mac: None, mtu: Mtu::new(1400) };
    Network::new(
        "front".parse().unwrap(),
        Runtime::Docker,
        Timestamp(0),
        Wiring { link: Some(link), ..Wiring::default() },
        ipam,
    )
}

#[test]
fn a_network_comes_up_with_a_gateway_on_each_subnet() {
    let range = |subnet: &str, gateway: Option<&str>| {
        let subnet: IpNet = subnet.parse().unwrap();
        let gateway = gateway.map(|gateway| gateway.parse().unwrap());
        model::Range::new(subnet, subnet.network(), subnet.network(), gateway).unwrap()
    };
    let pools = vec![model::Pool {
        id: model::PoolId { network: "front".parse().unwrap(), index: 0 },
        space: model::Space::Host,
        ranges: vec![range("10.1.0.0/24", None), range("10.2.0.0/31", Some("10.2.0.0"))],
        order: model::Order::LowestFree,
    }];
    let front = network_of(Ipam::Book { pools: pools.clone() }, Gateway::Default);
    let plan = |network: &Network, facts: &Facts| {
        lines(&Plan { host: up(network, facts).unwrap(), ..Plan::default() })
    };
    insta::assert_snapshot!(plan(&front, &Facts::default()), @r"
    host: bridge cni0 16:d5:c9:f9:b7:b0 mtu 1400
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: gateway 10.1.0.1/24 on cni0
    host: gateway 10.2.0.0/31 on cni0
    ");
    insta::assert_snapshot!(plan(&front, &there(&["10.1.0.1/24", "10.9.0.1/24"])), @r"
    host: sysctl net/ipv6/conf/cni0/accept_ra = 0
    host: gateway 10.2.0.0/31 on cni0
    ");
    let switch = network_of(Ipam::Book { pools }, Gateway::None);
    insta::assert_snapshot!(
        plan(&switch, &there(&[])),
        @"host: sysctl net/ipv6/conf/cni0/accept_ra = 0"
    );
}

/// A runtime that gets the hardware address before the link is made writes it down; that does not make
/// it a chosen one.
#[test]
fn what_derives_from_the_address_is_not_announced() {
    let mut plain = attachment(bridge(Gateway::None), vec![address("10.1.0.2/24", None)]);
    let planned = |attachment: &Attachment| lines(&attach(attachment, &there(&[])).unwrap());
    let silent = planned(&plain);
    let derived = hardware_address(&plain);
    let of = |attachment: &mut Attachment, mac| {
        attachment.wiring.link.as_mut().unwrap().mac = mac;
        planned(attachment)
    };
    assert_eq!(of(&mut plain, derived), silent);
    let announced = of(&mut plain, Some("c2:11:22:33:44:55".parse().unwrap()));
    assert!(announced.ends_with("arp_notify = 1\nsandbox: up eth0"), "{announced}");
}
