use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::AllRecordData;
use model::{
    Attached, Attachment, AttachmentId, EgressPolicy, Firewall, InterfaceAddress, Layer,
    NetworkName, Phase, Runtime, Sandbox, Timestamp,
};
use proptest::prelude::*;

use super::*;
use crate::fixture;

mod titles;

struct RecordBuilder {
    record: Attachment,
}

impl RecordBuilder {
    fn on(network: &str, container: &str, address: &str) -> Self {
        let network: NetworkName = network.parse().unwrap();
        let id = AttachmentId {
            network: network.clone(),
            container: container.parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let (since, runtime) = (Timestamp(0), Runtime::Podman);
        let mut record = Attachment::new(id, Layer::Link, runtime, since, Phase::Reserved);
        record.wiring.link = Some(fixture::bridge());
        record.wiring.names = true;
        let net: model::IpNet = address.parse().unwrap();
        record.ipam = fixture::pools(&network, &[net]);
        record.sandbox = Some(Sandbox { path: format!("/run/netns/{container}").into(), inode: 7 });
        let held = InterfaceAddress { address: net, gateway: None, interface: None };
        record.addresses = vec![held];
        record.phase = Phase::Attached(Attached::default());
        Self { record }
    }

    fn named(mut self, names: &[&str]) -> Self {
        self.record.names = names.iter().map(|name| name.parse().unwrap()).collect();
        self
    }

    fn changed(mut self, change: impl Fn(&mut Attachment)) -> Self {
        change(&mut self.record);
        self
    }
}

fn table(all: &[RecordBuilder]) -> Table {
    let mut table = Table::default();
    for made in all {
        table.put_attachment(&made.record.id, Layer::Link, Some(&made.record));
    }
    table
}

fn query(name: &str, kind: Rtype) -> Vec<u8> {
    let mut question = MessageBuilder::new_vec().question();
    let name: Name<Vec<u8>> = name.parse().unwrap();
    question.push((name, kind, Class::IN)).unwrap();
    question.finish()
}

/// What is answered: addresses, names, or why there are none.
fn asks(table: &Table, (network, address): (&str, &str), name: &str, kind: Rtype) -> String {
    let network = network.parse().unwrap();
    let asker = Asker { network: &network, address: address.parse().unwrap() };
    let decision = decide(table, &asker, &query(name, kind), Transport::Udp);
    let message = match decision {
        Decision::Forward(servers) => return format!("forward {servers:?}"),
        Decision::Ask(..) => return "fence asks".to_owned(),
        Decision::Deny(_, name) => return format!("fence {name}"),
        Decision::Learn(_, _, refusal) => return format!("fence {}", refusal.name),
        Decision::Drop => return "drop".into(),
        Decision::Answer(message) | Decision::Refuse(message) => message,
    };
    said(&message)
}

fn said(message: &[u8]) -> String {
    let message = Message::from_octets(message).unwrap();
    let answer = message.answer().unwrap().limit_to::<AllRecordData<_, _>>();
    let mut all: Vec<String> = answer.map(|one| one.unwrap().data().to_string()).collect();
    all.sort();
    match message.header().rcode() {
        Rcode::NOERROR => all.join(" "),
        other => other.to_string(),
    }
}

fn two_networks() -> Table {
    table(&[
        RecordBuilder::on("front", "web", "10.1.0.2/24").named(&["www", "all"]),
        RecordBuilder::on("front", "api", "10.1.0.3/24").named(&["all", "v1.api"]),
        RecordBuilder::on("back", "api", "10.2.0.3/24"),
        RecordBuilder::on("back", "db", "10.2.0.4/24"),
    ])
}

#[test]
fn only_names_of_the_askers_networks_are_answered() {
    let table = two_networks();
    let (web, api, db) = (("front", "10.1.0.2"), ("front", "10.1.0.3"), ("back", "10.2.0.4"));
    for (asker, name, expected) in [
        (web, "api", "10.1.0.3"),
        (web, "API", "10.1.0.3"),
        (web, "v1.api", "10.1.0.3"),
        (web, "all", "10.1.0.2 10.1.0.3"),
        (web, "api.front.spoke", "10.1.0.3"),
        (web, "Www.Front.Spoke", "10.1.0.2"),
        (web, "db", "forward []"),
        (web, "db.back.spoke", "NXDOMAIN"),
        (web, "no.front.spoke", "NXDOMAIN"),
        (web, "front.spoke", ""),
        (web, "spoke", ""),
        (web, "example.com", "forward []"),
        (web, "xspoke", "forward []"),
        (api, "db", "10.2.0.4"),
        (api, "api", "10.1.0.3 10.2.0.3"),
        (api, "api.back.spoke", "10.2.0.3"),
        (db, "web", "forward []"),
        (db, "web.front.spoke", "NXDOMAIN"),
        // No container of the network has this address.
        (("front", "10.1.0.99"), "web", "drop"),
        (("front", "10.2.0.4"), "db", "drop"),
    ] {
        assert_eq!(asks(&table, asker, name, Rtype::A), expected, "{asker:?} {name}");
    }
}

#[test]
fn other_records_of_known_names_are_none() {
    let table = two_networks();
    for kind in [Rtype::AAAA, Rtype::MX, Rtype::HTTPS, Rtype::TXT] {
        assert_eq!(asks(&table, ("front", "10.1.0.2"), "api", kind), "", "{kind}");
    }
    assert_eq!(asks(&table, ("front", "10.1.0.2"), "api", Rtype::ANY), "10.1.0.3");
    assert_eq!(asks(&table, ("front", "10.1.0.2"), "api", Rtype::AXFR), "REFUSED");
}

#[test]
fn addresses_have_names() {
    let table = two_networks();
    let asks = |name| asks(&table, ("front", "10.1.0.2"), name, Rtype::PTR);
    assert_eq!(asks("3.0.1.10.in-addr.arpa"), "api.front.spoke.");
    assert_eq!(asks("4.0.2.10.in-addr.arpa"), "forward []");
    // Nobody outside knows the subnet: no other address of it is asked for there.
    assert_eq!(asks("99.0.1.10.in-addr.arpa"), "NXDOMAIN");
    assert_eq!(asks("1.0.1.10.in-addr.arpa"), "NXDOMAIN", "the gateway");
    assert_eq!(asks("0.3.0.1.10.in-addr.arpa"), "NXDOMAIN");
    assert_eq!(asks("0.1.10.in-addr.arpa"), "", "it is there, and names are below it");
    assert_eq!(asks("1.10.in-addr.arpa"), "forward []");
    assert_eq!(asks("10.1.10.in-addr.arpa"), "forward []");
    let nibbles = format!("1.{}d.f.ip6.arpa", "0.".repeat(29));
    assert_eq!(reversed(&nibbles), Some("fd00::1".parse().unwrap()));
}

/// Of a public subnet others may know who has an address.
#[test]
fn addresses_of_private_subnets_are_not_asked_for_elsewhere() {
    let table = table(&[
        RecordBuilder::on("wide", "web", "172.16.8.2/20"),
        RecordBuilder::on("six", "web", "fd00:1::2/60"),
        RecordBuilder::on("known", "web", "203.0.113.2/24"),
    ]);
    let below = |rest: &str| format!("{rest}0.0.0.0.0.0.0.0.1.0.0.0.0.0.d.f.ip6.arpa");
    let host = format!("9.{}", "0.".repeat(15));
    for (asker, name, expected) in [
        (("wide", "172.16.8.2"), "9.15.16.172.in-addr.arpa".to_owned(), "NXDOMAIN"),
        (("wide", "172.16.8.2"), "9.16.16.172.in-addr.arpa".to_owned(), "forward []"),
        (("wide", "172.16.8.2"), "15.16.172.in-addr.arpa".to_owned(), "forward []"),
        (("six", "fd00:1::2"), below(&host), "NXDOMAIN"),
        (("six", "fd00:1::2"), below("0."), ""),
        (("known", "203.0.113.2"), "9.113.0.203.in-addr.arpa".to_owned(), "forward []"),
    ] {
        assert_eq!(asks(&table, asker, &name, Rtype::PTR), expected, "{asker:?} {name}");
    }
}

#[test]
fn what_is_gone_is_not_answered() {
    let mut table = two_networks();
    let gone = RecordBuilder::on("front", "api", "10.1.0.3/24").record.id;
    table.put_attachment(&gone, Layer::Link, None);
    assert_eq!(asks(&table, ("front", "10.1.0.2"), "api", Rtype::A), "forward []");
    assert_eq!(asks(&table, ("front", "10.1.0.2"), "all", Rtype::A), "10.1.0.2");
    // What is being made or undone is not there either.
    let web =
        RecordBuilder::on("front", "web", "10.1.0.2/24").changed(|it| it.phase = Phase::Reserved);
    table.put_attachment(&web.record.id, Layer::Link, Some(&web.record));
    let asker = RecordBuilder::on("front", "asker", "10.1.0.9/24").record;
    table.put_attachment(&asker.id, Layer::Link, Some(&asker));
    assert_eq!(asks(&table, ("front", "10.1.0.9"), "web", Rtype::A), "forward []");
}

fn internal(record: &mut Attachment) {
    record.wiring.firewall = Some(Firewall {
        egress: EgressPolicy::Internal,
        ..Firewall::open(model::Backend::Nftables)
    });
}

#[test]
fn internal_networks_ask_no_server() {
    let table = table(&[
        RecordBuilder::on("vault", "safe", "10.3.0.2/24").changed(internal),
        RecordBuilder::on("vault", "both", "10.3.0.3/24").changed(internal),
        RecordBuilder::on("front", "both", "10.1.0.3/24").changed(|it| {
            it.dns.nameservers = vec!["192.0.2.1".into(), "10.1.0.1".into()];
        }),
    ]);
    assert_eq!(asks(&table, ("vault", "10.3.0.2"), "both", Rtype::A), "10.3.0.3");
    assert_eq!(asks(&table, ("vault", "10.3.0.2"), "a.secret.example", Rtype::A), "REFUSED");
    // A container that leaves by another network may ask; no query is sent back to where it came from.
    let expected = "forward [192.0.2.1]";
    assert_eq!(asks(&table, ("vault", "10.3.0.3"), "example.com", Rtype::A), expected);
}

#[test]
fn dockers_containers_have_the_names_that_it_lists() {
    let docker = |owner: Option<&str>| {
        RecordBuilder::on("front", "abcdef", "10.1.0.2/24").changed(|it| {
            it.runtime = Runtime::Docker;
            it.owner = owner.map(|name| name.parse().unwrap());
        })
    };
    let asker = ("front", "10.1.0.2");
    let of = |made, name| asks(&table(&[made]), asker, name, Rtype::A);
    assert_eq!(of(docker(None), "abcdef"), "forward []");
    assert_eq!(of(docker(None), "."), "forward []");
    assert_eq!(of(docker(Some("Web")), "web"), "10.1.0.2");
}

#[test]
fn a_pod_is_called_without_its_namespace() {
    let pod = RecordBuilder::on("front", &"ab".repeat(32), "10.1.0.2/24").changed(|it| {
        it.owner = Some("podman/web".parse().unwrap());
    });
    let table = table(&[pod]);
    for name in ["web", "web.front.spoke", "abababababab"] {
        assert_eq!(asks(&table, ("front", "10.1.0.2"), name, Rtype::A), "10.1.0.2", "{name}");
    }
}

#[test]
fn what_does_not_fit_comes_by_tcp() {
    let many: Vec<RecordBuilder> = (1..=200u8)
        .map(|it| {
            RecordBuilder::on("front", &format!("c{it}"), &format!("10.1.0.{it}/24"))
                .named(&["all"])
        })
        .collect();
    let table = table(&many);
    let network = "front".parse().unwrap();
    let asker = Asker { network: &network, address: "10.1.0.2".parse().unwrap() };
    let message = query("all", Rtype::A);
    for (by, is_whole) in [(Transport::Udp, false), (Transport::Tcp, true)] {
        let Decision::Answer(answer) = decide(&table, &asker, &message, by) else { panic!() };
        assert!(is_whole || answer.len() <= 512, "{}", answer.len());
        let answer = Message::from_octets(answer).unwrap();
        assert_eq!(answer.header().tc(), !is_whole);
        // 12 and 21 bytes of the header and the question, 16 for each address.
        assert_eq!(usize::from(answer.header_counts().ancount()), if is_whole { 200 } else { 30 });
    }
}

#[test]
fn what_is_no_query_is_not_answered() {
    let table = two_networks();
    let network = "front".parse().unwrap();
    let asker = Asker { network: &network, address: "10.1.0.2".parse().unwrap() };
    let decide = |message: &[u8]| super::decide(&table, &asker, message, Transport::Udp);
    let rcode = |decision| match decision {
        Decision::Refuse(message) => Message::from_octets(message).unwrap().header().rcode(),
        other => panic!("{other:?}"),
    };
    assert_eq!(decide(&[]), Decision::Drop);
    assert_eq!(decide(&[0; 11]), Decision::Drop);
    let mut message = query("api", Rtype::A);
    message[2] |= 0x80;
    assert_eq!(decide(&message), Decision::Drop, "an answer");
    message[2] = 0x28;
    assert_eq!(rcode(decide(&message)), Rcode::NOTIMP, "an update");
    let mut two = query("api", Rtype::A);
    two[5] = 2;
    assert_eq!(rcode(decide(&two)), Rcode::FORMERR);
    let mut cut = query("api", Rtype::A);
    cut.truncate(15);
    assert_eq!(rcode(decide(&cut)), Rcode::FORMERR);
    let mut extended = query("api", Rtype::A);
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
    extended[11] = 1;
    extended.extend(opt);
    assert!(matches!(decide(&extended), Decision::Answer(_)));
    extended[11] = 2;
    extended.extend(opt);
    assert_eq!(rcode(decide(&extended)), Rcode::FORMERR, "two records for options");
    let mut chaos = query("api", Rtype::A);
    *chaos.last_mut().unwrap() = 3;
    assert_eq!(rcode(decide(&chaos)), Rcode::REFUSED);
}

proptest! {
    #[test]
    fn any_message_has_an_end(mut message in prop::collection::vec(any::<u8>(), 0..600), real: bool) {
        let table = two_networks();
        let network = "front".parse().unwrap();
        let asker = Asker { network: &network, address: "10.1.0.2".parse().unwrap() };
        if real {
            message.splice(..message.len().min(12), query("api", Rtype::A));
        }
        for by in [Transport::Udp, Transport::Tcp] {
            if let Decision::Answer(answer) = decide(&table, &asker, &message, by) {
                prop_assert_eq!(&answer[..2], &message[..2]);
                prop_assert!(answer[2] & 0x80 != 0);
            }
        }
    }
}

fn elsewhere(network: &str, host: &str, name: &str, addresses: &[&str]) -> model::NamedElsewhere {
    let last: u8 = addresses[0].rsplit(['.', ':']).next().unwrap().parse().unwrap();
    model::NamedElsewhere {
        network: network.parse().unwrap(),
        host: host.parse().unwrap(),
        mac: format!("02:00:00:00:00:{last:02x}").parse().unwrap(),
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        names: vec![name.parse().unwrap(), "db".parse().unwrap()],
        runtime: None,
    }
}

#[test]
fn containers_of_other_hosts_are_found_as_ones_own() {
    let api = RecordBuilder::on("front", "api", "10.1.0.2/16").named(&["db"]);
    let mut table = table(&[api]);
    let front = ("front", "10.1.0.2");
    let web = elsewhere("front", "b", "web", &["10.1.1.2", "fd00::2"]);
    let other = elsewhere("front", "c", "other", &["10.1.2.3"]);
    table.put_elsewhere(&[
        web.clone(),
        other.clone(),
        elsewhere("back", "b", "far", &["10.2.0.9"]),
    ]);
    assert_eq!(asks(&table, front, "web", Rtype::A), "10.1.1.2");
    assert_eq!(asks(&table, front, "WEB.front.spoke", Rtype::AAAA), "fd00::2");
    assert_eq!(asks(&table, front, "2.1.1.10.in-addr.arpa", Rtype::PTR), "web.front.spoke.");
    assert_eq!(asks(&table, front, "far", Rtype::A), "forward []");
    assert_eq!(asks(&table, front, "far.back.spoke", Rtype::A), "NXDOMAIN");
    let mut all: Vec<_> =
        asks(&table, front, "db", Rtype::A).split(' ').map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["10.1.0.2", "10.1.1.2", "10.1.2.3"]);
    // They ask at their own hosts.
    let network = "front".parse().unwrap();
    let asker = Asker { network: &network, address: "10.1.1.2".parse().unwrap() };
    let message = query("api", Rtype::A);
    assert_eq!(decide(&table, &asker, &message, Transport::Udp), Decision::Drop);
    // What is sent later replaces all of it, an address that has gone to another one too.
    let moved = elsewhere("front", "c", "moved", &["10.1.1.2"]);
    table.put_elsewhere(&[moved, other]);
    assert_eq!(asks(&table, front, "web.front.spoke", Rtype::A), "NXDOMAIN");
    assert_eq!(asks(&table, front, "2.1.1.10.in-addr.arpa", Rtype::PTR), "moved.front.spoke.");
    table.put_elsewhere(&[]);
    assert_eq!(asks(&table, front, "db", Rtype::A), "10.1.0.2");
    assert_eq!(asks(&table, front, "other.front.spoke", Rtype::A), "NXDOMAIN");
}

