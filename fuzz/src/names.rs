//! What any container sends to port 53, on a host with two networks.

use std::net::IpAddr;
use std::sync::OnceLock;

use model::{
    Attached, Attachment, AttachmentId, Bridge, BridgePort, Gateway, IfName, InterfaceAddress,
    Ipam, Layer, Link, LinkKind, NetworkName, Order, Phase, Pool, PoolId, Range, Runtime, Space,
    Timestamp,
};
use names::{Asker, Decision, Table, Transport, Verdict, decide, judge};

/// The address of whom the asker must not find.
const OTHERS: [u8; 4] = [10, 71, 2, 4];

fn record(network: &str, name: &str, address: &str) -> Attachment {
    let network: NetworkName = network.parse().expect("a name");
    let bridge: IfName = "br0".parse().expect("a name");
    let id = AttachmentId {
        network: network.clone(),
        container: name.parse().expect("a name"),
        ifname: "eth0".parse().expect("a name"),
    };
    let phase = Phase::Attached(Attached::default());
    let mut record = Attachment::new(id, Layer::Link, Runtime::Cni, Timestamp(0), phase);
    let kind = LinkKind::Bridge(Bridge {
        name: bridge,
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: BridgePort::default(),
    });
    record.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
    record.wiring.names = true;
    let address: model::IpNet = address.parse().expect("an address");
    let ranges = vec![Range::of_hosts(address.trunc(), None, None).expect("a range")];
    let id = PoolId { network, index: 0 };
    let pools = vec![Pool { id, space: Space::Host, ranges, order: Order::NextAfterLast }];
    record.ipam = Ipam::Book { pools };
    record.addresses = vec![InterfaceAddress { address, gateway: None, interface: None }];
    record.names = vec!["all".parse().expect("a name")];
    record
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table::default();
        for (network, name, address) in [
            ("front", "web", "10.71.1.9/24"),
            ("front", "api", "fd71::9/64"),
            ("back", "db", "10.71.2.4/24"),
        ] {
            let record = record(network, name, address);
            table.put_attachment(&record.id, record.layer, Some(&record));
        }
        table
    })
}

/// A query in a datagram, and the same on a connection.
pub fn names(bytes: &[u8]) {
    let network: NetworkName = "front".parse().expect("a name");
    let asker = Asker { network: &network, address: IpAddr::from([10, 71, 1, 9]) };
    for by in [Transport::Udp, Transport::Tcp] {
        match decide(table(), &asker, bytes, by) {
            Decision::Answer(answer) | Decision::Refuse(answer) => {
                assert!(answer.len() >= 12 && answer[..2] == bytes[..2], "its own number");
                assert!(by == Transport::Tcp || answer.len() <= 1232, "a datagram's length");
                let data = [&[0, 4][..], &OTHERS].concat();
                let has_others = answer.windows(data.len()).any(|part| part == data);
                assert!(!has_others || bytes.windows(4).any(|part| part == OTHERS), "{answer:?}");
                // Who answers answers starts a loop.
                assert_eq!(decide(table(), &asker, &answer, by), Decision::Drop);
            }
            Decision::Ask(..) | Decision::Deny(..) | Decision::Learn(..) => {
                panic!("it has no fence")
            }
            Decision::Forward(_) | Decision::Drop => {}
        }
    }
}

/// What any server answers to a container on a network with a fence: the answer to its query for
/// `a.example`, with whatever records.
pub fn fence(bytes: &[u8]) {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut record = record("front", "web", "10.71.1.9/24");
        let rules = "a.example:443,*.b.example:1-64,10.9.0.0/16:22";
        record.wiring.fence = Some(rules.parse().expect("rules"));
        let mut table = Table::default();
        table.put_attachment(&record.id, record.layer, Some(&record));
        table
    });
    let network: NetworkName = "front".parse().expect("a name");
    let asker = Asker { network: &network, address: IpAddr::from([10, 71, 1, 9]) };
    let question = b"\x01a\x07example\0\0\x01\0\x01";
    let query = [&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &question[..]].concat();
    let (counts, records) = bytes.split_at(bytes.len().min(6));
    let mut head = vec![7, 7, 0x81, 0x80, 0, 1];
    head.extend(counts.iter().chain(&[0; 6]).take(6));
    let answer = [&head, &question[..], records].concat();
    let is_host = |address: IpAddr| address == IpAddr::from([203, 0, 113, 254]);
    for answer in [answer.as_slice(), bytes] {
        match judge(table, &asker, (&query, answer), Transport::Udp, &is_host) {
            Verdict::AsItIs => panic!("it has a fence"),
            Verdict::Refuse(message) => assert!(message.len() >= 12 && message[..2] == [7, 7]),
            Verdict::Answer(judgement) => {
                assert!(judgement.message.len() <= 1232 && judgement.message[..2] == [7, 7]);
                let [judged] = judgement.by.as_slice() else { panic!("it is on one network") };
                for (address, service) in &judged.opened {
                    assert!(model::is_public(*address) && !is_host(*address), "{address}");
                    assert!(judged.addresses.contains(address) && service.first == 443);
                }
                assert!(judged.limit.as_secs() >= 30 && judged.limit.as_secs() <= 3600);
            }
        }
    }
}
