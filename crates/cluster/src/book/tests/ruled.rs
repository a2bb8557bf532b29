//! Networks with rules: versions that know none do not find who has claimed their VNIs.

use model::{IngressPolicy, Mtu, Placement, SharedRules, Transport};

use super::super::{Declared, Subnets, declare, refuse_unclaimed, refuse_unknown, remove_network};
use super::*;

fn wanted(name: &str, transport: Transport, rules: SharedRules) -> Declared {
    Declared {
        name: name.parse().unwrap(),
        subnets: Subnets::V4(None),
        block: None,
        mtu: Mtu::new(1450).unwrap(),
        hosts: Placement::All,
        encrypted: false,
        transport,
        engines: BTreeSet::new(),
        names: false,
        sticky: false,
        rules,
        since: Timestamp(1),
    }
}

fn isolated() -> SharedRules {
    SharedRules { ingress: IngressPolicy::SameBridge, ..SharedRules::OPEN }
}

#[test]
fn the_vni_of_a_network_with_rules_is_claimed_apart() {
    let records = Records::default();
    for (name, transport) in [("front", Transport::Vxlan), ("back", Transport::Route)] {
        let network = declare(&records, &wanted(name, transport, isolated())).unwrap();
        let view = records.read().unwrap();
        assert_eq!((view.vnis.len(), view.encrypted_vnis.len()), (0, 0), "{name}");
        assert!(refuse_unclaimed(&view, &name.parse().unwrap(), &network).is_ok());
        let bare = model::SharedNetwork { rules: SharedRules::OPEN, ..network };
        assert!(refuse_unclaimed(&view, &name.parse().unwrap(), &bare).is_err());
    }
    let open = declare(&records, &wanted("open", Transport::Vxlan, SharedRules::OPEN)).unwrap();
    let view = records.read().unwrap();
    assert_eq!((view.ruled_vnis.len(), view.vnis.len()), (2, 1));
    assert!(!view.ruled_vnis.contains_key(&open.vni));
    remove_network(&records, &front()).unwrap();
    assert_eq!(records.read().unwrap().ruled_vnis.len(), 1);
}

#[test]
fn rules_of_later_versions_are_refused() {
    let unknown = SharedRules { is_unknown: true, ..SharedRules::OPEN };
    let internal = SharedRules { internal: true, ..SharedRules::OPEN };
    let network =
        declare(&Records::default(), &wanted("front", Transport::Vxlan, SharedRules::OPEN))
            .unwrap();
    let unknown = model::SharedNetwork { rules: unknown, ..network.clone() };
    let routed = model::SharedNetwork { rules: internal, transport: Transport::Route, ..network };
    for network in [unknown, routed] {
        let error = refuse_unknown(&front(), &network).unwrap_err().to_string();
        assert!(error.contains("it has rules that this Spoke does not know"), "{error}");
    }
}

/// What the record of a network has, and how it is written again.
fn read(more: &str) -> (SharedRules, String) {
    let text = format!(
        r#"{{"vni":7,"subnet":"10.8.0.0/16","block":24,"mtu":1450,"hosts":"all"{more},"since":1}}"#
    );
    let read = record(&Key::Network(front()), text.as_bytes()).unwrap();
    let again = value(&read).unwrap();
    let Record::Network(network) = read else { panic!("{text}") };
    assert!(network.rules.are_unknown() || again == text, "{again}");
    (network.rules, again)
}

#[test]
fn a_record_without_rules_is_as_before() {
    let (rules, again) = read("");
    assert!(rules.is_open() && !again.contains("rules"), "{again}");
}

#[test]
fn rules_are_read_again() {
    for text in [
        r#","rules":{"ingress":"same-bridge"}"#,
        r#","rules":{"internal":true}"#,
        r#","rules":{"egress":{"rules":["github.com:443"],"strict":true}}"#,
    ] {
        let (rules, _) = read(text);
        assert!(!rules.is_open() && !rules.are_unknown() && rules.check().is_ok(), "{text}");
    }
}

#[test]
fn a_rule_of_a_later_version_is_unknown() {
    for text in [
        r#","rules":{"ingress":"same-bridge","quic":7}"#,
        r#","rules":{"ingress":"nobody"}"#,
        r#","rules":{"egress":{"rules":["a b"]}}"#,
        r#","rules":{"egress":{"rules":["*:443"],"deny":["10.0.0.0/8:443"]}}"#,
        r#","rules":7"#,
        r#","rules":{"ingress":"isolated"}"#,
    ] {
        assert!(read(text).0.are_unknown(), "{text}");
    }
}
