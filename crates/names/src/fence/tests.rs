use std::net::IpAddr;

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::dep::octseq::OctetsBuilder;
use domain::rdata::{A, Aaaa, AllRecordData, Cname, Txt};
use model::{
    Attached, Attachment, AttachmentId, InterfaceAddress, Layer, Moment, Phase, Runtime, Timestamp,
};

use super::*;
use crate::decide::{Decision, decide};
use crate::fixture;

const SELF: [u8; 4] = [10, 71, 1, 9];

fn attachment(network: &NetworkName, nets: &[model::IpNet]) -> Attachment {
    let id = AttachmentId {
        network: network.clone(),
        container: "web".parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    let phase = Phase::Attached(Attached::default());
    let mut record = Attachment::new(id, Layer::Link, Runtime::Cni, Timestamp(0), phase);
    record.wiring.link = Some(fixture::bridge());
    record.ipam = fixture::pools(network, nets);
    let held = |address: &model::IpNet| {
        let address = *address;
        InterfaceAddress { address, gateway: None, interface: None }
    };
    record.addresses = nets.iter().map(held).collect();
    record
}

fn table(rules: &str) -> Table {
    let network: NetworkName = "front".parse().unwrap();
    let nets = ["10.71.1.9/24", "fd71::9/64"].map(|net| net.parse::<model::IpNet>().unwrap());
    let mut record = attachment(&network, &nets);
    record.wiring.fence = Some(rules.parse().unwrap());
    let mut table = Table::default();
    table.put_attachment(&record.id, record.layer, Some(&record));
    table
}

fn name(text: &str) -> Name<Vec<u8>> {
    text.parse().unwrap()
}

fn query(text: &str, kind: Rtype) -> Vec<u8> {
    let mut question = MessageBuilder::new_vec().question();
    question.push((name(text), kind, Class::IN)).unwrap();
    question.finish()
}

enum Data<'a> {
    At(&'a str),
    Is(&'a str),
    Says,
}

fn answer(query: &[u8], records: &[(&str, u32, Data<'_>)]) -> Vec<u8> {
    let message = Message::from_octets(query).unwrap();
    let mut answer = MessageBuilder::new_vec().start_answer(&message, Rcode::NOERROR).unwrap();
    for (owner, ttl, data) in records {
        let owner = name(owner);
        match data {
            Data::Is(to) => answer.push((&owner, *ttl, Cname::new(name(to)))).unwrap(),
            Data::Says => {
                let text = Txt::<Vec<u8>>::build_from_slice(b"hello").unwrap();
                answer.push((&owner, *ttl, text)).unwrap();
            }
            Data::At(address) => match address.parse().unwrap() {
                IpAddr::V4(v4) => answer.push((&owner, *ttl, A::new(v4))).unwrap(),
                IpAddr::V6(v6) => answer.push((&owner, *ttl, Aaaa::new(v6))).unwrap(),
            },
        }
    }
    answer.finish()
}

fn judged(table: &Table, query: &[u8], answer: &[u8]) -> Verdict {
    let network: NetworkName = "front".parse().unwrap();
    let asker = Asker { network: &network, address: SELF.into() };
    let is_host = |address: IpAddr| address == IpAddr::from([203, 0, 113, 254]);
    judge(table, &asker, (query, answer), Transport::Udp, &is_host)
}

/// What is opened, the answer's records, and for how many seconds.
fn opens(rules: &str, asked: &str, records: &[(&str, u32, Data<'_>)]) -> (String, String, u64) {
    let query = query(asked, Rtype::A);
    match judged(&table(rules), &query, &answer(&query, records)) {
        Verdict::Answer(it) => {
            let [judged] = it.by.as_slice() else { panic!("{it:?}") };
            assert_eq!(judged.sources, [IpAddr::from(SELF), "fd71::9".parse().unwrap()]);
            let opened: Vec<_> =
                judged.opened.iter().map(|(to, on)| format!("{to}:{on}")).collect();
            let message = Message::from_octets(it.message.as_slice()).unwrap();
            let records = message.answer().unwrap().limit_to::<AllRecordData<_, _>>();
            let records: Vec<_> = records.map(|one| one.unwrap().data().to_string()).collect();
            (opened.join(" "), records.join(" "), judged.limit.as_secs())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_the_chain_of_the_asked_name_opens() {
    use Data::{At, Is};
    let rules = "a.example:443,a.example:53/udp";
    let records = [
        ("b.example", 9, Is("c.example")),
        ("evil.example", 9, At("203.0.113.66")),
        ("a.example", 300, Is("B.example")),
        ("c.example", 100, At("203.0.113.1")),
        ("c.example", 100, At("10.0.0.1")),
        ("a.example", 100, At("203.0.113.67")),
        ("c.example", 100, At("203.0.113.254")),
    ];
    let (opened, said, limit) = opens(rules, "A.example", &records);
    assert_eq!(opened, "203.0.113.1:443 203.0.113.1:53/udp");
    assert_eq!((said.as_str(), limit), ("B.example. c.example. 203.0.113.1", 30));
}

#[test]
fn addresses_that_a_rule_names_are_answered_and_not_opened() {
    use Data::At;
    let rules = "a.example:443,10.0.0.0/8:22";
    let (opened, said, _) = opens(rules, "a.example", &[("a.example", 9, At("10.0.0.1"))]);
    assert_eq!((opened.as_str(), said.as_str()), ("", "10.0.0.1"));
}

/// What NAT64 would lead to this host, or to what is private, is answered as little as that itself.
#[test]
fn addresses_behind_nat64_are_judged_as_such() {
    use Data::At;
    let asked = query("a.example", Rtype::AAAA);
    let all = ["64:ff9b::cb00:71fe", "64:ff9b::a00:1", "64:ff9b:1::1", "64:ff9b::cb00:7101"];
    let records = all.map(|it| ("a.example", 9, At(it)));
    let given = judged(&table("a.example:443"), &asked, &answer(&asked, &records));
    let Verdict::Answer(it) = given else { panic!("{given:?}") };
    assert_eq!(it.by[0].addresses, ["64:ff9b::cb00:7101".parse::<IpAddr>().unwrap()]);
    assert_eq!(it.dropped.len(), 3);
}

#[test]
fn times_are_bounded_and_many_addresses_are_cut() {
    let rules = "a.example:443,*.b.example:1-64";
    let many: Vec<String> = (0..200).map(|it| format!("203.0.113.{it}")).collect();
    let records = |owner: &'static str, ttl| -> Vec<(&str, u32, Data<'_>)> {
        many.iter().map(|it| (owner, ttl, Data::At(it.as_str()))).collect()
    };
    let (opened, said, limit) = opens(rules, "a.example", &records("a.example", u32::MAX / 2));
    let count = opened.split(' ').count();
    assert!(count > 16 && count <= 32, "{opened}");
    assert_eq!(
        (said.split(' ').count(), limit),
        (count, 3600),
        "what is not answered is not opened"
    );
    let (opened, ..) = opens(rules, "x.b.example", &records("x.b.example", 0));
    assert_eq!(opened.split(' ').count(), 8, "each has 64 ports");
    for none in [u32::MAX, 1 << 31] {
        let (.., limit) = opens(rules, "a.example", &records("a.example", none));
        assert_eq!(limit, 30, "RFC 2181: {none}");
    }
}

/// What is judged of an answer to a query without EDNS, in a datagram.
fn records_in(verdict: &Verdict) -> (u16, bool) {
    let Verdict::Answer(it) = verdict else { panic!("{verdict:?}") };
    let message = Message::from_octets(it.message.as_slice()).unwrap();
    assert!(it.message.len() <= 512);
    assert_eq!(usize::from(message.header_counts().ancount()), it.by[0].addresses.len());
    (message.header_counts().ancount(), message.header().tc())
}

/// An answer that a datagram of old holds is given, and of a longer one what that holds.
#[test]
fn what_fits_is_given_and_the_rest_comes_by_tcp() {
    let table = table("a.example:443");
    let asked = query("a.example", Rtype::A);
    let many: Vec<String> = (0..40).map(|it| format!("203.0.113.{it}")).collect();
    let records = |count| -> Vec<(&str, u32, Data<'_>)> {
        many.iter().take(count).map(|it| ("a.example", 9, Data::At(it.as_str()))).collect()
    };
    let long = answer(&asked, &records(40));
    assert!(long.len() > 512 && long.len() < 1232);
    let (count, is_cut) = records_in(&judged(&table, &asked, &long));
    assert!(count > 16 && is_cut, "{count}");
    let cut = |count| {
        let mut answer = answer(&asked, &records(count));
        answer[2] |= 2;
        answer
    };
    assert_eq!(records_in(&judged(&table, &asked, &cut(3))), (3, true), "its server said so");
    let Verdict::Refuse(message) = judged(&table, &asked, &cut(0)) else { panic!() };
    let message = Message::from_octets(message).unwrap();
    assert!(message.header().tc() && message.header_counts().ancount() == 0);
}

/// A container on two networks is answered what one of them allows, whichever it asks at, and that one opens it.
#[test]
fn the_rules_of_all_networks_of_a_container_hold() {
    use Data::At;
    let mut table = Table::default();
    let networks: [NetworkName; 3] = ["back", "front", "plain"].map(|it| it.parse().unwrap());
    let rules = [Some("b.example:443,10.0.0.0/8:22"), Some("f.example:80,*.example:53/udp"), None];
    for ((network, rules), third) in networks.iter().zip(rules).zip(1..) {
        let net: model::IpNet = format!("10.71.{third}.9/24").parse().unwrap();
        let mut record = attachment(network, &[net]);
        record.wiring.fence = rules.map(|rules| rules.parse().unwrap());
        record.wiring.names = true;
        record.sandbox = Some(model::Sandbox { path: "/run/netns/web".into(), inode: 7 });
        table.put_attachment(&record.id, record.layer, Some(&record));
    }
    let asker = |at: usize| Asker {
        network: &networks[at],
        address: format!("10.71.{}.9", at + 1).parse().unwrap(),
    };
    let is_host = |_: IpAddr| false;
    for (at, name, expected) in [
        (0, "b.example", "back 203.0.113.1:443 front 203.0.113.1:53/udp"),
        (1, "b.example", "front 203.0.113.1:53/udp back 203.0.113.1:443"),
        (0, "f.example", "front 203.0.113.1:80 front 203.0.113.1:53/udp"),
        (0, "x.example", "front 203.0.113.1:53/udp"),
    ] {
        let query = query(name, Rtype::A);
        let decided = decide(&table, &asker(at), &query, Transport::Udp);
        assert!(matches!(decided, Decision::Ask(..)), "{at} {name} {decided:?}");
        let answer = answer(&query, &[(name, 9, At("203.0.113.1")), (name, 9, At("10.0.0.1"))]);
        let verdict = judge(&table, &asker(at), (&query, &answer), Transport::Udp, &is_host);
        let Verdict::Answer(it) = verdict else { panic!("{verdict:?}") };
        let opened = it.by.iter().flat_map(|by| by.opened.iter().map(move |it| (by, it)));
        let opened = opened.map(|(by, (to, on))| format!("{} {to}:{on}", by.network));
        assert_eq!(opened.collect::<Vec<_>>().join(" "), expected);
        for by in &it.by {
            assert_eq!(by.holder.id.network, by.network);
            // The address that a rule of the other one allows is not this one's.
            assert_eq!(by.addresses.len(), if by.network == networks[0] { 2 } else { 1 });
        }
    }
    let query = query("other.test", Rtype::A);
    let of = |at| decide(&table, &asker(at), &query, Transport::Udp);
    assert!(matches!(of(0), Decision::Deny(..)) && matches!(of(1), Decision::Deny(..)));
    assert!(matches!(of(2), Decision::Forward(_)), "it has no fence");
}

#[test]
fn what_is_no_answer_opens_nothing() {
    let table = table("a.example:443");
    let asked = query("a.example", Rtype::A);
    for (query, answer) in [
        (
            query("b.example", Rtype::A),
            answer(&asked, &[("b.example", 9, Data::At("203.0.113.1"))]),
        ),
        (asked.clone(), b"".to_vec()),
        (asked.clone(), answer(&asked, &[("a.example", 9, Data::Is("a.example"))])),
    ] {
        assert!(matches!(judged(&table, &query, &answer), Verdict::Refuse(_)));
    }
    let asked = query("a.example", Rtype::TXT);
    let records = [("a.example", 9, Data::Says), ("evil.example", 9, Data::Says)];
    let Verdict::Answer(it) = judged(&table, &asked, &answer(&asked, &records)) else { panic!() };
    let message = Message::from_octets(it.message).unwrap();
    assert_eq!(message.header_counts().ancount(), 1);
    assert!(it.by[0].opened.is_empty());
}

#[test]
fn queries_are_decided_before_anybody_is_asked() {
    let mut table = table("a.example:443");
    let network: NetworkName = "front".parse().unwrap();
    let asker = Asker { network: &network, address: SELF.into() };
    let asks = |table: &Table, name: &str, kind: Rtype| match decide(
        table,
        &asker,
        &query(name, kind),
        Transport::Udp,
    ) {
        Decision::Forward(_) => "as it came",
        Decision::Ask(..) => "forward",
        Decision::Learn(..) => "learn",
        Decision::Deny(..) => "deny",
        Decision::Answer(_) => "answer",
        Decision::Refuse(_) | Decision::Drop => "refuse",
    };
    for (name, kind, expected) in [
        ("a.example", Rtype::A, "forward"),
        ("a.example", Rtype::MX, "forward"),
        ("a.example", Rtype::HTTPS, "answer"),
        ("a.example", Rtype::ANY, "answer"),
        ("a.example", Rtype::NULL, "answer"),
        ("a.example", Rtype::CAA, "answer"),
        ("b.example", Rtype::A, "deny"),
        ("b.example", Rtype::HTTPS, "deny"),
        ("x.a.example", Rtype::TXT, "deny"),
        ("web", Rtype::A, "answer"),
        ("none.front.spoke", Rtype::A, "answer"),
    ] {
        assert_eq!(asks(&table, name, kind), expected, "{name} {kind}");
    }
    let mut learning: model::Fence = "none".parse().unwrap();
    let at = |seconds| Moment { boot: "a".to_owned(), seconds };
    learning.learning = Some(at(100));
    let mut network = network_of(&learning);
    table.put_network(&"front".parse().unwrap(), true, Some(&network));
    assert_eq!(asks(&table, "b.example", Rtype::A), "deny", "what time it is is not known");
    table.set_time(Some(at(99)));
    assert_eq!(asks(&table, "b.example", Rtype::A), "learn");
    for odd in ["a/b=.b.example", "x!.b.example", "a,b.b.example", "b.example.7"] {
        assert_eq!(asks(&table, odd, Rtype::A), "deny", "{odd}: no rule could name it");
    }
    table.set_time(Some(at(100)));
    assert_eq!(asks(&table, "b.example", Rtype::A), "deny");
    network.wiring.fence = Some("b.example:1".parse().unwrap());
    table.put_network(&"front".parse().unwrap(), true, Some(&network));
    assert_eq!(asks(&table, "b.example", Rtype::A), "forward", "the network's record holds");
    assert_eq!(asks(&table, "a.example", Rtype::A), "deny");
}

#[test]
fn what_goes_out_is_a_function_of_name_and_kind() {
    let table = table("a.example:443");
    let network: NetworkName = "front".parse().unwrap();
    let asker = Asker { network: &network, address: SELF.into() };
    let asks = |message: &[u8], by| match decide(&table, &asker, message, by) {
        Decision::Ask(asked, _) => asked,
        other => panic!("{other:?}"),
    };
    let plain = asks(&query("a.example", Rtype::TXT), Transport::Udp);
    let mut laden = MessageBuilder::new_vec();
    let header = laden.header_mut();
    header.set_id(4711);
    header.set_ad(true);
    header.set_cd(true);
    header.set_z(true);
    header.set_tc(true);
    let mut laden = laden.question();
    laden.push((name("A.eXample"), Rtype::TXT, Class::IN)).unwrap();
    let mut laden = laden.additional();
    laden
        .opt(|opt| {
            opt.set_dnssec_ok(true);
            opt.set_udp_payload_size(4321);
            opt.push_raw_option(65001.into(), 6, |to| OctetsBuilder::append_slice(to, b"secret"))
        })
        .unwrap();
    laden.push((name("secret.a.example"), 9, A::new(SELF.into()))).unwrap();
    let laden = laden.finish();
    for by in [Transport::Udp, Transport::Tcp] {
        assert_eq!(asks(&laden, by), plain);
    }
    let said = Message::from_octets(&plain).unwrap();
    assert_eq!(said.header_counts().arcount(), 1);
    assert!(said.header().rd() && said.opt().unwrap().udp_payload_size() == 1232);
}

fn network_of(fence: &model::Fence) -> model::Network {
    let made = table("none");
    let (_, entry) = made.entries()[0];
    let subnet: model::IpNet = format!("{}/24", entry.addresses[0]).parse().unwrap();
    let name: NetworkName = "front".parse().unwrap();
    let wiring = model::Wiring {
        link: Some(fixture::bridge()),
        fence: Some(fence.clone()),
        ..model::Wiring::default()
    };
    let ipam = fixture::pools(&name, &[subnet]);
    model::Network::new(name, Runtime::Spoke, Timestamp(0), wiring, ipam)
}

/// Which servers are asked decides what the fence opens: a pod's author, or who runs a container, does not.
#[test]
fn a_fence_believes_its_networks_servers_and_no_containers() {
    let (front, back) = ("front".parse().unwrap(), "back".parse().unwrap());
    let sandbox = || Some(model::Sandbox { path: "/run/netns/web".into(), inode: 7 });
    let on = |network: &NetworkName, net: &str, by: Runtime| {
        let mut record = attachment(network, &[net.parse().unwrap()]);
        (record.sandbox, record.runtime, record.wiring.names) = (sandbox(), by, true);
        record.dns.nameservers = vec!["203.0.113.66".into()];
        record
    };
    let asker = Asker { network: &front, address: "10.71.1.9".parse().unwrap() };
    let asked = |by: Runtime, (is_fenced, is_own): (bool, bool), is_recorded: bool| {
        let mut own = on(&front, "10.71.1.9/24", by);
        let fence = || Some("a.example:443".parse().unwrap());
        own.wiring.fence = fence().filter(|_| is_fenced);
        own.wiring.own_fence = fence().filter(|_| is_own);
        let mut table = Table::default();
        for record in [&own, &on(&back, "10.72.1.9/24", by)] {
            table.put_attachment(&record.id, record.layer, Some(record));
        }
        if is_recorded {
            let (wiring, ipam) = (own.wiring.clone(), own.ipam.clone());
            let mut network = model::Network::new(front.clone(), by, Timestamp(0), wiring, ipam);
            network.dns.nameservers = vec!["192.0.2.1".into()];
            table.put_network(&front, false, Some(&network));
        }
        let servers = table.servers_of(&asker).unwrap();
        servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    for by in [Runtime::Cni, Runtime::Docker, Runtime::Podman] {
        for fences in [(true, false), (false, true), (true, true)] {
            assert_eq!(asked(by, fences, true), "192.0.2.1", "{by} {fences:?}");
            // This host's.
            assert_eq!(asked(by, fences, false), "", "{by} {fences:?}");
        }
        assert_eq!(asked(by, (false, false), true), "203.0.113.66");
    }
    assert_eq!(asked(Runtime::Spoke, (true, false), true), "203.0.113.66", "the operator's");
}
