//! Rules of iptables for many interfaces at once.

use model::{Family, IfName};
use netlink::Socket;

use super::space::Space;
use crate::filter::{Open, allow_forwarding, disallow_forwarding, dropping_chains};

/// What iptables itself writes for all bridges.
const BY_HAND: &str = "
    iptables-nft -N SPOKE-FORWARD; iptables-nft -N SPOKE-SENT
    iptables-nft -A SPOKE-SENT -m comment --comment spoke -j ACCEPT
    iptables-nft -A SPOKE-FORWARD -o sp-+ -m devgroup --dst-group 0x73706f6b \
        -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -m comment --comment spoke -j ACCEPT
    iptables-nft -A SPOKE-FORWARD -i sp-+ -m devgroup --src-group 0x73706f6b \
        -m comment --comment spoke -j SPOKE-SENT
    iptables-nft -I FORWARD -m comment --comment spoke -j SPOKE-FORWARD";

/// What the version before had for one bridge.
const FORMER: &str = "
    iptables-nft -N SPOKE-FORWARD; iptables-nft -N SPOKE-SENT
    iptables-nft -A SPOKE-SENT -m comment --comment spoke -j ACCEPT
    iptables-nft -A SPOKE-FORWARD -o sp-a -m conntrack --ctstate RELATED,ESTABLISHED,DNAT \
        -m comment --comment spoke -j ACCEPT
    iptables-nft -A SPOKE-FORWARD -i sp-a -m comment --comment spoke -j SPOKE-SENT
    iptables-nft -I FORWARD -m comment --comment spoke -j SPOKE-FORWARD";

const RULES: &str = "iptables-nft -S | sort -s -k1,2";

fn dropping() -> Space {
    let space = Space::new();
    space.run("iptables-nft -P FORWARD DROP");
    space
}

/// A bridge as Spoke makes it.
fn bridge(space: &Space, name: &str) -> IfName {
    space.run(&format!("ip link add {name} group 0x73706f6b type bridge"));
    name.parse().unwrap()
}

fn socket(space: &Space) -> Socket {
    space.netns.enter(Socket::netfilter).unwrap().unwrap()
}

/// Whether anything was missing.
fn allow(space: &Space, interface: &IfName, open: Open<'_>) -> bool {
    let allowed = space.netns.enter(|| allow_forwarding(&mut socket(space), interface, open, &[]));
    allowed.unwrap().unwrap().changed
}

fn disallow(space: &Space, leaving: Option<&IfName>) {
    let done = space.netns.enter(|| disallow_forwarding(&mut socket(space), leaving));
    done.unwrap().unwrap();
}

fn passing(space: &Space) -> String {
    let chains = space.netns.enter(|| dropping_chains(&mut socket(space))).unwrap().unwrap();
    Vec::from_iter(chains.into_iter().flat_map(|chain| chain.passing)).join(" ")
}

fn expected(setup: &str) -> String {
    let space = dropping();
    space.run(setup);
    space.run(RULES)
}

#[test]
fn forty_bridges_have_the_rules_of_one() {
    let space = dropping();
    let names: Vec<IfName> = (0..40).map(|n| bridge(&space, &format!("sp-{n}"))).collect();
    let expected = expected(BY_HAND);
    assert!(allow(&space, &names[0], Open::default()));
    assert_eq!(space.run(RULES), expected);
    for name in &names {
        assert!(!allow(&space, name, Open::default()));
    }
    assert_eq!(space.run(RULES), expected);
    assert_eq!(passing(&space).split(' ').count(), 40);
    let (last, others) = names.split_last().unwrap();
    for name in others {
        disallow(&space, Some(name));
        assert_eq!(space.run(RULES), expected);
        space.run(&format!("ip link delete {name}"));
    }
    disallow(&space, Some(last));
    assert!(!space.run("iptables-nft -S").contains("SPOKE"));
}

