use model::{Family, IfName};
use netlink::nft::Policy;

use super::space::Space;
use crate::filter::{
    Dropping, Forwarding, Open, allow_forwarding, disallow_forwarding, dropping_chains,
    forget_policy, left_open,
};

/// What earlier versions had in `CHAIN`.
const FORMER: &str = "
    iptables-nft -I CHAIN -i br0 -m comment --comment spoke -j ACCEPT
    iptables-nft -I CHAIN -o br0 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT \
        -m comment --comment spoke -j ACCEPT";

/// One bridge's, where `BEFORE` comes before what is sent is accepted, at `PLACE` of `FORWARD`.
const BY_HAND: &str = "
    iptables-nft -N SPOKE-FORWARD; iptables-nft -N SPOKE-SENT
    BEFORE
    iptables-nft -A SPOKE-SENT -m comment --comment spoke -j ACCEPT
    iptables-nft -A SPOKE-FORWARD -o br0 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT \
        -m comment --comment spoke -j ACCEPT
    iptables-nft -A SPOKE-FORWARD -i br0 -m comment --comment spoke -j SPOKE-SENT
    iptables-nft -I FORWARD PLACE -m comment --comment spoke -j SPOKE-FORWARD";

fn bridge() -> IfName {
    bridge_named("br0")
}

fn bridge_named(name: &str) -> IfName {
    name.parse().unwrap()
}

fn same_as_by_hand(setup: &str, by_hand: &str) {
    let space = Space::new();
    space.run(setup);
    let before = space.run("iptables-nft -S");
    let expected = {
        let space = Space::new();
        space.run(setup);
        space.run(by_hand);
        sorted(&space)
    };
    let mut socket = space.socket();
    for _ in 0..2 {
        let found = allow_forwarding(&mut socket, &bridge(), Open::default(), &[]).unwrap();
        assert_eq!(found.accepted, [Family::V4]);
        assert_eq!(sorted(&space), expected);
    }
    for _ in 0..2 {
        disallow_forwarding(&mut socket, Some(&bridge())).unwrap();
    }
    assert_eq!(space.run("iptables-nft -S"), before);
    // What iptables made by hand is known, and what earlier versions made is replaced.
    for chain in ["FORWARD", "DOCKER-USER"] {
        if before.contains(&format!("-N {chain}")) || chain == "FORWARD" {
            space.run(&FORMER.replace("CHAIN", chain));
        }
    }
    allow_forwarding(&mut socket, &bridge(), Open::default(), &[]).unwrap();
    assert_eq!(sorted(&space), expected);
    disallow_forwarding(&mut socket, Some(&bridge())).unwrap();
    space.run(by_hand);
    allow_forwarding(&mut socket, &bridge(), Open::default(), &[]).unwrap();
    assert_eq!(sorted(&space), expected);
    disallow_forwarding(&mut socket, Some(&bridge())).unwrap();
    assert_eq!(space.run("iptables-nft -S"), before);
}

/// All rules, each chain's in their order, whichever chain was made first.
fn sorted(space: &Space) -> String {
    space.run("iptables-nft -S | sort -s -k1,2")
}

#[test]
fn a_dropping_host_accepts_at_its_head() {
    same_as_by_hand(
        "iptables-nft -P FORWARD DROP; iptables-nft -A FORWARD -i br0 -j ACCEPT
         iptables-nft -A FORWARD -j REJECT",
        &BY_HAND.replace("BEFORE", "").replace("PLACE", "1"),
    );
}

/// As dockerd 26.1 writes it, with an internal network, and a rule of the administrator at the end.
const DOCKER_26: &str = "
    iptables-nft -P FORWARD DROP
    for c in DOCKER DOCKER-USER DOCKER-ISOLATION-STAGE-1 DOCKER-ISOLATION-STAGE-2; do
        iptables-nft -N $c
    done
    iptables-nft -A FORWARD -j DOCKER-USER
    iptables-nft -A FORWARD -j DOCKER-ISOLATION-STAGE-1
    iptables-nft -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
    iptables-nft -A FORWARD -o docker0 -j DOCKER
    iptables-nft -A FORWARD -i docker0 ! -o docker0 -j ACCEPT
    iptables-nft -A FORWARD -i docker0 -o docker0 -j ACCEPT
    iptables-nft -A FORWARD -j REJECT
    iptables-nft -A DOCKER-USER -j RETURN
    iptables-nft -A DOCKER-ISOLATION-STAGE-1 ! -s 172.30.0.0/24 -o inside -j DROP
    iptables-nft -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP";

