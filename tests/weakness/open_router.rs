//! A host that forwarded nothing is no open router once it has a container (CVE-2025-67499's
//! neighbour): others on its segments reach published ports, and nothing else through it.

use serde_json::{Value, json};
use tests::{Cni, Serve, World};

use crate::bed::{bridge, compare, list, ok, ours};

/// Two segments of the host with a neighbour on each, who both have routes through the host.
const NEIGHBOURS: &str = "
    sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0
    sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
    for n in 1 2; do
        ip netns add n$n
        ip link add lan$n type veth peer name eth0 netns n$n
        ip addr add 192.0.2.$((n * 16 + 1))/28 dev lan$n; ip link set lan$n up
        ip addr add 2001:db8:$n::1/64 dev lan$n nodad
        ip -n n$n addr add 192.0.2.$((n * 16 + 2))/28 dev eth0; ip -n n$n link set eth0 up
        ip -n n$n addr add 2001:db8:$n::2/64 dev eth0 nodad
        ip -n n$n route add default via 192.0.2.$((n * 16 + 1))
        ip -n n$n route add default via 2001:db8:$n::1
    done
    ip netns exec n2 busybox httpd -p '[::]:80' -h /etc";

/// What the neighbour of the first segment asks for.
const OF_CONTAINER: &str = "http://10.9.0.2";
const OF_CONTAINER_V6: &str = "http://[fd00:9::2]";
const OF_NEIGHBOUR: &str = "http://192.0.2.34";
const OF_NEIGHBOUR_V6: &str = "http://[2001:db8:2::2]";
const PUBLISHED: &str = "http://192.0.2.17:8080";

/// Whether it is answered now.
fn asks(world: &World, space: &str, url: &str) -> bool {
    let ask = format!("ip netns exec {space} curl -gsS --max-time 0.4 {url}/hostname");
    world.try_sh(&ask).status == 0
}

/// That it is answered; the kernel may take a second to notice that a link is up.
#[track_caller]
fn reaches(world: &World, space: &str, url: &str) {
    let timeout = "--max-time 1 --retry 9 --retry-all-errors --retry-max-time 9";
    world.sh(&format!("{space} curl -gsS {timeout} {url}/hostname"));
}

/// A container with a web server, whose port is published, and whose other one for the host only.
fn container<'a>(world: &'a World, plugin: &Value) -> (Cni<'a>, Value) {
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let list = list(&json!([plugin, portmap]));
    let mut cni = Cni::container(world, "c1");
    cni.runtime = json!({"portMappings": [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 8081, "containerPort": 81, "protocol": "tcp", "hostIP": "127.0.0.1"},
    ]});
    ok(&cni.add(&list));
    world.sh("for port in 80 81; do ip netns exec c1 busybox httpd -p [::]:$port -h /etc; done");
    (cni, list)
}

/// What passes without a request; what must pass does.
fn passes(world: &World) -> Vec<String> {
    // First, so that no neighbour has been asked for before.
    let found = opens(world);
    reaches(world, "ip netns exec c1", OF_NEIGHBOUR);
    reaches(world, "ip netns exec n1", PUBLISHED);
    for url in [OF_CONTAINER, OF_CONTAINER_V6, "http://127.0.0.1:8081"] {
        reaches(world, "", url);
    }
    let again = opens(world);
    assert_eq!(again, found);
    found
}

fn opens(world: &World) -> Vec<String> {
    let on_81 = [OF_CONTAINER, OF_CONTAINER_V6].map(|url| format!("{url}:81"));
    let shut = [OF_CONTAINER, OF_CONTAINER_V6, &on_81[0], &on_81[1], OF_NEIGHBOUR, OF_NEIGHBOUR_V6];
    let open = shut.into_iter().filter(|url| asks(world, "n1", url));
    open.map(|url| format!("a neighbour is answered by {url}")).collect()
}

fn ipam() -> Value {
    json!({
        "type": "host-local",
        "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    })
}

fn opens_nothing(plugin: &Value) {
    compare(|world| {
        world.sh(NEIGHBOURS);
        let (cni, list) = container(world, plugin);
        let found = passes(world);
        ok(&cni.del(&list));
        found
    });
}

#[test]
fn with_a_bridge() {
    opens_nothing(&bridge(&json!({"ipMasq": true, "ipam": ipam()})));
}

#[test]
fn with_ptp() {
    opens_nothing(&json!({"type": "ptp", "ipMasq": true, "ipam": ipam()}));
}

/// The bridge has other machines too, for which this host does not forward.
#[test]
fn with_a_foreign_bridge() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        world.sh("ip link add br9 type bridge; ip link set br9 up");
        let plugin = bridge(&json!({"bridge": "br9", "ipMasq": true, "ipam": ipam()}));
        let (_cni, _list) = container(world, &plugin);
        passes(world)
    });
}

