//! What is said of a refusal, and what mends it.

use super::*;
use crate::packet::Carried;
use crate::port::{Kernel, Which};
use crate::rules::Filter;
use crate::walk::fake::{Fake, site, trip};
use crate::walk::{Elsewhere, End, Status};

fn place(table: &str, chain: &str, rule: Option<u64>) -> RuleLocation {
    RuleLocation {
        filter: Filter::Nftables,
        family: 1,
        table: table.to_owned(),
        chain: chain.to_owned(),
        path: Vec::new(),
        rule,
        comment: None,
        rejects: false,
        unclear: None,
    }
}

fn packet() -> Packet {
    Packet::new("10.70.1.2".parse().unwrap(), "10.70.2.3".parse().unwrap(), Carried::Tcp(80))
}

/// What is found where this place drops a packet from `a` to `b`.
fn dropped(space: Space, packet: &Packet, place: RuleLocation) -> Hop {
    let (mut kernel, path) = (Fake::default(), "10.70.2.3/24");
    let ends = (site("a", "10.70.1.2/24", Space(1)), site("b", path, Space(2)));
    let trip = trip(End::Container(ends.0), End::Container(ends.1));
    let mut walker = Walker::new(&mut kernel, &trip, Vec::new());
    let _ = walker.dropped((space, "what a sends"), packet, place);
    walker.hops.pop().unwrap()
}

/// Only the network is the container's own in its namespace: files and daemons are the host's.
#[test]
fn a_firewall_in_a_container_is_not_changed_by_the_hosts_commands() {
    let all = [
        ("filter", "ufw-user-output", Author::Ufw),
        ("firewalld", "filter_OUTPUT", Author::Firewalld),
        ("firewalld_policy_drop", "filter_output", Author::Firewalld),
        ("filter", "DOCKER-FORWARD", Author::Docker),
    ];
    for (table, chain, by) in all {
        for carried in [Carried::Tcp(80), Carried::Sctp(80), Carried::Echo] {
            let packet = Packet { carried, ..packet() };
            let fix = |rule| {
                let hop = dropped(Space(1), &packet, place(table, chain, rule));
                assert_eq!(hop.by, Some(by));
                hop.fix
            };
            let wanted = format!("ip netns exec a nft delete rule inet {table} {chain} handle 7");
            assert_eq!(fix(Some(7)), Some(wanted));
            assert_eq!(fix(None), None);
        }
        let host = dropped(Space::HOST, &packet(), place(table, chain, Some(7)));
        assert!(!host.fix.unwrap().contains("netns"), "{table} {chain}");
    }
    let own = dropped(Space(1), &packet(), place("mine", "out", None)).fix.unwrap();
    assert_eq!(own, "ip netns exec a nft add chain inet mine out '{ policy accept; }'");
    // It is not known whose this is.
    assert_eq!(dropped(Space(3), &packet(), place("mine", "out", Some(7))).fix, None);
}

/// A place of the fence, behind these chains.
fn of_fence(path: &[&str], chain: &str) -> RuleLocation {
    let path = path.iter().map(|&chain| chain.to_owned()).collect();
    RuleLocation { path, ..place("spoke_fence", chain, Some(7)) }
}

fn answer() -> Packet {
    let packet = packet();
    Packet { source: packet.destination, destination: packet.source, is_reply: true, ..packet }
}

/// The rules are those of who answers, and a published port is answered.
#[test]
fn an_answer_that_egress_rules_refuse_is_the_called_ones() {
    let of = |leaving: &str, refused: &str| {
        let place = of_fence(&["forward", leaving, refused], "denied");
        dropped(Space::HOST, &answer(), place)
    };
    let network = of("leaving", "refused");
    let wanted = "network b-net has egress rules, and answers only what came by a published port, \
                  from this host's networks or by routes";
    assert!(network.what.starts_with(wanted), "{}", network.what);
    assert_eq!(network.hop, "egress");
    assert_eq!(network.fix.unwrap(), "spoke port add spoke:b 80:80");
    let own = of("own_leaving", "own_refused").what;
    assert!(own.starts_with("b has egress rules, and answers only"), "{own}");
    let there = of_fence(&["forward", "leaving", "refused"], "denied");
    let there = dropped(Space::HOST, &packet(), there);
    assert!(there.what.starts_with("the egress rules of network a-net do not"), "{}", there.what);
    assert_eq!(there.fix, None);
}

/// Two runtimes may call different networks alike: a command of Spoke's has the name in the book, a sentence the other.
#[test]
fn a_command_about_egress_rules_has_the_name_in_the_book() {
    let mut fenced = site("a", "10.70.1.2/24", Space(1));
    fenced.plugs.iter_mut().for_each(|plug| plug.title = Some("shop".to_owned()));
    assert_eq!(
        refused(fenced),
        "the egress rules of network shop do not allow it: spoke egress suggest a-net names the rule, and spoke egress \
         set a-net sets it"
    );
}

/// Its name in the book may be another network's by now.
#[test]
fn a_command_about_a_renamed_network_has_its_new_name() {
    let mut fenced = site("a", "10.70.1.2/24", Space(1));
    for plug in &mut fenced.plugs {
        (plug.title, plug.in_commands) = (Some("edge".to_owned()), Some("edge".to_owned()));
    }
    assert_eq!(
        refused(fenced),
        "the egress rules of network edge do not allow it: spoke egress suggest edge names the rule, and spoke egress \
         set edge sets it"
    );
}

/// What is said of a packet that the rules of this one's network drop.
fn refused(fenced: Site) -> String {
    let mut kernel = Fake::default();
    let trip = trip(End::Container(fenced), End::Container(site("b", "10.70.2.3/24", Space(2))));
    let mut walker = Walker::new(&mut kernel, &trip, Vec::new());
    let place = of_fence(&["forward", "leaving", "refused"], "denied");
    let _ = walker.dropped((Space::HOST, "what a sends"), &packet(), place);
    let what = walker.hops.pop().unwrap().what;
    what.split_once(" (").map_or(what.clone(), |(what, _)| what.to_owned())
}

#[test]
fn what_may_be_in_anothers_name_is_said_to_be() {
    let arriving = dropped(Space::HOST, &packet(), of_fence(&["forward", "started"], "arriving"));
    let to_host = of_fence(&["input", "to_host", "refused"], "denied");
    for hop in [arriving, dropped(Space::HOST, &answer(), to_host)] {
        assert_eq!((hop.hop, hop.fix), ("spoofing", None));
        assert!(hop.what.starts_with("this host would answer it by another device"));
    }
}

/// What asks mends nothing: it is named in the sentence alone.
#[test]
fn another_host_is_asked_and_nothing_mended() {
    let (mut kernel, trip) = (Fake::default(), trip(End::Host, End::Outside));
    let index = kernel.link("eth0", None, &[]);
    let out = Kernel::link(&mut kernel, Space::HOST, &Which::Index(index)).unwrap().unwrap();
    let mut walker = Walker::new(&mut kernel, &trip, Vec::new());
    let there =
        Elsewhere { net: "10.70.9.0/24".parse().unwrap(), host: "b".to_owned(), trouble: None };
    let _ = walker.leaves(&there, &out, "10.70.9.2".parse().unwrap());
    let hop = walker.hops.pop().unwrap();
    assert!(hop.what.contains("`spoke host check` says whether packets arrive"), "{}", hop.what);
    assert_eq!((hop.status, hop.fix), (Status::Unknown, None));
}
