//! Beside nft(8), in private namespaces.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::{Errno, Netns, Socket};

/// A network namespace that lives as long as this does.
struct Space(Child, Netns);

impl Space {
    fn new() -> Self {
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        keeper.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let netns = Netns::open(Path::new(&format!("/proc/{}/ns/net", keeper.id()))).unwrap();
        Self(keeper, netns)
    }

    fn socket(&self) -> Socket {
        self.1.enter(Socket::netfilter).unwrap().unwrap()
    }

    fn run(&self, command: &str) -> String {
        let output = self.1.enter(|| Command::new("sh").args(["-ec", command]).output());
        let output = output.unwrap().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TABLE: Table<'static> = Table { family: Family::Inet, name: "t" };
const SET: Set<'static> = Set {
    name: "s",
    key: &[Field::Interface, Field::Ipv6],
    data: &[],
    objects: None,
    lookup: Lookup::Exact,
};
/// Its elements lead to counters.
const COUNTED: Set<'static> = Set { name: "c", objects: Some(ObjectKind::Counter), ..SET };
const MAP: Set<'static> = Set {
    name: "m",
    key: &[Field::Protocol, Field::Service],
    data: &[Field::Ipv4, Field::Service],
    objects: None,
    lookup: Lookup::Exact,
};
const BASE: Base =
    Base { kind: ChainKind::Nat, hook: Hook::Prerouting, priority: -100, policy: Policy::Accept };
const R: Register = Register::FIRST;

const AS_NFT_SAYS: &str = "table inet t {
	comment \"a table\"
	set s {
		type ifname . ipv6_addr
		elements = { \"br0\" . fd00::2 comment \"an owner\" }
	}

	map m {
		type inet_proto . inet_service : ipv4_addr . inet_service
		elements = { tcp . 8080 : 10.1.0.2 . 80 }
	}

	chain base {
		type nat hook prerouting priority dstnat; policy accept;
		jump other
		fib daddr type local dnat ip to meta l4proto . th dport map @m
	}

	chain other {
		ct state established counter packets 0 bytes 0 accept
		iifname . ip6 daddr != @s return
	}
}
";

fn in_set() -> Element {
    let key = Tuple::new().interface(&"br0".parse().unwrap()).address("fd00::2".parse().unwrap());
    Element { comment: Some("an owner".parse().unwrap()), ..Element::of(key) }
}

fn in_map() -> Element {
    let data = Tuple::new().address("10.1.0.2".parse().unwrap()).service(80);
    Element { data: Some(data), ..Element::of(Tuple::new().protocol(6).service(8080)) }
}

fn number(value: u32) -> Cow<'static, [u8]> {
    Cow::Owned(value.to_ne_bytes().to_vec())
}

fn everything() -> Transaction {
    let mut all = Transaction::new();
    all.add_table(TABLE, Some(&"a table".parse().unwrap()));
    all.add_set(TABLE, &SET);
    all.add_set(TABLE, &MAP);
    all.add_chain(TABLE, "base", Some(&BASE), true);
    all.add_chain(TABLE, "other", None, false);
    let translate = [
        Expression::DestinationType(R),
        Expression::Equal(R, number(2)),
        Expression::Meta(Meta::Protocol, R),
        Expression::DestinationPort(R.behind(1)),
        Expression::Map { name: "m", key: R, into: R },
        Expression::DestinationNat { family: Family::Ipv4, address: R, port: R.behind(1) },
    ];
    all.add_rule(TABLE, "base", RulePosition::Tail, &[Expression::Verdict(Verdict::Jump("other"))]);
    all.add_rule(TABLE, "base", RulePosition::Tail, &translate);
    let known = [
        Expression::Conntrack(Conntrack::State, R),
        Expression::Mask(R, number(2)),
        Expression::Unequal(R, number(0)),
        Expression::Counter,
        Expression::Verdict(Verdict::Accept),
    ];
    all.add_rule(TABLE, "other", RulePosition::Tail, &known);
    let strange = [
        Expression::Meta(Meta::Family, R),
        Expression::Equal(R, Cow::Borrowed(&[10])),
        Expression::Meta(Meta::InputName, R),
        Expression::Network { offset: 24, length: 16, into: R.behind(4) },
        Expression::NotIn("s", R),
        Expression::Verdict(Verdict::Return),
    ];
    all.add_rule(TABLE, "other", RulePosition::Tail, &strange);
    all.add_element(TABLE, "s", &in_set(), "adding to s".to_owned());
    all.add_element(TABLE, "m", &in_map(), "adding to m".to_owned());
    all
}

