use model::{Family, IfName};

use super::space::Space;
use crate::filter::{Dropping, Forwarding, allow_forwarding, disallow_forwarding, dropping_chains};

const BY_HAND: &str = "
    iptables-nft -I CHAIN -i br0 -m comment --comment spoke -j ACCEPT
    iptables-nft -I CHAIN -o br0 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT \
        -m comment --comment spoke -j ACCEPT";

fn bridge() -> IfName {
    bridge_named("br0")
}

fn bridge_named(name: &str) -> IfName {
    name.parse().unwrap()
}

/// What stands in `chain` after iptables has added the rules itself, to a space made by `setup`.
fn expected(setup: &str, chain: &str) -> String {
    let space = Space::new();
    space.run(setup);
    space.run(&BY_HAND.replace("CHAIN", chain));
    space.run("iptables-nft -S")
}

fn same_as_by_hand(setup: &str, chain: &str) {
    let space = Space::new();
    space.run(setup);
    let before = space.run("iptables-nft -S");
    let mut socket = space.socket();
    let found = allow_forwarding(&mut socket, &bridge()).unwrap();
    assert_eq!(found.accepted, [Family::V4]);
    assert_eq!(space.run("iptables-nft -S"), expected(setup, chain));
    allow_forwarding(&mut socket, &bridge()).unwrap();
    assert_eq!(space.run("iptables-nft -S"), expected(setup, chain));
    // What iptables finds by its own means is what it would have written.
    space.run(&BY_HAND.replace("-I CHAIN", &format!("-C {chain}")));
    disallow_forwarding(&mut socket, &bridge()).unwrap();
    disallow_forwarding(&mut socket, &bridge()).unwrap();
    assert_eq!(space.run("iptables-nft -S"), before);
}

#[test]
fn a_dropping_host_accepts_at_its_head() {
    same_as_by_hand(
        "iptables-nft -P FORWARD DROP; iptables-nft -A FORWARD -i br0 -j ACCEPT
         iptables-nft -A FORWARD -j REJECT",
        "FORWARD",
    );
}

#[test]
fn docker_accepts_where_it_lets_others() {
    same_as_by_hand(
        "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER
         iptables-nft -A DOCKER-USER -j RETURN; iptables-nft -A FORWARD -j DOCKER-USER",
        "DOCKER-USER",
    );
}

/// Debian 12's Docker has two bridges, and the administrator a word to say.
#[test]
fn docker_and_the_administrator_have_the_first_word() {
    let docker = |bridge: &str| {
        format!(
            "iptables-nft -I FORWARD -i {bridge} ! -o {bridge} -j ACCEPT
             iptables-nft -I FORWARD -o {bridge} -j DOCKER
             iptables-nft -I FORWARD -o {bridge} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
             iptables-nft -D FORWARD -j DOCKER-USER; iptables-nft -I FORWARD -j DOCKER-USER"
        )
    };
    let space = Space::new();
    space.run(
        "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER; iptables-nft -N DOCKER-USER
         iptables-nft -A DOCKER-USER -j RETURN; iptables-nft -A FORWARD -j DOCKER-USER
         iptables-nft -I DOCKER-USER -s 203.0.113.0/24 -j DROP",
    );
    let user = || space.run("iptables-nft -S DOCKER-USER | grep -v ^-N");
    let mut socket = space.socket();
    let mut before = String::new();
    for (bridge, all) in [("docker0", vec!["docker0"]), ("br-1", vec!["br-1", "docker0"])] {
        space.run(&docker(bridge));
        allow_forwarding(&mut socket, &bridge_named("br0")).unwrap();
        allow_forwarding(&mut socket, &bridge_named("br0")).unwrap();
        let own = |other: &&str| {
            format!("-A DOCKER-USER -i br0 -o {other} -m comment --comment spoke -j RETURN\n")
        };
        before = user();
        assert_eq!(
            before,
            format!(
                "-A DOCKER-USER -s 203.0.113.0/24 -j DROP\n{}\
                 -A DOCKER-USER -o br0 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT \
                 -m comment --comment spoke -j ACCEPT\n\
                 -A DOCKER-USER -i br0 -m comment --comment spoke -j ACCEPT\n\
                 -A DOCKER-USER -j RETURN\n",
                all.iter().map(own).collect::<String>()
            )
        );
    }
    allow_forwarding(&mut socket, &bridge_named("docker0")).unwrap();
    assert!(!user().contains("-i docker0 -o docker0"), "its own network is its own business");
    disallow_forwarding(&mut socket, &bridge_named("docker0")).unwrap();
    assert_eq!(user(), before);
    disallow_forwarding(&mut socket, &bridge_named("br0")).unwrap();
    assert_eq!(user(), "-A DOCKER-USER -s 203.0.113.0/24 -j DROP\n-A DOCKER-USER -j RETURN\n");
}

#[test]
fn rules_by_hand_are_recognized() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP");
    space.run(&BY_HAND.replace("CHAIN", "FORWARD"));
    let before = space.run("iptables-nft -S");
    let mut socket = space.socket();
    allow_forwarding(&mut socket, &bridge()).unwrap();
    assert_eq!(space.run("iptables-nft -S"), before);
    disallow_forwarding(&mut socket, &bridge()).unwrap();
    assert_eq!(space.run("iptables-nft -S FORWARD").trim(), "-P FORWARD DROP");
}

#[test]
fn an_accepting_host_is_left_alone() {
    let space = Space::new();
    let mut socket = space.socket();
    assert_eq!(allow_forwarding(&mut socket, &bridge()).unwrap(), Forwarding::default());
    space.run("iptables-nft -N DOCKER-USER");
    let before = space.run("nft list ruleset");
    assert_eq!(allow_forwarding(&mut socket, &bridge()).unwrap(), Forwarding::default());
    assert_eq!(space.run("nft list ruleset"), before);
}

#[test]
fn both_families_and_strangers_are_seen() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP");
    space.run("nft 'table inet wall { chain pass { type filter hook forward priority 0; policy drop; }; }'");
    let found = allow_forwarding(&mut space.socket(), &bridge()).unwrap();
    assert_eq!(found.accepted, [Family::V4, Family::V6]);
    let dropping = dropping_chains(&mut space.socket()).unwrap();
    let said = |Dropping { chain, passing }: Dropping| {
        format!("{chain}: {}", Vec::from_iter(passing).join(" "))
    };
    let said: Vec<String> = dropping.into_iter().map(said).collect();
    assert_eq!(said, ["inet wall pass: ", "ip filter FORWARD: br0", "ip6 filter FORWARD: br0"]);
    assert!(space.run("ip6tables-nft -S FORWARD").contains("-i br0 -m comment"));
}

#[test]
fn what_docker_asks_the_administrator_about_passes() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER");
    allow_forwarding(&mut space.socket(), &bridge()).unwrap();
    let passing = || dropping_chains(&mut space.socket()).unwrap().remove(0).passing;
    assert!(passing().is_empty(), "nothing leads there");
    space.run("iptables-nft -I FORWARD -j DOCKER-USER");
    assert_eq!(Vec::from_iter(passing()), ["br0"]);
    space.run("iptables-nft -D DOCKER-USER 1");
    assert!(passing().is_empty(), "one way is no way");
}

#[test]
fn the_old_iptables_is_reported() {
    let space = Space::new();
    space.run("iptables-legacy -P FORWARD DROP");
    let found = space.netns.enter(|| allow_forwarding(&mut space.socket(), &bridge()));
    assert_eq!(found.unwrap().unwrap().legacy, [Family::V4]);
}
