//! Sandboxes of several interfaces, of which one leads out; each test in namespaces of its own that
//! end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// What the other tests need of it.
#[allow(dead_code)]
mod bed;

use bed::*;
use engine::port::{Driver, HostDataplane};
use linux::{Life, Linux};
use model::*;

const V4: Family = Family::V4;
const V6: Family = Family::V6;

/// An attachment that leads in these families.
fn led(mut attachment: Attachment, network: &str, ifname: &str, families: &[Family]) -> Attachment {
    attachment.id.network = network.parse().unwrap();
    attachment.id.ifname = ifname.parse().unwrap();
    attachment.gateway_role =
        Some(GatewayRole { families: families.to_vec(), ..GatewayRole::default() });
    attachment
}

fn with(mut attachment: Attachment, address: &str) -> Attachment {
    let held = doubles::address(address);
    attachment.addresses.push(held);
    attachment
}

/// On a bridge of its own, `br7` or the like.
fn bridged(number: u8, sandbox: &Sandbox, backend: Backend) -> Attachment {
    let name = format!("br{number}").parse().unwrap();
    let kind = LinkKind::Bridge(Bridge { name, ..bridge().bridge().unwrap().clone() });
    let made = attachment("one", kind, &format!("10.{number}.0.2/24"), sandbox);
    let mut made = with(made, &format!("fd00:{number}::2/64"));
    made.wiring.publish = Some(Publish { backend, ..published(8080) });
    led(made, &format!("net{number}"), &format!("eth{number}"), &[])
}

/// The record once the engine has written who leads.
fn as_led(attachment: &Attachment, families: &[Family]) -> Attachment {
    let mut record = attachment.clone();
    record.gateway_role.as_mut().unwrap().families = families.to_vec();
    record
}

fn defaults(one: &Container) -> String {
    let both = one.run("ip route show default; ip -6 route show default");
    both.lines()
        .map(|line| line.split(" metric").next().unwrap().trim().to_owned() + "\n")
        .collect()
}

#[test]
fn one_leads_and_then_another_one_family_by_family() {
    isolated(|| {
        for backend in [Backend::Nftables, Backend::Iptables] {
            let linux = Linux::new(Life::Long);
            let one = Container::new();
            one.serve(80);
            let (first, second) =
                (bridged(1, &one.sandbox, backend), bridged(2, &one.sandbox, backend));
            let became = [&first, &second].map(|it| linux.attach(it).unwrap());
            assert_eq!(defaults(&one), "");
            let outside = Container::new();
            run(&format!("ip link add out type veth peer name eth0 netns {}", outside.netns()));
            run("ip address add 192.0.2.1/24 dev out; ip link set out up");
            outside.run("ip address add 192.0.2.2/24 dev eth0; ip link set eth0 up");
            assert!(!outside.reaches("192.0.2.1", 8080), "no port is published");

            let (led_first, led_second) = (as_led(&first, &[V4, V6]), as_led(&second, &[V4]));
            for _ in 0..2 {
                linux.set_gateway(&led_first, &[V4, V6]).unwrap();
                assert_eq!(
                    defaults(&one),
                    "default via 10.1.0.1 dev eth1\ndefault via fd00:1::1 dev eth1\n"
                );
            }
            linux.check(&led_first, &became[0]).unwrap();
            linux.check(&second, &became[1]).unwrap();
            assert!(outside.reaches("192.0.2.1", 8080));

            let kept = as_led(&first, &[V6]);
            linux.set_gateway(&kept, &[V6]).unwrap();
            assert!(!outside.reaches("192.0.2.1", 8080), "not over IPv4 any more");
            linux.set_gateway(&led_second, &[V4]).unwrap();
            assert_eq!(
                defaults(&one),
                "default via 10.2.0.1 dev eth2\ndefault via fd00:1::1 dev eth1\n"
            );
            assert!(outside.reaches("192.0.2.1", 8080));
            linux.check(&kept, &became[0]).unwrap();
            linux.check(&led_second, &became[1]).unwrap();
            assert!(linux.check(&as_led(&second, &[V4, V6]), &became[1]).is_err());
            assert!(!linux.restore(&kept).unwrap() && !linux.restore(&led_second).unwrap());

            // The process that undoes it knows less than what is there.
            linux.detach(&first).unwrap();
            linux.detach(&second).unwrap();
            assert!(!outside.reaches("192.0.2.1", 8080));
            assert!(linux.strays(&|| Ok(Vec::new())).unwrap().is_empty());
            let rules = run("nft list ruleset");
            assert!(!rules.contains("8080"), "{rules}");
            assert!(linux.set_gateway(&led_first, &[V4]).is_err(), "there is no interface");
            run("ip link delete br1; ip link delete br2; ip link delete out");
        }
    });
}

#[test]
fn an_interface_of_a_driver_leads_as_it_says() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        run("ip link add cable type veth peer name plug0; ip link set cable up");
        let external = ExternalInterface {
            source: "plug0".parse().unwrap(),
            prefix: Some("web".parse().unwrap()),
        };
        let made =
            attachment("one", LinkKind::ExternalInterface(external), "10.77.0.2/24", &one.sandbox);
        let mut made = led(with(made, "fd77::2/64"), "plugs", "eth0", &[]);
        made.wiring.masquerade = None;
        made.addresses[0].gateway = Some("192.0.2.1".parse().unwrap());
        made.routes = vec![Route { scope: Some(253), ..Route::new("::/0".parse().unwrap(), None) }];
        let became = linux.attach(&made).unwrap();
        assert_eq!(defaults(&one), "");
        // What the driver is asked with knows the result.
        for phase in [made.phase.clone(), Phase::Attached(became.clone())] {
            let record = Attachment { phase, ..as_led(&made, &[V4, V6]) };
            linux.set_gateway(&record, &[V4, V6]).unwrap();
            let shown = defaults(&one);
            assert_eq!(shown, "default via 192.0.2.1 dev web0\ndefault dev web0\n");
            assert!(one.run("ip route").contains("192.0.2.1 dev web0 scope link"));
            linux.check(&record, &became).unwrap();
            linux.set_gateway(&as_led(&made, &[V6]), &[V6]).unwrap();
            assert_eq!(defaults(&one), "default dev web0\n");
        }
        // Other programs' default routes are not touched.
        one.run("ip link add net0 up type veth peer name net1; ip link set net1 up");
        one.run("ip address add 10.9.0.2/24 dev net0; ip route add default via 10.9.0.1");
        linux.set_gateway(&made, &[]).unwrap();
        linux.set_gateway(&made, &[]).unwrap();
        assert_eq!(defaults(&one), "default via 10.9.0.1 dev net0\n");
        // A crash may leave two of them.
        linux.set_gateway(&made, &[V4]).unwrap();
        assert_eq!(defaults(&one).lines().count(), 2);
        linux.detach(&made).unwrap();
        assert_eq!(defaults(&one), "default via 10.9.0.1 dev net0\n");
    });
}
