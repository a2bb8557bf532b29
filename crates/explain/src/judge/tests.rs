//! Chains, without a kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use model::{Error, Family, Mac, Protocol, Result};
use netlink::diag::Taking;
use netlink::nft::{AnyChain, AnyHook, AnyRule, AnySet, Datum, Decision, Header, Register32, Step};
use netlink::{Address, BridgeSettings, Forwarded, Link, Neighbour, RouteLookup, Routed};

use super::*;
use crate::packet::{Carried, Device, Packet};
use crate::port::{Kernel, Space, Which};
use crate::rules::{Author, Rules, author};

/// A kernel that has rules and sets, and nothing else.
#[derive(Default)]
struct Fake {
    rules: Rc<Rules>,
    sets: BTreeMap<(String, Vec<u8>), Option<Datum>>,
}

fn no<T>() -> Result<T> {
    Err(Error::not_found("nothing of that"))
}

impl Kernel for Fake {
    fn link(&mut self, _: Space, _: &Which) -> Result<Option<Link>> {
        no()
    }
    fn addresses(&mut self, _: Space) -> Result<Vec<Address>> {
        no()
    }
    fn neighbours(&mut self, _: Space, _: u32) -> Result<Vec<Neighbour>> {
        no()
    }
    fn way(&mut self, _: Space, packet: &Routed) -> Result<RouteLookup> {
        let is_own = packet.to == "192.0.2.1".parse::<IpAddr>().unwrap();
        Ok(if is_own { RouteLookup::Local } else { RouteLookup::Many })
    }
    fn routes_by_mark(&mut self, _: Space, _: Family) -> Result<bool> {
        no()
    }
    fn parameter(&mut self, _: Space, _: &str) -> Result<Option<String>> {
        no()
    }
    fn taking(&mut self, _: Space, _: Protocol) -> Result<Option<Vec<Taking>>> {
        no()
    }
    fn rules(&mut self, _: Space) -> Result<Rc<Rules>> {
        Ok(Rc::clone(&self.rules))
    }
    fn seek(&mut self, _: Space, set: &AnySet, key: &[u8]) -> Result<Option<Option<Datum>>> {
        Ok(self.sets.get(&(set.name.clone(), key.to_vec())).cloned())
    }
    fn bridge(&mut self, _: u32) -> Result<Option<BridgeSettings>> {
        no()
    }
    fn forwarded(&mut self, _: u32, _: Mac) -> Result<Option<Forwarded>> {
        no()
    }
    fn vlans(&mut self, _: u32) -> Result<Vec<(u16, bool)>> {
        no()
    }
}

const AT: Register32 = Register32(4);

fn chain(name: &str, drops: Option<bool>) -> AnyChain {
    let hook = drops.map(|drops| AnyHook {
        kind: "filter".to_owned(),
        number: 2,
        priority: 0,
        drops,
        devices: Vec::new(),
    });
    AnyChain { family: 1, table: "t".to_owned(), name: name.to_owned(), hook }
}

fn rules(chain: &str, list: Vec<Vec<Step>>) -> Vec<AnyRule> {
    let rule = |(steps, handle)| AnyRule {
        family: 1,
        table: "t".to_owned(),
        chain: chain.to_owned(),
        handle,
        steps,
        comment: None,
    };
    list.into_iter().zip(1..).map(rule).collect()
}

fn decide(decision: Decision) -> Step {
    Step::Decision(decision)
}

fn unknown() -> Step {
    Step::Other("numgen".to_owned())
}

fn port(number: u16) -> Vec<Step> {
    let load = Step::Payload { base: Header::Transport, offset: 2, length: 2, into: AT };
    vec![load, Step::Compare(AT, 0, number.to_be_bytes().to_vec())]
}

/// What becomes of a packet to port 80 in a chain `f` with this policy, and a chain `j`.
fn ruling(drops: bool, f: Vec<Vec<Step>>, j: Vec<Vec<Step>>) -> Ruling {
    let all = [rules("f", f), rules("j", j)].concat();
    let chains = vec![chain("f", Some(drops)), chain("j", None)];
    let mut kernel =
        Fake { rules: Rc::new(Rules::new(chains, all, Vec::new())), ..Fake::default() };
    let mut packet =
        Packet::new("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap(), Carried::Tcp(80));
    judge(&mut kernel, Space::HOST, Point::FORWARD, &mut packet).unwrap()
}

fn passes(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Passes { .. })
}

fn by(ruling: &Ruling) -> (&str, Option<u64>) {
    match ruling {
        Ruling::Dropped(place) | Ruling::Unknown(place) => (place.chain.as_str(), place.rule),
        Ruling::Passes { .. } => ("", None),
    }
}

