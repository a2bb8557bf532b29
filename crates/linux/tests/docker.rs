//! Docker Engines on the same host: their rules and ours; each test in namespaces of its own that end
//! with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// What the other tests need of it.
#[allow(dead_code)]
mod bed;

use bed::*;
use engine::port::Driver;
use linux::{Life, Linux};
use model::*;

/// What dockerd 20.10 to 28 leaves in iptables, with one network of its own.
const DOCKER: &str = "
    iptables-nft -P FORWARD DROP
    for c in DOCKER DOCKER-USER DOCKER-ISOLATION-STAGE-1 DOCKER-ISOLATION-STAGE-2; do
        iptables-nft -N $c
    done
    iptables-nft -A FORWARD -j DOCKER-USER
    iptables-nft -A FORWARD -j DOCKER-ISOLATION-STAGE-1
    iptables-nft -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
    iptables-nft -A FORWARD -o docker0 -j DOCKER
    iptables-nft -A FORWARD -i docker0 -j ACCEPT
    iptables-nft -A DOCKER-USER -j RETURN
    iptables-nft -A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
    iptables-nft -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
    iptables-nft -t raw -A PREROUTING -d 172.17.0.2 ! -i docker0 -j DROP
    sysctl -qw net.bridge.bridge-nf-call-iptables=1";

#[test]
fn dockers_own_rules_do_not_cut_our_networks() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        run(&format!("ip link add docker0 up type bridge; {DOCKER}"));
        let (one, other) = (Container::new(), Container::new());
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.wiring.firewall = Some(firewall());
        linux.attach(&first).unwrap();
        let far = LinkKind::Bridge(Bridge { name: "br1".parse().unwrap(), ..plain_bridge() });
        let mut second = attachment("other", far, "10.89.0.2/24", &other.sandbox);
        second.wiring.firewall = Some(firewall());
        linux.attach(&second).unwrap();
        let third = Container::new();
        let mut neighbour = attachment("third", bridge(), "10.88.0.3/24", &third.sandbox);
        neighbour.wiring.firewall = Some(firewall());
        linux.attach(&neighbour).unwrap();
        one.run("ping -c1 -W2 10.88.0.3; ping -c1 -W2 10.89.0.2");
        // As dockerd does when it starts again.
        run("iptables-nft -F; iptables-nft -X; iptables-nft -t raw -F");
        run(DOCKER);
        for living in [&first, &second, &neighbour] {
            restored(&linux, living);
        }
        one.run("ping -c1 -W2 10.88.0.3; ping -c1 -W2 10.89.0.2");
        other.run("ping -c1 -W2 10.88.0.2");
    });
}

/// Docker keeps strangers from its containers by the host's policy, and publishes ports by DNAT.
#[test]
fn dockers_networks_stay_dockers() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (ours, theirs) = (Container::new(), Container::new());
        run(&format!(
            "ip link add docker0 up type bridge; ip addr add 172.17.0.1/16 dev docker0; {DOCKER}
             ip link add there type veth peer name eth0 netns {}; ip link set there master docker0 up
             iptables-nft -A DOCKER -d 172.17.0.3 -p tcp --dport 80 -j ACCEPT
             iptables-nft -t nat -A PREROUTING -p tcp --dport 8080 -j DNAT --to 172.17.0.3:80",
            theirs.netns()
        ));
        theirs.run("ip addr add 172.17.0.3/16 dev eth0; ip link set eth0 up");
        theirs.run("ip route add default via 172.17.0.1");
        theirs.serve(80);
        theirs.serve(81);
        let mut living = attachment("ours", bridge(), "10.88.0.2/24", &ours.sandbox);
        living.wiring.firewall = Some(firewall());
        linux.attach(&living).unwrap();
        assert!(ours.reaches("172.17.0.1", 8080), "what Docker publishes");
        assert!(!ours.reaches("172.17.0.3", 81), "what it does not");
    });
}

fn plain_bridge() -> Bridge {
    bridge().bridge().unwrap().clone()
}
