//! Routing by source.

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;

use crate::bed::{Container, attachment, bridge, isolated, run};
use crate::{chained, name};

/// A container with two interfaces, each on a bridge of its own.
struct Two {
    container: Container,
    links: Vec<(Attachment, Attached)>,
}

fn two(linux: &Linux) -> Two {
    let container = Container::new();
    let mut links = Vec::new();
    for (ifname, bridge_name, address) in
        [("eth0", "br0", "10.88.0.2/24"), ("eth1", "br1", "10.89.0.2/24")]
    {
        let mut link = attachment("one", bridge(), address, &container.sandbox);
        link.id.ifname = name(ifname);
        let made = link.wiring.link.as_mut().unwrap();
        let LinkKind::Bridge(bridge) = &mut made.kind else { unreachable!() };
        bridge.name = name(bridge_name);
        let became = linux.attach(&link).unwrap();
        links.push((link, became));
    }
    Two { container, links }
}

fn routing(two: &Two, number: usize, wanted: SourceRouting) -> Attachment {
    let (link, became) = &two.links[number];
    let wiring = Wiring { source_routing: Some(wanted), ..Wiring::default() };
    Attachment {
        addresses: became.addresses.clone(),
        routes: became.routes.clone(),
        ..chained(link, Layer::SourceRouting, wiring)
    }
}

/// How a packet from this address leaves.
fn way(container: &Container, from: &str) -> String {
    container.run(&format!("ip route get 192.0.2.1 from {from} | head -1"))
}

#[test]
fn what_has_an_address_leaves_through_its_interface() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let two = two(&linux);
        let container = &two.container;
        let parts = [0, 1].map(|number| routing(&two, number, SourceRouting::default()));
        let mut results = Vec::new();
        for part in &parts {
            results.push(linux.attach(part).unwrap());
        }
        for (number, (part, became)) in parts.iter().zip(&results).enumerate() {
            linux.check(part, became).unwrap();
            let shown = way(container, &format!("10.8{}.0.2", 8 + number));
            assert!(shown.contains(&format!("dev eth{number}")), "{shown}");
            assert!(shown.contains(&format!("via 10.8{}.0.1", 8 + number)), "{shown}");
        }
        // Packets, too: each reaches the gateway of its own bridge only.
        run("ip addr add 192.0.2.1/32 dev lo; sysctl -qw net.ipv4.conf.all.rp_filter=0");
        for (address, bridge) in [("10.88.0.2", "br0"), ("10.89.0.2", "br1")] {
            let count = || run(&format!("ip -s link show {bridge} | awk 'NR == 4 {{ print $2 }}'"));
            let before: u64 = count().trim().parse().unwrap();
            container.run(&format!("ping -c3 -i0.2 -W2 -I {address} 192.0.2.1"));
            let after: u64 = count().trim().parse().unwrap();
            assert!(after >= before + 3, "{bridge}: {before} {after}");
        }
        // Attached again, nothing is there twice.
        let rules = container.run("ip rule");
        let routes = container.run("ip route show table all | sort");
        linux.attach(&parts[0]).unwrap();
        assert_eq!(container.run("ip rule"), rules);
        assert_eq!(container.run("ip route show table all | sort"), routes);
        linux.detach(&parts[0]).unwrap();
        linux.detach(&parts[0]).unwrap();
        linux.check(&parts[1], &results[1]).unwrap();
        assert!(linux.check(&parts[0], &results[0]).is_err());
        // The main table has the interface's routes again.
        assert!(way(container, "10.88.0.2").contains("dev eth0"));
    });
}

#[test]
fn hints_gateways_and_a_given_table_are_heeded() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let two = two(&linux);
        let container = &two.container;
        let wanted = SourceRouting {
            table: None,
            gateways: vec!["10.88.0.77".parse().unwrap()],
            source_hints: true,
        };
        let part = routing(&two, 0, wanted);
        let became = linux.attach(&part).unwrap();
        linux.check(&part, &became).unwrap();
        let shown = container.run("ip route show table 100");
        assert!(shown.contains("default via 10.88.0.77 dev eth0 src 10.88.0.2"), "{shown}");
        let given = SourceRouting { table: Some(777), ..SourceRouting::default() };
        let part = routing(&two, 1, given);
        let became = linux.attach(&part).unwrap();
        linux.check(&part, &became).unwrap();
        assert!(container.run("ip rule").contains("from 10.89.0.2 lookup 777"));
        assert!(
            container.run("ip route").contains("dev eth1"),
            "a given table is not ours to fill"
        );
        container.run("ip rule del from 10.89.0.2");
        assert!(linux.check(&part, &became).is_err());
    });
}

#[test]
fn a_namespace_that_is_gone_is_left_in_peace() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let two = two(&linux);
        let part = routing(&two, 0, SourceRouting::default());
        linux.attach(&part).unwrap();
        let nowhere = std::env::temp_dir().join(format!("spoke-sbr-{}", std::process::id()));
        let sandbox = Sandbox { path: nowhere.clone(), inode: 1 };
        linux.detach(&Attachment { sandbox: Some(sandbox), ..part.clone() }).unwrap();
        linux.detach(&Attachment { sandbox: None, ..part }).unwrap();
        assert!(!nowhere.exists());
    });
}

#[test]
fn many_at_once_have_a_table_each() {
    isolated(|| {
        let container = Container::new();
        let addresses: Vec<u8> = (0..8).collect();
        for number in &addresses {
            container.run(&format!(
                "ip link add eth{number} type veth peer name peer{number}; ip link set eth{number} up; \
                 ip link set peer{number} up; ip addr add 10.{number}.0.2/24 dev eth{number}"
            ));
        }
        let part = |number: &u8| {
            let address = format!("10.{number}.0.2/24");
            let mut link = attachment("one", bridge(), &address, &container.sandbox);
            link.id.ifname = name(&format!("eth{number}"));
            link.addresses[0].gateway = Some(format!("10.{number}.0.1").parse().unwrap());
            let wiring =
                Wiring { source_routing: Some(SourceRouting::default()), ..Wiring::default() };
            chained(&link, Layer::SourceRouting, wiring)
        };
        let parts: Vec<Attachment> = addresses.iter().map(part).collect();
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| Linux::new(Life::Long).attach(part).unwrap());
            }
        });
        let rules = container.run("ip rule");
        for table in 100..108 {
            let is_gateway =
                rules.lines().filter(|line| line.ends_with(&format!("lookup {table}")));
            assert_eq!(is_gateway.count(), 1, "{rules}");
        }
    });
}