#[test]
fn nft_reads_what_is_written() {
    let space = Space::new();
    let mut socket = space.socket();
    everything().apply(&mut socket).unwrap();
    assert_eq!(space.run("nft list table inet t"), AS_NFT_SAYS);
    assert!(space.run("nft -j list ruleset").contains("\"comment\": \"an owner\""));
    let mut all = Transaction::new();
    all.delete_table(TABLE);
    all.apply(&mut socket).unwrap();
    assert_eq!(space.run("nft list ruleset"), "");
}

#[test]
fn what_nft_writes_is_read() {
    let space = Space::new();
    space.run(&format!("nft -f - <<'END'\n{AS_NFT_SAYS}\nEND"));
    let mut socket = space.socket();
    let listed = tables(&mut socket, Family::Inet).unwrap();
    assert_eq!(listed, [("t".to_owned(), Some("a table".parse().unwrap()))]);
    assert_eq!(elements(&mut socket, TABLE, "s").unwrap(), [in_set()]);
    assert_eq!(elements(&mut socket, TABLE, "m").unwrap(), [in_map()]);
    assert_eq!(elements(&mut socket, TABLE, "missing").unwrap(), []);
    let listed = chains(&mut socket, Family::Inet).unwrap();
    let named: Vec<_> = listed.iter().map(|chain| (chain.name.as_str(), chain.base)).collect();
    assert_eq!(named, [("base", Some(BASE)), ("other", None)]);
    assert!(chain_exists(&mut socket, TABLE, "other").unwrap());
    assert!(!chain_exists(&mut socket, TABLE, "others").unwrap());
    let other = rules(&mut socket, TABLE, "other").unwrap();
    assert_eq!(other.len(), 2);
    assert_eq!(other[0].shape[3..], [Shape::Counter, Shape::Accept]);
    assert_eq!(other[1].shape[2], Shape::InputName);
    let mut change = Transaction::new();
    change.delete_rule(TABLE, "other", other[0].handle);
    change.apply(&mut socket).unwrap();
    assert_eq!(rules(&mut socket, TABLE, "other").unwrap(), other[1..]);
}

#[test]
fn all_or_nothing_and_the_failure_is_named() {
    let space = Space::new();
    let mut socket = space.socket();
    everything().apply(&mut socket).unwrap();
    let other = Element { comment: None, ..in_map() };
    let new = Element { key: Tuple::new().protocol(6).service(9), ..in_map() };
    let mut change = Transaction::new();
    change.add_element(TABLE, "m", &new, "adding port 9".to_owned());
    change.ensure_element(TABLE, "m", &other, "ensuring port 8080".to_owned());
    change.add_element(TABLE, "m", &other, "adding port 8080".to_owned());
    let outcome = change.commit(&mut socket).unwrap();
    assert_eq!(outcome.failures().len(), 1);
    assert_eq!((outcome.failures()[0].index, outcome.failures()[0].errno), (3, Errno::EXIST));
    let error = outcome.into_result().unwrap_err();
    assert_eq!(error.kind(), model::Kind::Conflict);
    assert!(error.to_string().starts_with("adding port 8080"), "{error}");

    let asked = [("m", &new), ("m", &other), ("s", &in_set()), ("gone", &new)];
    assert_eq!(find(&mut socket, TABLE, &asked).unwrap(), [(1, in_map()), (2, in_set())]);
    let mut change = Transaction::new();
    change.delete_element(TABLE, "m", &other, "removing port 8080".to_owned());
    change.delete_element(TABLE, "m", &new, "removing port 9".to_owned());
    let outcome = change.commit(&mut socket).unwrap();
    assert_eq!(outcome.failures()[0].errno, Errno::NOENT);
    assert_eq!(elements(&mut socket, TABLE, "m").unwrap(), [in_map()]);
}