#[test]
fn policies_and_rules_decide() {
    assert!(passes(&ruling(false, vec![], vec![])));
    assert_eq!(by(&ruling(true, vec![], vec![])), ("f", None));
    let to = |number, decision| [port(number), vec![decide(decision)]].concat();
    assert!(passes(&ruling(true, vec![to(80, Decision::Accept)], vec![])));
    assert!(passes(&ruling(false, vec![to(81, Decision::Drop)], vec![])));
    let dropped = ruling(false, vec![to(81, Decision::Drop), to(80, Decision::Drop)], vec![]);
    assert_eq!(by(&dropped), ("f", Some(2)));
}

#[test]
fn jumps_come_back_and_gotos_do_not() {
    let jump = |decision| vec![vec![decide(decision)], vec![decide(Decision::Drop)]];
    let empty = || vec![vec![decide(Decision::Return)], vec![decide(Decision::Drop)]];
    let jumped = ruling(false, jump(Decision::Jump("j".to_owned())), empty());
    assert_eq!(by(&jumped), ("f", Some(2)));
    assert!(passes(&ruling(false, jump(Decision::Goto("j".to_owned())), empty())));
    let inside = ruling(false, jump(Decision::Jump("j".to_owned())), jump(Decision::Continue));
    assert_eq!(by(&inside), ("j", Some(2)));
    // A chain that calls itself is not followed for ever.
    let endless = ruling(
        false,
        vec![vec![decide(Decision::Jump("j".to_owned()))]],
        vec![vec![decide(Decision::Jump("j".to_owned()))]],
    );
    assert!(matches!(endless, Ruling::Unknown(_)));
}

#[test]
fn what_is_not_understood_matters_only_where_it_decides() {
    let maybe = |decision| vec![unknown(), decide(decision)];
    assert!(passes(&ruling(false, vec![maybe(Decision::Accept)], vec![])));
    let doubt = ruling(false, vec![maybe(Decision::Drop)], vec![]);
    assert!(matches!(doubt, Ruling::Unknown(_)));
    assert_eq!(by(&doubt), ("f", Some(1)));
    assert!(matches!(ruling(true, vec![maybe(Decision::Drop)], vec![]), Ruling::Dropped(_)));
    // What is not understood and then does not match is no matter.
    let other = [vec![unknown()], port(81), vec![decide(Decision::Drop)]].concat();
    assert!(passes(&ruling(false, vec![other], vec![])));
    // It may return, but then it is accepted as well.
    let jump = vec![vec![decide(Decision::Jump("j".to_owned()))]];
    let returns = vec![maybe(Decision::Return), vec![decide(Decision::Accept)]];
    assert!(passes(&ruling(false, jump, returns)));
}

#[test]
fn authors_are_known_by_names() {
    let chains = || vec![chain("FORWARD", Some(true)), chain("DOCKER-FORWARD", None)];
    let jump = vec![decide(Decision::Jump("DOCKER-FORWARD".to_owned()))];
    let all = Rules::new(chains(), rules("FORWARD", vec![jump]), Vec::new());
    let place = |chain: &str, rule| RuleLocation {
        filter: Filter::Nftables,
        family: 1,
        table: "t".to_owned(),
        chain: chain.to_owned(),
        path: Vec::new(),
        rule,
        comment: None,
        rejects: false,
        unclear: None,
    };
    assert_eq!(author(&all, &place("FORWARD", None)), Author::Docker);
    // A chain to which nothing leads is what a flush has left.
    let flushed = Rules::new(chains(), Vec::new(), Vec::new());
    assert_eq!(author(&flushed, &place("FORWARD", None)), Author::Operator);
    assert_eq!(author(&all, &place("FORWARD", Some(1))), Author::Operator);
    assert_eq!(author(&all, &place("DOCKER-USER", Some(1))), Author::Operator);
    assert_eq!(author(&all, &place("ufw-user-forward", Some(1))), Author::Ufw);
}