/// Where the host forwarded before, that stays its administrator's affair.
#[test]
fn a_router_stays_one() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        world.sh("sysctl -qw net.ipv4.ip_forward=1");
        let (_cni, _list) = container(world, &bridge(&json!({"ipMasq": true, "ipam": ipam()})));
        for url in [OF_CONTAINER, OF_NEIGHBOUR] {
            reaches(world, "ip netns exec n1", url);
        }
        let shut = [OF_CONTAINER_V6, OF_NEIGHBOUR_V6];
        let open = shut.into_iter().filter(|url| asks(world, "n1", url));
        open.map(|url| format!("a neighbour is answered by {url}")).collect()
    });
}

/// An administrator who turns forwarding off and on again has decided.
#[test]
fn an_administrator_decides() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        let (mut cni, list) = container(world, &bridge(&json!({"ipMasq": true, "ipam": ipam()})));
        assert!(!asks(world, "n1", OF_NEIGHBOUR));
        world.sh("for on in 0 1; do sysctl -qw net.ipv4.ip_forward=$on; done");
        ok(&cni.del(&list));
        ok(&cni.add(&list));
        reaches(world, "ip netns exec n1", OF_NEIGHBOUR);
        Vec::new()
    });
}

/// What others make later is their affair: a tunnel, or the bridge of another engine.
#[test]
fn what_comes_later_forwards() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        let (_cni, _list) = container(world, &bridge(&json!({"ipMasq": true, "ipam": ipam()})));
        world.sh("ip netns add n3; ip link add later type veth peer name eth0 netns n3
             ip addr add 192.0.2.49/28 dev later; ip link set later up
             ip -n n3 addr add 192.0.2.50/28 dev eth0; ip -n n3 link set eth0 up
             ip -n n3 route add default via 192.0.2.49");
        reaches(world, "ip netns exec n3", OF_NEIGHBOUR);
        let open = [OF_CONTAINER].into_iter().filter(|url| asks(world, "n3", url));
        open.map(|url| format!("a later neighbour is answered by {url}")).collect()
    });
}

/// What a bridge of others passes from port to port was never forwarded, though br_netfilter shows it
/// as if it were.
#[test]
fn a_bridge_of_others_goes_on_switching() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        world.sh("ip link add br8 type bridge; ip link set br8 up
             for n in 5 6; do
                 ip netns add n$n; ip link add port$n type veth peer name eth0 netns n$n
                 ip link set port$n master br8 up
                 ip -n n$n addr add 10.8.0.$n/24 dev eth0; ip -n n$n link set eth0 up
             done
             sysctl -qw net.bridge.bridge-nf-call-iptables=1
             ip netns exec n6 busybox httpd -p 80 -h /etc");
        let (_cni, _list) = container(world, &bridge(&json!({"ipMasq": true, "ipam": ipam()})));
        reaches(world, "ip netns exec n5", "http://10.8.0.6");
        Vec::new()
    });
}

/// The network says that it is reached by routes; what is known of it goes with the container, or with
/// the bridge.
fn is_reached(plugin: &str, left: usize) {
    ours(|world| {
        world.sh(NEIGHBOURS);
        let plugin = json!({
            "type": plugin, "isGateway": true, "direct": true, "ipMasq": true, "ipam": ipam(),
        });
        let (cni, list) = container(world, &plugin);
        for url in [OF_CONTAINER, OF_CONTAINER_V6] {
            reaches(world, "ip netns exec n1", url);
        }
        assert!(!asks(world, "n1", OF_NEIGHBOUR) && !asks(world, "n1", OF_NEIGHBOUR_V6));
        let known = || world.sh("nft list set inet spoke_transit direct").matches('"').count() / 2;
        assert_eq!(known(), 1);
        ok(&cni.del(&list));
        assert_eq!(known(), left);
        Vec::new()
    });
}

#[test]
fn a_direct_bridge_is_reached() {
    is_reached("bridge", 1);
}