#[test]
fn iptables_saves_and_restores_them() {
    let space = dropping();
    let name = bridge(&space, "sp-a");
    allow(&space, &name, Open::default());
    let before = space.run(RULES);
    space.run("iptables-nft-save >/tmp/.$$; nft flush ruleset; iptables-nft-restore </tmp/.$$; rm /tmp/.$$");
    assert_eq!(space.run(RULES), before);
    assert!(!allow(&space, &name, Open::default()));
    assert_eq!(passing(&space), "sp-a");
}

#[test]
fn the_rules_of_the_version_before_are_replaced() {
    let space = dropping();
    let name = bridge(&space, "sp-a");
    space.run(FORMER);
    assert!(allow(&space, &name, Open::default()));
    assert_eq!(space.run(RULES), expected(BY_HAND));
}

#[test]
fn who_is_no_member_has_rules_of_its_own() {
    let space = dropping();
    let alone = |name: &str| space.run(&format!("iptables-nft -S SPOKE-FORWARD | grep -cw {name}"));
    // Of another name, in another group, and what macvlan networks share.
    bridge(&space, "mine");
    space.run("ip link add sp-theirs group 7 type bridge; ip link add vets0123456789a group 0x73706f6b type bridge");
    for name in ["mine", "sp-theirs"] {
        allow(&space, &name.parse().unwrap(), Open::default());
        assert_eq!(alone(name).trim(), "2");
    }
    assert_eq!(passing(&space), "mine sp-theirs");
    allow(&space, &bridge(&space, "sp-a"), Open::default());
    assert_eq!(passing(&space), "mine sp-a sp-theirs");
    // Another program takes it into a group of its own: at its next repair it is let pass alone.
    space.run("ip link set sp-a group 9");
    assert_eq!(passing(&space), "mine sp-theirs");
    assert!(allow(&space, &"sp-a".parse().unwrap(), Open::default()));
    assert_eq!(passing(&space), "mine sp-a sp-theirs");
}

#[test]
fn openings_stand_beside_them() {
    let space = dropping();
    let name = bridge(&space, "sp-a");
    let trusted = ["lan0".parse().unwrap()];
    allow(&space, &name, Open { direct: &[Family::V4], trusted: &trusted });
    let own = "iptables-nft -S SPOKE-FORWARD | grep -w sp-a";
    assert_eq!(
        space.run(own),
        "-A SPOKE-FORWARD -o sp-a -m comment --comment spoke -j ACCEPT\n\
         -A SPOKE-FORWARD -i lan0 -o sp-a -m comment --comment spoke -j ACCEPT\n"
    );
    assert!(allow(&space, &name, Open::default()));
    assert_eq!(space.run(RULES), expected(BY_HAND));
}

/// The ends of pairs had two rules each, which outlived them.
#[test]
fn pairs_leave_no_rules() {
    let space = dropping();
    space.run(&FORMER.replace("sp-a", "veth0123456789a"));
    space.run("ip link add vethaaaaaaaaaaa group 0x73706f6b type bridge");
    allow(&space, &"vethaaaaaaaaaaa".parse().unwrap(), Open::default());
    let rules = space.run("iptables-nft -S SPOKE-FORWARD");
    assert_eq!(rules.matches("-o veth+ -m devgroup").count(), 1, "{rules}");
    assert_eq!(rules.lines().count(), 3, "{rules}");
    assert_eq!(passing(&space), "vethaaaaaaaaaaa");
    space.run("ip link delete vethaaaaaaaaaaa");
    disallow(&space, None);
    assert!(!space.run("iptables-nft -S").contains("SPOKE"));
}

/// The iptables back end's rules say which networks reach each other: ours do not let pass before them.
#[test]
fn isolation_by_iptables_comes_first() {
    let space = dropping();
    space.run(
        "iptables-nft -N CNI-ISOLATION-STAGE-1; iptables-nft -A FORWARD -j CNI-ISOLATION-STAGE-1",
    );
    allow(&space, &bridge(&space, "sp-a"), Open::default());
    let last = space.run("iptables-nft -S FORWARD | tail -n 1");
    assert_eq!(last.trim(), "-A FORWARD -m comment --comment spoke -j SPOKE-FORWARD");
}
