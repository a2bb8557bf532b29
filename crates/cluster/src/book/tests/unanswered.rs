//! A transaction that was carried out, and whose answer was lost.

use model::{AddressPin, Kind, Mtu, Placement, SharedNetwork, Transport};

use super::*;
use crate::book::{Declared, Subnets, declare, has_remains, keep_block, remove_network, unpin};

/// The next transaction is carried out, and not answered.
fn losing(records: Records) -> Records {
    records.unanswered.set(1);
    records
}

fn address() -> IpAddr {
    [10, 8, 9, 9].into()
}

fn pin_of(host: &str) -> AddressPin {
    serde_json::from_str(&format!(r#"{{"host":"{host}","by":"db","state":"granted"}}"#)).unwrap()
}

fn wanted() -> Declared {
    Declared {
        name: "back".parse().unwrap(),
        subnets: Subnets::V4(None),
        block: None,
        mtu: Mtu::new(1450).unwrap(),
        hosts: Placement::All,
        encrypted: false,
        transport: Transport::Vxlan,
        engines: BTreeSet::new(),
        names: false,
        sticky: false,
        rules: model::SharedRules::OPEN,
        since: Timestamp(7),
    }
}

#[test]
fn a_network_that_was_declared_is_no_other_one() {
    let records = losing(cluster());
    let network = declare(&records, &wanted()).unwrap();
    let there = |records: &Records| records.read().unwrap().networks.remove(&wanted().name);
    assert_eq!(there(&records), Some(network));
    assert_eq!(declare(&records, &wanted()).unwrap_err().kind(), Kind::Conflict);
    // Its removal is no removal of nothing.
    let records = losing(records);
    remove_network(&records, &wanted().name).unwrap();
    assert_eq!(there(&records), None);
    assert_eq!(remove_network(&records, &wanted().name).unwrap_err().kind(), Kind::NotFound);
    // Another host has declared one of that name meanwhile.
    let other = SharedNetwork { since: Timestamp(8), ..declare(&cluster(), &wanted()).unwrap() };
    let records = losing(cluster());
    let theirs = put(Key::Network(wanted().name), Record::Network(Box::new(other.clone())));
    *records.before.borrow_mut() = vec![theirs];
    assert_eq!(declare(&records, &wanted()).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(there(&records), Some(other));
}

/// While no server answers, nothing is said to be done.
#[test]
fn a_transaction_is_tried_once_more_only() {
    let records = cluster();
    records.unanswered.set(2);
    // Others are faster than the first one, without its knowledge.
    *records.before.borrow_mut() = vec![put(Key::Turn, Record::Mark)];
    assert_eq!(declare(&records, &wanted()).unwrap_err().kind(), Kind::TryAgain);
    assert_eq!(records.unanswered.get(), 0);
}

#[test]
fn a_host_that_was_taken_out_leaves_nothing() {
    let records = losing(cluster());
    remove_host(&records, &host("b"), &host("a"), false).unwrap();
    let view = records.read().unwrap();
    assert!(view.blocks.is_empty() && !view.hosts.contains_key(&host("b")), "{view:?}");
    // It is a member no more, and the command ended before it came to its blocks and addresses.
    for gone in [Key::Block(front(), block()), Key::Pin(front(), address())] {
        let records = cluster();
        records.write(&put(Key::Pin(front(), address()), Record::Pin(pin_of("b"))));
        records.write(&Txn::default().delete(Key::Host(host("b"))).delete(gone));
        assert!(has_remains(&records.read().unwrap(), &host("b")));
        remove_host(&records, &host("b"), &host("a"), false).unwrap();
        let view = records.read().unwrap();
        assert!(view.blocks.is_empty() && view.pins.is_empty(), "{view:?}");
        let again = remove_host(&records, &host("b"), &host("a"), false).unwrap_err();
        assert_eq!(again.kind(), Kind::NotFound);
    }
}

#[test]
fn a_host_that_became_a_member_is_one() {
    let it = ClusterHost::new([192, 0, 2, 7].into(), Timestamp(1));
    let records = cluster();
    records.write(&put(Key::Layout, Record::Layout(crate::layout_version::LATEST)));
    form(&losing(records), &host("d"), &it).unwrap();
    let records = cluster();
    let token = crate::JoinToken::new(vec!["http://192.0.2.9:2379".parse().unwrap()]).unwrap();
    create_token(&records, &token, Timestamp(1), 60).unwrap();
    let records = losing(records);
    join(&records, &token, &host("d"), &it).unwrap();
    assert!(records.read().unwrap().hosts.contains_key(&host("d")));
}

#[test]
fn an_address_that_was_given_is_had() {
    let (network, me) = (front(), host("a"));
    let wanted =
        PinRequest { network: &network, address: address(), host: &me, by: "db", name: None };
    let records = losing(cluster());
    assert_eq!(pin(&records, &wanted, &BTreeSet::new()).unwrap(), Pinning::Granted);
    // That it is given back may be heard later than that it is asked for again.
    let (_, before) = records.read().unwrap().pins[&(front(), address())].clone();
    assert_eq!(pin(&records, &wanted, &BTreeSet::new()).unwrap(), Pinning::Granted);
    unpin(&records, (&network, address()), before).unwrap();
    let pins = records.read().unwrap().pins;
    let (now, at) = pins.get(&(front(), address())).expect("a record");
    assert_eq!(now.host, me);
    // Since when it is this host's stays: by that another one knows whether it was passed over.
    assert!(asked_at(now, *at) <= before);
}

/// etcd has no room, or this host may not write.
#[test]
fn an_address_that_a_host_has_is_had_while_nothing_is_written() {
    let (network, me) = (front(), host("a"));
    let wanted =
        PinRequest { network: &network, address: address(), host: &me, by: "db", name: None };
    let ask = |records: &Records| pin(records, &wanted, &BTreeSet::new());
    let records = cluster();
    records.is_full.set(true);
    assert_eq!(ask(&records).unwrap_err().kind(), Kind::Exhausted);
    records.is_full.set(false);
    ask(&records).unwrap();
    records.is_full.set(true);
    assert_eq!(ask(&records).unwrap(), Pinning::Granted);
    // It is another one's.
    records.write(&put(Key::Pin(front(), address()), Record::Pin(pin_of("c"))));
    assert!(ask(&records).is_err());
}

/// A host gives a block back, hears nothing of that, and needs the block again: the deletion may be carried out later.
#[test]
fn a_block_that_is_kept_is_not_given_back_later() {
    let records = cluster();
    let view = records.read().unwrap();
    let at = view.blocks[&(front(), block())].1;
    let key = Key::Block(front(), block());
    let late = Txn::default().require(key.clone(), Expect::At(at)).delete(key.clone());
    let keep = |view: &View, name| keep_block(&records, view, &front(), &host(name), block());
    let kept = keep(&view, "b").unwrap().unwrap();
    assert_eq!(records.write(&late), Outcome::Lost);
    let now = records.read().unwrap();
    assert_eq!(now.blocks[&(front(), block())], (host("b"), kept));
    assert_eq!((keep(&view, "b").unwrap(), keep(&now, "a").unwrap()), (None, None));
    // Another host has it between the reading and the writing.
    *records.before.borrow_mut() = vec![put(key, Record::Block(host("c")))];
    assert_eq!(keep(&now, "b").unwrap(), None);
    assert_eq!(records.read().unwrap().blocks[&(front(), block())].0, host("c"));
}

#[test]
fn a_host_is_asked_once_more() {
    let records = cluster();
    records.write(&put(Key::Alive(host("b")), Record::Mark));
    let records = losing(records);
    assert_eq!(ask(&records, &[]).unwrap(), Pinning::Asked(host("b")));
    assert_eq!(records.read().unwrap().pins.len(), 1);
}