#[test]
fn docker_and_the_administrator_have_the_first_word() {
    let isolate =
        "iptables-nft -A SPOKE-SENT -m comment --comment spoke -j DOCKER-ISOLATION-STAGE-2";
    let by_hand = BY_HAND.replace("BEFORE", isolate).replace("PLACE", "7");
    same_as_by_hand(DOCKER_26, &by_hand);
}

/// As dockerd 28 writes it.
#[test]
fn newer_dockers_have_one_chain() {
    let setup = "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER
        iptables-nft -N DOCKER-FORWARD; iptables-nft -A FORWARD -j DOCKER-USER
        iptables-nft -A FORWARD -j DOCKER-FORWARD; iptables-nft -A FORWARD -i wan -j DROP";
    same_as_by_hand(setup, &BY_HAND.replace("BEFORE", "").replace("PLACE", "3"));
}

/// Each bridge that is not in our group has two rules, however many Docker has; Docker's packets meet one at most.
#[test]
fn rules_do_not_multiply() {
    let space = Space::new();
    space.run(DOCKER_26);
    space.run(
        "for n in $(seq 38); do iptables-nft -I FORWARD -o br-$n -j DOCKER
         iptables-nft -I DOCKER-ISOLATION-STAGE-2 -o br-$n -j DROP; done",
    );
    let mut socket = space.socket();
    let names: Vec<IfName> = (0..40).map(|n| bridge_named(&format!("br{n}"))).collect();
    names
        .iter()
        .for_each(|name| drop(allow_forwarding(&mut socket, name, Open::default(), &[]).unwrap()));
    let rules =
        |chain: &str| space.run(&format!("iptables-nft -S {chain} | grep -w spoke | wc -l"));
    assert_eq!(rules("").trim(), "83");
    assert_eq!(rules("FORWARD").trim(), "1");
    assert_eq!(space.run("iptables-nft -S DOCKER-USER | grep -c ^-A").trim(), "1");
    names.iter().for_each(|name| disallow_forwarding(&mut socket, Some(name)).unwrap());
    assert!(!space.run("iptables-nft -S").contains("SPOKE"));
}

/// A program that comes with Docker's rules later is still judged first.
#[test]
fn a_docker_that_comes_later_comes_first() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP");
    let mut socket = space.socket();
    allow_forwarding(&mut socket, &bridge(), Open::default(), &[]).unwrap();
    space.run(
        "iptables-nft -N DOCKER-ISOLATION-STAGE-2; iptables-nft -N DOCKER-USER
        iptables-nft -A FORWARD -j DOCKER-USER",
    );
    allow_forwarding(&mut socket, &bridge(), Open::default(), &[]).unwrap();
    let last = space.run("iptables-nft -S FORWARD | tail -n 1");
    assert_eq!(last.trim(), "-A FORWARD -m comment --comment spoke -j SPOKE-FORWARD");
    let sent = space.run("iptables-nft -S SPOKE-SENT");
    assert!(sent.contains("-j DOCKER-ISOLATION-STAGE-2\n"), "{sent}");
}

#[test]
fn an_accepting_host_is_left_alone() {
    let space = Space::new();
    // In the namespace: the host of the tests may have tables of the old iptables.
    let allow = || {
        let allowed = || allow_forwarding(&mut space.socket(), &bridge(), Open::default(), &[]);
        space.netns.enter(allowed).unwrap().unwrap()
    };
    assert_eq!(allow(), Forwarding::default());
    space.run("iptables-nft -N DOCKER-USER");
    let before = space.run("nft list ruleset");
    assert_eq!(allow(), Forwarding::default());
    assert_eq!(space.run("nft list ruleset"), before);
}

