//! Containers on the segment of a device of the host.

use tests::{Podman5, Serve};

use crate::segment::{HOST, ROUTER, Server, plug, router_reaches, start_daemon, unplug};

fn address(podman: &Podman5, container: &str) -> String {
    let end = podman.endpoint(container, "lan");
    end["IPAddress"].as_str().expect("an address").to_owned()
}

fn ping(podman: &Podman5, from: &str, to: &str) {
    podman.podman(&format!("exec {from} /bin/ping -c 1 -W 3 {to}"));
}

fn with_addresses_of_the_book(podman: &Podman5) {
    plug(&podman.world);
    podman.podman(
        "network create -d spoke -o parent=eth0 -o host_access=true -o probe=true \
         --subnet 192.0.2.0/24 --gateway 192.0.2.1 --ip-range 192.0.2.64/26 lan",
    );
    // A device of the segment has the first address already.
    podman.world.sh("ip -n lan address add 192.0.2.65/32 dev lan0");
    podman.serve("one", "--network lan");
    podman.run("two", "--network lan:ip=192.0.2.9,mac=c2:11:22:33:44:55", "");
    assert_eq!(address(podman, "one"), "192.0.2.66");
    assert_eq!(podman.endpoint("two", "lan")["MacAddress"], "c2:11:22:33:44:55");
    for name in ["one", "two"] {
        ping(podman, name, ROUTER);
        ping(podman, name, HOST);
        router_reaches(&podman.world, &address(podman, name));
        let routes = podman.podman(&format!("exec {name} ip route"));
        assert!(routes.contains("default via 192.0.2.1"), "{routes}");
    }
    ping(podman, "two", "192.0.2.66");
    let page = podman.world.sh("busybox wget -T 5 -qO- http://192.0.2.66/");
    assert_eq!(page, "a page\n", "from the host");
    podman.podman("restart -t 0 one");
    assert_eq!(address(podman, "one"), "192.0.2.66");
    router_reaches(&podman.world, "192.0.2.66");
    podman.podman("rm -f -t 0 one two");
    podman.podman("network rm lan");
    podman.spoke("gc");
    unplug(&podman.world);
    podman.is_empty();
}

/// Podman then asks for the address and the hardware address that the container has.
fn reloads(podman: &Podman5, server: &Server<'_>, address: &str) {
    let client = || {
        let leases = server.leases();
        let fields: Vec<String> = leases.split_whitespace().skip(1).map(str::to_owned).collect();
        fields
    };
    let before = client();
    podman.podman("network reload web");
    assert_eq!(self::address(podman, "web"), address, "after a reload");
    assert_eq!(client(), before, "the same client to the server");
    ping(podman, "web", ROUTER);
    router_reaches(&podman.world, address);
}

/// A container's life on network `lan`, whose addresses the segment's server gives.
fn lives(podman: &Podman5, server: &Server<'_>) -> String {
    podman.run("web", "--network lan", "");
    let first = address(podman, "web");
    assert!(first.starts_with("192.0.2.1") && first.len() > ROUTER.len(), "{first}");
    assert!(server.leases().contains(&format!(" {first} ")), "{}", server.leases());
    let end = podman.endpoint("web", "lan");
    assert_eq!((end["Gateway"].as_str(), end["IPPrefixLen"].as_i64()), (Some(ROUTER), Some(24)));
    let names = podman.podman("exec web cat /etc/resolv.conf");
    assert!(names.contains("192.0.2.53"), "{names}");
    ping(podman, "web", ROUTER);
    router_reaches(&podman.world, &first);
    let book = podman.spoke(&format!("ipam show {first}"));
    assert!(book.contains("held") && book.contains("web"), "in the book: {book}");
    reloads(podman, server, &first);
    first
}

fn with_addresses_of_the_server(podman: &Podman5) {
    plug(&podman.world);
    let server = Server::start(&podman.world);
    podman.podman("network create -d spoke -o parent=eth0 -o mode=dhcp -o host_access=true lan");
    let refused = podman.run_refused("--network lan");
    assert!(refused.contains("no DHCP daemon listens"), "{refused}");
    let serve = Serve::start(&podman.world, &[]);
    let first = lives(podman, &server);
    let refused = podman.run_refused("--network lan:ip=192.0.2.120");
    assert!(refused.contains("the DHCP server of network lan chooses"), "{refused}");
    ping(podman, "web", HOST);
    podman.world.sh(&format!("busybox ping -c 1 -W 3 {first}"));
    podman.run("other", "--network lan", "");
    assert_ne!(address(podman, "other"), first);
    ping(podman, "other", &first);
    podman.podman("restart -t 0 web");
    assert_eq!(address(podman, "web"), first, "the same after a restart");

    podman.podman("rm -f -t 0 web");
    assert!(!podman.spoke("ipam show -o json").contains(&first), "no more in the book");
    server.wait(|leases| !leases.contains(&format!(" {first} ")));
    podman.run("web", "--network lan", "");
    assert_eq!(address(podman, "web"), first, "the same container again");
    podman.podman("rm -f -t 0 web other");
    server.wait(str::is_empty);
    podman.podman("network rm lan");
    serve.stop();
    drop(server);
    podman.spoke("gc");
    unplug(&podman.world);
    podman.is_empty();
}

/// As with Podman's own macvlan: nothing of Spoke's runs but the DHCP daemon.
fn with_the_daemon_alone(podman: &Podman5) {
    plug(&podman.world);
    let server = Server::start(&podman.world);
    start_daemon(&podman.world);
    podman.podman("network create -d spoke --ipam-driver dhcp -o parent=eth0 lan");
    let first = lives(podman, &server);
    // A container that crashed released nothing, and is the same client to the server when it returns.
    podman.world.sh("kill -KILL $(cat /run/dhcp.pid); rm -rf /run/spoke/dhcp /run/cni/dhcp.sock");
    podman.podman("rm -f -t 0 web");
    assert!(server.leases().contains(&format!(" {first} ")), "{}", server.leases());
    start_daemon(&podman.world);
    podman.run("web", "--network lan", "");
    assert_eq!(address(podman, "web"), first);
    assert_eq!(server.leases().lines().count(), 1, "{}", server.leases());
    podman.podman("rm -f -t 0 web");
    podman.podman("network rm lan");
    server.wait(str::is_empty);
    podman.world.sh("kill $(cat /run/dhcp.pid); rm -rf /run/dhcp.pid /run/cni");
    drop(server);
    unplug(&podman.world);
    podman.is_empty();
}

with_each_podman!(with_addresses_of_the_book, with_addresses_of_the_server, with_the_daemon_alone);