/// Docker's rules of `raw` have no comment: they are known by their form, where Docker has chains.
#[test]
fn what_docker_keeps_from_others_is_known() {
    let drops = |steps: Vec<Step>| {
        let rule = AnyRule {
            family: 2,
            table: "raw".to_owned(),
            chain: "PREROUTING".to_owned(),
            handle: 2,
            steps,
            comment: None,
        };
        Rules::new(vec![chain("DOCKER", None)], vec![rule], Vec::new())
    };
    let place = RuleLocation {
        filter: Filter::Nftables,
        family: 2,
        table: "raw".to_owned(),
        chain: "PREROUTING".to_owned(),
        path: Vec::new(),
        rule: Some(2),
        comment: None,
        rejects: false,
        unclear: None,
    };
    let to = |into| Step::Payload { base: Header::Network, offset: 16, length: 4, into };
    let (at, name) = (AT, b"br-69ffb821d52d".to_vec());
    let unlike = vec![to(at), Step::Meta(6, at), Step::Compare(at, 1, name.clone())];
    assert_eq!(author(&drops(unlike.clone()), &place), Author::Docker);
    let like = vec![to(at), Step::Meta(6, at), Step::Compare(at, 0, name)];
    assert_eq!(author(&drops(like), &place), Author::Operator);
    let elsewhere = RuleLocation { chain: "OUTPUT".to_owned(), ..place };
    assert_eq!(author(&drops(unlike), &elsewhere), Author::Operator);
}