/// dockerd found the host forwarding because of Spoke: what it would have dropped is dropped all the same, until an
/// administrator decides otherwise.
#[test]
fn dockers_containers_stay_shut() {
    let (space, both) = (Space::new(), [Family::V4, Family::V6]);
    let mut socket = space.socket();
    let mut allow = |ours: &[Family]| {
        let allowed = || allow_forwarding(&mut socket, &bridge(), Open::default(), ours);
        space.netns.enter(allowed).unwrap().unwrap()
    };
    let policy = || space.run("iptables-nft -S FORWARD | head -n 1");
    let open = || left_open(&mut space.socket(), &both).unwrap();
    space.run(&DOCKER_26.replace("FORWARD DROP", "FORWARD ACCEPT"));
    // A bridge whose containers needed no rule so far, and one of others.
    space.run("ip link add br7 group 1936748395 type bridge; ip link add br8 type bridge");
    let before = space.run("iptables-nft -S");
    assert_eq!(allow(&[Family::V6]), Forwarding::default());
    assert_eq!((space.run("iptables-nft -S"), open()), (before.clone(), vec![Family::V4]));
    let allowed = allow(&both);
    assert_eq!((allowed.accepted, allowed.changed), (vec![Family::V4], true));
    assert_eq!((policy().trim(), open()), ("-P FORWARD DROP", vec![]));
    let passing = dropping_chains(&mut space.socket()).unwrap().remove(0).passing;
    assert_eq!(passing, ["br0", "br7"].map(str::to_owned).into());
    assert!(!allow(&both).changed);
    space.run("iptables-nft -P FORWARD ACCEPT");
    assert!(!allow(&both).changed);
    assert_eq!((policy().trim(), open()), ("-P FORWARD ACCEPT", vec![]));
    // Forwarding ends; and the same where an administrator took it over.
    space.run("iptables-nft -P FORWARD DROP");
    let disallow = || {
        for name in ["br0", "br7"] {
            disallow_forwarding(&mut space.socket(), Some(&bridge_named(name))).unwrap();
        }
    };
    disallow();
    forget_policy(&mut space.socket(), Some(Policy::Accept)).unwrap();
    assert_eq!(space.run("iptables-nft -S"), before);
    allow(&both);
    disallow();
    forget_policy(&mut space.socket(), None).unwrap();
    assert_eq!(space.run("iptables-nft -S"), before.replace("FORWARD ACCEPT", "FORWARD DROP"));
    // Docker 28 has rules for that.
    space.run("iptables-nft -P FORWARD ACCEPT; iptables-nft -N DOCKER-FORWARD");
    assert_eq!(open(), []);
}

#[test]
fn both_families_and_strangers_are_seen() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP");
    space.run("nft 'table inet wall { chain pass { type filter hook forward priority 0; policy drop; }; }'");
    let found = allow_forwarding(&mut space.socket(), &bridge(), Open::default(), &[]).unwrap();
    assert_eq!(found.accepted, [Family::V4, Family::V6]);
    let dropping = dropping_chains(&mut space.socket()).unwrap();
    let given = |Dropping { chain, passing }: Dropping| {
        format!("{chain}: {}", Vec::from_iter(passing).join(" "))
    };
    let given: Vec<String> = dropping.into_iter().map(given).collect();
    assert_eq!(given, ["inet wall pass: ", "ip filter FORWARD: br0", "ip6 filter FORWARD: br0"]);
    assert!(space.run("ip6tables-nft -S SPOKE-FORWARD").contains("-i br0 -m comment"));
}

#[test]
fn what_does_not_come_to_our_rules_does_not_pass() {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP");
    allow_forwarding(&mut space.socket(), &bridge(), Open::default(), &[]).unwrap();
    let passing = || dropping_chains(&mut space.socket()).unwrap().remove(0).passing;
    assert_eq!(Vec::from_iter(passing()), ["br0"]);
    space.run("iptables-nft -D SPOKE-FORWARD 1");
    assert!(passing().is_empty(), "one way is no way");
    allow_forwarding(&mut space.socket(), &bridge(), Open::default(), &[]).unwrap();
    assert_eq!(Vec::from_iter(passing()), ["br0"]);
    space.run("iptables-nft -D FORWARD 1");
    assert!(passing().is_empty(), "nothing leads there");
}

#[test]
fn the_old_iptables_is_reported() {
    let space = Space::new();
    let found = || {
        let allow = || allow_forwarding(&mut space.socket(), &bridge(), Open::default(), &[]);
        space.netns.enter(allow).unwrap().unwrap().legacy
    };
    space.run("iptables-legacy -S INPUT");
    assert_eq!(found(), [], "it accepts everything");
    space.run("iptables-legacy -P FORWARD DROP");
    assert_eq!(found(), [Family::V4]);
    space.run("iptables-legacy -P FORWARD ACCEPT; iptables-legacy -A FORWARD -s 192.0.2.1 -j DROP");
    assert_eq!(found(), [Family::V4]);
}

#[test]
fn ufw_is_loaded_where_its_rules_judge() {
    for (program, flush) in [
        ("iptables-nft", "nft flush ruleset"),
        ("iptables-legacy", "iptables-legacy -F; iptables-legacy -X"),
    ] {
        let space = Space::new();
        let is_loaded = || {
            let asked = || crate::follow::ufw_is_loaded(&mut space.socket());
            space.netns.enter(asked).unwrap().unwrap()
        };
        assert!(!is_loaded());
        space
            .run(&format!("{program} -N ufw-before-input; {program} -A INPUT -j ufw-before-input"));
        assert!(is_loaded(), "{program}");
        // The chains stay, and nothing leads to them.
        space.run(&format!("{program} -F"));
        assert!(!is_loaded(), "{program}");
        space.run(&format!("{program} -A INPUT -j ufw-before-input"));
        assert!(is_loaded(), "{program}");
        space.run(flush);
        assert!(!is_loaded(), "{program}");
    }
}