#[test]
fn a_transaction_can_insist_on_what_was_seen() {
    let space = Space::new();
    let mut socket = space.socket();
    let seen = generation(&mut socket).unwrap();
    everything().apply(&mut socket).unwrap();
    let mut change = Transaction::of_generation(seen);
    change.delete_table(TABLE);
    let outcome = change.commit(&mut socket).unwrap();
    assert_eq!(outcome.failures()[0].errno, Errno::RESTART);
    let mut change = Transaction::of_generation(generation(&mut socket).unwrap());
    change.delete_table(TABLE);
    change.apply(&mut socket).unwrap();
    assert!(tables(&mut socket, Family::Inet).unwrap().is_empty());
}

#[test]
fn a_thousand_elements_in_one_transaction() {
    let space = Space::new();
    let mut socket = space.socket();
    everything().apply(&mut socket).unwrap();
    let many: Vec<_> = (1..=1000u16)
        .map(|port| Element { key: Tuple::new().protocol(17).service(port), ..in_map() })
        .collect();
    let mut change = Transaction::new();
    for element in &many {
        change.add_element(TABLE, "m", element, "adding one of many".to_owned());
    }
    change.apply(&mut socket).unwrap();
    assert_eq!(elements(&mut socket, TABLE, "m").unwrap().len(), 1001);
    let asked: Vec<_> = many.iter().map(|element| ("m", element)).collect();
    assert_eq!(find(&mut socket, TABLE, &asked).unwrap().len(), 1000);
}

#[test]
fn a_counter_knows_how_many_elements_lead_to_it() {
    let space = Space::new();
    let mut socket = space.socket();
    everything().apply(&mut socket).unwrap();
    assert_eq!(counter_users(&mut socket, TABLE, "via/br0").unwrap(), None);
    let led = Element { counter: Some("via/br0".to_owned()), ..in_set() };
    let mut change = Transaction::new();
    change.add_set(TABLE, &COUNTED);
    change.ensure_counter(TABLE, "via/br0");
    change.ensure_counter(TABLE, "via/br0");
    change.add_element(TABLE, "c", &led, "leading".to_owned());
    change.apply(&mut socket).unwrap();
    assert_eq!(counter_users(&mut socket, TABLE, "via/br0").unwrap(), Some(1));
    assert_eq!(elements(&mut socket, TABLE, "c").unwrap(), std::slice::from_ref(&led));
    let saved = space.run("nft list ruleset");
    assert!(saved.contains("fd00::2 comment \"an owner\" : \"via/br0\""), "{saved}");
    Space::new().run(&format!("nft -f - <<'END'\n{saved}\nEND"));

    let mut change = Transaction::new();
    change.delete_counter(TABLE, "via/br0");
    let outcome = change.commit(&mut socket).unwrap();
    assert_eq!(outcome.failures()[0].errno, Errno::BUSY);
    let mut change = Transaction::new();
    change.delete_element(TABLE, "c", &led, "removing".to_owned());
    change.apply(&mut socket).unwrap();
    assert_eq!(counter_users(&mut socket, TABLE, "via/br0").unwrap(), Some(0));
    let mut change = Transaction::new();
    change.delete_counter(TABLE, "via/br0");
    change.apply(&mut socket).unwrap();
    assert_eq!(counter_users(&mut socket, TABLE, "via/br0").unwrap(), None);
}