/// A chain of devices is passed by what comes by one of them, and by nothing else.
#[test]
fn chains_of_several_devices_are_for_these_only() {
    let on = |number: u32, devices: &[&str], point: Point| {
        let mut chain = chain("f", Some(true));
        chain.family = 5;
        let hook = chain.hook.as_mut().unwrap();
        hook.number = number;
        hook.devices = devices.iter().map(|name| (*name).to_owned()).collect();
        let mut kernel = Fake {
            rules: Rc::new(Rules::new(vec![chain], Vec::new(), Vec::new())),
            ..Fake::default()
        };
        let (from, to) = ("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
        let device = |name: &str| Some(Device { name: name.to_owned(), ..Device::default() });
        let packet = Packet::new(from, to, Carried::Tcp(80));
        let mut packet = Packet { input: device("eth0"), output: device("wg7"), ..packet };
        passes(&judge(&mut kernel, Space::HOST, point, &mut packet).unwrap())
    };
    assert!(!on(0, &["eth1", "eth0"], Point::Ingress));
    assert!(on(0, &["eth1", "eth2"], Point::Ingress));
    assert!(on(0, &[], Point::Ingress), "its devices are gone");
    assert!(!on(1, &["wg*"], Point::Egress));
    assert!(on(1, &["eth0"], Point::Egress));
    assert!(on(0, &["wg7"], Point::Egress) && on(1, &["eth0"], Point::Ingress));
}

#[test]
fn a_doubtful_rule_leaves_open_whether_a_connection_is_tracked() {
    let untracked = || {
        let load = Step::Conntrack(0, None, AT);
        let mask = Step::Bitwise {
            from: AT,
            into: AT,
            mask: 64_u32.to_ne_bytes().to_vec(),
            xor: vec![0; 4],
        };
        vec![load, mask, Step::Compare(AT, 1, vec![0; 4]), decide(Decision::Accept)]
    };
    let last = || vec![decide(Decision::Drop)];
    let notrack = |guard: Vec<Step>| [guard, vec![Step::NotTracked]].concat();
    let of = |first: Vec<Step>| ruling(false, vec![first, untracked(), last()], Vec::new());
    assert!(passes(&of(notrack(Vec::new()))));
    assert!(matches!(of(notrack(port(81))), Ruling::Dropped(_)));
    assert!(matches!(of(notrack(vec![unknown()])), Ruling::Unknown(_)));
    let jump = vec![unknown(), decide(Decision::Jump("j".to_owned()))];
    let within = ruling(false, vec![jump, untracked(), last()], vec![notrack(Vec::new())]);
    assert!(matches!(within, Ruling::Unknown(_)));
}

#[test]
fn marks_are_set_where_that_is_sure() {
    let mark = |guard: Vec<Step>| {
        let set = vec![Step::Constant(AT, 7_u32.to_ne_bytes().to_vec()), Step::SetMark(AT)];
        let chains = vec![chain("f", Some(false))];
        let rules = rules("f", vec![[guard, set].concat()]);
        let mut kernel =
            Fake { rules: Rc::new(Rules::new(chains, rules, Vec::new())), ..Fake::default() };
        let (from, to) = ("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
        let mut packet = Packet::new(from, to, Carried::Tcp(80));
        assert!(passes(&judge(&mut kernel, Space::HOST, Point::FORWARD, &mut packet).unwrap()));
        packet.mark
    };
    assert_eq!(mark(Vec::new()), Some(7));
    assert_eq!(mark(port(80)), Some(7));
    assert_eq!(mark(port(81)), Some(0));
    assert_eq!(mark(vec![unknown()]), None);
    // What is not understood may have written what is compared.
    let compared = [port(80), vec![unknown()], vec![Step::Compare(AT, 0, vec![0; 4])]].concat();
    assert_eq!(mark(compared), None);
}

/// `ct mark set 7` in a chain, and `ct mark 7 drop` behind it.
#[test]
fn the_mark_of_a_connection_is_known_where_it_is_set_for_sure() {
    const MARK: u32 = 3;
    let of = |guard: Vec<Step>| {
        let seven = 7_u32.to_ne_bytes().to_vec();
        let set = vec![Step::Constant(AT, seven.clone()), Step::SetConnectionMark(AT)];
        let is_set = vec![Step::Conntrack(MARK, None, AT), Step::Compare(AT, 0, seven)];
        let drops = [is_set, vec![decide(Decision::Drop)]].concat();
        ruling(false, vec![[guard, set].concat(), drops], Vec::new())
    };
    assert_eq!(by(&of(Vec::new())), ("f", Some(2)));
    assert!(matches!(of(port(80)), Ruling::Dropped(_)));
    assert!(passes(&of(port(81))));
    assert!(matches!(of(vec![unknown()]), Ruling::Unknown(_)));
}

/// `update @seen { ip saddr limit rate over 10/second } tcp dport 81 drop`, and `limit rate 10/second`.
#[test]
fn what_was_sent_before_decides_nothing_of_other_packets() {
    let passes_with = |name: &str, number: u16, end: Decision| {
        // The port is compared behind the limit, which leaves what was loaded.
        let load = Step::Payload { base: Header::Transport, offset: 2, length: 2, into: AT };
        let same = Step::Compare(AT, 0, number.to_be_bytes().to_vec());
        let rule = vec![load, Step::Other(name.to_owned()), same, decide(end)];
        let list = Rules::new(vec![chain("f", Some(false))], rules("f", vec![rule]), Vec::new());
        let mut kernel = Fake { rules: Rc::new(list), ..Fake::default() };
        let (from, to) = ("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
        let mut packet = Packet::new(from, to, Carried::Tcp(80));
        passes(&judge(&mut kernel, Space::HOST, Point::FORWARD, &mut packet).unwrap())
    };
    for name in ["limit", "dynset", "connlimit"] {
        assert!(passes_with(name, 81, Decision::Drop), "{name}: another port");
        assert!(passes_with(name, 80, Decision::Accept), "{name}: the same either way");
        assert!(!passes_with(name, 80, Decision::Drop), "{name}: it depends");
    }
    assert!(!passes_with("numgen", 81, Decision::Drop));
}

/// `iptables -o sp-+ -m devgroup --dst-group 7`, and what it is not.
#[test]
fn groups_of_interfaces_are_understood() {
    let passes_to = |group: u32, inverted: u32| {
        let words = [4 | inverted, 0, 0, 7, u32::MAX, 0];
        let info = words.map(u32::to_ne_bytes).concat();
        let rule = vec![Step::Match("devgroup".to_owned(), 0, info), decide(Decision::Accept)];
        let mut kernel = Fake {
            rules: Rc::new(Rules::new(
                vec![chain("f", Some(true))],
                rules("f", vec![rule]),
                Vec::new(),
            )),
            ..Fake::default()
        };
        let (from, to) = ("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
        let mut packet = Packet::new(from, to, Carried::Tcp(80));
        packet.output = Some(crate::packet::Device { group, ..Default::default() });
        passes(&judge(&mut kernel, Space::HOST, Point::FORWARD, &mut packet).unwrap())
    };
    assert!(passes_to(7, 0) && !passes_to(8, 0));
    assert!(passes_to(8, 8) && !passes_to(7, 8));
}

#[test]
fn a_map_of_decisions_whose_key_is_not_known_may_decide_all() {
    let by_chance = || {
        let (set, inverted) = ("m".to_owned(), false);
        vec![unknown(), Step::Lookup { set, key: AT, into: Some(Register32(0)), inverted }]
    };
    let doubt = ruling(false, vec![by_chance()], vec![]);
    assert_eq!(by(&doubt), ("f", Some(1)));
    assert!(matches!(doubt, Ruling::Unknown(_)));
    // Behind what does not match it is no matter.
    assert!(passes(&ruling(false, vec![[port(81), by_chance()].concat()], vec![])));
}

#[test]
fn statements_that_take_the_packet_decide() {
    for name in ["fwd", "queue", "tproxy"] {
        let takes = || vec![Step::Other(name.to_owned())];
        assert!(matches!(ruling(false, vec![takes()], vec![]), Ruling::Unknown(_)), "{name}");
        assert!(passes(&ruling(false, vec![[port(81), takes()].concat()], vec![])), "{name}");
    }
    assert!(passes(&ruling(false, vec![vec![Step::Other("dup".to_owned())]], vec![])));
}