#[test]
fn this_host_is_answered_about_every_network_and_nothing_else() {
    let web = RecordBuilder::on("front", "web", "10.1.0.2/16");
    let api = RecordBuilder::on("back", "api", "10.2.0.2/16");
    let mut table = table(&[web, api]);
    table.put_elsewhere(&[elsewhere("front", "b", "far", &["10.1.1.3"])]);
    let asks = |name: &str, kind| {
        let decision = decide_for_host(&table, &query(name, kind), Transport::Udp);
        match decision {
            Decision::Answer(message) | Decision::Refuse(message) => said(&message),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(asks("web.front.spoke", Rtype::A), "10.1.0.2");
    assert_eq!(asks("API.back.spoke", Rtype::A), "10.2.0.2");
    assert_eq!(asks("far.front.spoke", Rtype::A), "10.1.1.3");
    assert_eq!(asks("2.0.2.10.in-addr.arpa", Rtype::PTR), "api.back.spoke.");
    assert_eq!(asks("api.front.spoke", Rtype::A), "NXDOMAIN");
    assert_eq!(asks("9.0.1.10.in-addr.arpa", Rtype::PTR), "NXDOMAIN");
    for elsewhere in ["web", "example.org", "9.0.3.10.in-addr.arpa"] {
        assert_eq!(asks(elsewhere, Rtype::A), "REFUSED", "{elsewhere}");
    }
    assert_eq!(decide_for_host(&table, b"no query", Transport::Udp), Decision::Drop);
}

#[test]
fn addresses_of_other_networks_have_no_names_where_the_host_is_answered() {
    let all = [
        RecordBuilder::on("front", "web", "10.1.0.2/24"),
        RecordBuilder::on("front", "api", "10.1.0.3/24"),
        RecordBuilder::on("back", "api", "10.2.0.3/24"),
        RecordBuilder::on("back", "db", "10.2.0.4/24"),
        RecordBuilder::on("shut", "in", "10.3.0.2/24").changed(internal),
    ];
    let mut table = table(&all);
    let (web, api, inner) = (("front", "10.1.0.2"), ("front", "10.1.0.3"), ("shut", "10.3.0.2"));
    let (db, unused) = ("4.0.2.10.in-addr.arpa", "9.0.1.10.in-addr.arpa");
    assert_eq!(asks(&table, web, db, Rtype::PTR), "forward []", "no server here answers that");
    table.set_host(true);
    for (asker, name, expected) in [
        (web, db, "NXDOMAIN"),
        (inner, db, "NXDOMAIN"),
        // It is on that network, too.
        (api, db, "db.back.spoke."),
        (web, "2.0.1.10.in-addr.arpa", "web.front.spoke."),
        (web, unused, "NXDOMAIN"),
        (web, "8.8.8.8.in-addr.arpa", "forward []"),
        (inner, "8.8.8.8.in-addr.arpa", "REFUSED"),
    ] {
        assert_eq!(asks(&table, asker, name, Rtype::PTR), expected, "{asker:?} {name}");
    }
}