#[test]
fn a_direct_ptp_is_reached() {
    is_reached("ptp", 0);
}

/// With the last network the host forwards no more, unless others need that by now.
#[test]
fn forwarding_ends_with_the_last_network() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        let look = || world.sh("nft list ruleset; sysctl net.ipv4.conf net.ipv6.conf | sort");
        let before = look();
        let connect = "spoke network connect --container both";
        world.sh(&format!(
            "set -e; export PATH=/opt/cni/bin:$PATH; ip netns add c
             spoke network create one; spoke network create --driver ptp two
             {connect} one c; {connect} two c; nft list table inet spoke_transit
             spoke network disconnect one both; spoke network rm one
             nft list table inet spoke_transit
             spoke network disconnect two both
             while ip -o link show group 1936748395 | grep -q .; do sleep 0.05; done
             spoke network rm two; ip netns del c"
        ));
        let after = look();
        after.lines().filter(|line| !before.contains(line)).map(str::to_owned).collect()
    });
}

/// The packet filter is flushed: the next container, or the daemon at once, makes the guard again.
#[test]
fn a_flush_opens_nothing_for_long() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        let plugin = bridge(&json!({"ipMasq": true, "ipam": ipam()}));
        let (_cni, list) = container(world, &plugin);
        world.sh("nft flush ruleset");
        reaches(world, "ip netns exec n1", OF_NEIGHBOUR);
        ok(&Cni::container(world, "c2").add(&list));
        let mut found = opens(world);
        let serve = Serve::start(world, &[]);
        world.sh("nft flush ruleset");
        let is_back = "nft list table inet spoke_transit && nft list table inet spoke";
        world.sh(&format!(
            "timeout 20 sh -c 'until {is_back}; do sleep 0.05; done' >/dev/null 2>&1"
        ));
        found.extend(passes(world));
        serve.stop();
        found
    });
}

/// The packet filter was flushed, and the last container leaves before anybody repairs it; the bridge stays.
#[test]
fn nothing_is_open_after_a_flush_and_the_last_container() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        let (cni, list) = container(world, &bridge(&json!({"ipMasq": true, "ipam": ipam()})));
        world.sh("nft flush ruleset");
        ok(&cni.del(&list));
        opens(world)
    });
}

/// The same with the last network.
#[test]
fn forwarding_ends_after_a_flush_too() {
    ours(|world| {
        world.sh(NEIGHBOURS);
        world.sh("set -e; export PATH=/opt/cni/bin:$PATH; spoke network create one; ip netns add c
             spoke network connect one c; nft flush ruleset; spoke network disconnect one c
             spoke network rm one; ip netns del c");
        let forwards = world.sh("cat /proc/sys/net/ipv4/ip_forward");
        let mut found = opens(world);
        found.extend((forwards != "0\n").then(|| "the host forwards".to_owned()));
        found
    });
}

/// Of a network that trusts one interface, who comes by that reaches what is published, also through a
/// host that is a router; no client reaches anything else.
#[test]
fn trusted_interfaces_reach_what_is_published() {
    for forwards in [0, 1] {
        ours(|world| {
            world.sh(NEIGHBOURS);
            world.sh(&format!("sysctl -qw net.ipv4.ip_forward={forwards}"));
            let plugin = json!({
                "type": "spoke", "trustedHostInterfaces": ["lan1"], "ipam": ipam(),
                "capabilities": {"portMappings": true},
            });
            let list = list(&json!([plugin]));
            let mut cni = Cni::container(world, "c1");
            let port = json!({"hostPort": 8080, "containerPort": 80, "protocol": "tcp"});
            cni.runtime = json!({"portMappings": [port]});
            ok(&cni.add(&list));
            world.sh("for port in 80 81; do
                 ip netns exec c1 busybox httpd -p [::]:$port -h /etc; done");
            for url in [OF_CONTAINER, OF_CONTAINER_V6, PUBLISHED] {
                reaches(world, "ip netns exec n1", url);
            }
            reaches(world, "ip netns exec n2", PUBLISHED);
            let other = format!("{OF_CONTAINER}:81");
            let shut = [("n1", &*other), ("n2", &*other), ("n2", OF_CONTAINER)];
            let open = shut.into_iter().filter(|(from, url)| asks(world, from, url));
            let open = open.map(|(from, url)| format!("{from} is answered by {url}")).collect();
            ok(&cni.del(&list));
            open
        });
    }
}
