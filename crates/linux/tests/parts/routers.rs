//! A host whose default route of IPv6 comes from a router keeps it when it begins to forward.

use engine::port::Driver;
use linux::{Life, Linux};
use model::{Runtime, Wiring};

use crate::bed::{Container, attachment, bridge, isolated, network, published, run};

/// An advertisement (RFC 4861, 4.2) of a router for everything, and then an echo request, whose reply says that what
/// came before was read: both are sent by one processor.
const ADVERTISE: &str = r#"
import os, socket, struct
os.sched_setaffinity(0, {0})
index = socket.if_nametoindex("up1")
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
s.bind(("fe80::1", 0, 0, index))
s.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0), ("ff02::1", 0, 0, index))
"#;

fn advertise(router: &Container) {
    router.run(&format!(
        "python3 - <<'END'\n{ADVERTISE}\nEND\ntaskset -c 0 ping -q -c 1 -W 5 fe80::2%up1"
    ));
}

fn routes() -> String {
    run("ip -6 route show default proto ra")
}

fn of_uplink(parameter: &str) -> String {
    run(&format!("cat /proc/sys/net/{parameter}")).trim().to_owned()
}

/// A router behind `up0`, which has advertised itself.
fn routed() -> Container {
    let router = Container::new();
    run(&format!(
        "sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.default.accept_ra=1
         ip link add up0 type veth peer name up1; ip link set up1 netns /proc/self/fd/9 9<{}
         ip addr add fe80::2/64 dev up0 nodad; ip link set up0 up",
        router.netns()
    ));
    router.run("ip addr add fe80::1/64 dev up1 nodad; ip link set up1 up");
    advertise(&router);
    assert!(routes().contains("via fe80::1 dev up0"), "{}", routes());
    router
}

#[test]
fn the_hosts_own_routes_survive_the_first_container_of_ipv6() {
    isolated(|| {
        let router = routed();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut made = attachment("one", bridge(), "fd00:77::2/64", &one.sandbox);
        made.runtime = Runtime::Spoke;
        linux.attach(&made).unwrap();
        assert_eq!(of_uplink("ipv6/conf/all/forwarding"), "1");
        assert!(routes().contains("via fe80::1 dev up0"), "{}", routes());
        assert_eq!(of_uplink("ipv6/conf/up0/accept_ra"), "2");
        // It goes on hearing the router.
        run("ip -6 route del default proto ra");
        advertise(&router);
        assert!(routes().contains("via fe80::1 dev up0"), "{}", routes());

        linux.detach(&made).unwrap();
        linux.remove(&network(bridge())).unwrap();
        assert_eq!(of_uplink("ipv6/conf/all/forwarding"), "0");
        assert_eq!(of_uplink("ipv6/conf/up0/accept_ra"), "1");
        assert_eq!(of_uplink("ipv4/conf/up0/tag"), "0");
        assert!(routes().contains("via fe80::1 dev up0"), "{}", routes());
    });
}

#[test]
fn what_an_administrator_took_over_stays() {
    isolated(|| {
        let _router = routed();
        // Another program's number: nothing is set back.
        run("echo 7 >/proc/sys/net/ipv4/conf/up0/tag");
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut made = attachment("one", bridge(), "fd00:77::2/64", &one.sandbox);
        made.wiring = Wiring { publish: Some(published(8080)), ..made.wiring };
        linux.attach(&made).unwrap();
        assert_eq!(of_uplink("ipv4/conf/up0/tag"), "7");
        assert!(routes().contains("via fe80::1 dev up0"), "{}", routes());
        run("sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.all.forwarding=1");
        linux.detach(&made).unwrap();
        linux.remove(&network(bridge())).unwrap();
        assert_eq!(of_uplink("ipv6/conf/all/forwarding"), "1");
        assert_eq!(of_uplink("ipv6/conf/up0/accept_ra"), "2");
        assert!(routes().contains("via fe80::1 dev up0"), "{}", routes());
    });
}
