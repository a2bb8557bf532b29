//! A host whose record cannot be read is a member, and may have all that it had.

use super::*;

/// Host b is not heard of, and its record is no record.
fn damaged() -> Records {
    let records = cluster();
    let server = crate::record::ServerRecord { voter: true };
    records.write(&put(Key::Server(host("b")), Record::Server(server)));
    records.kept.borrow_mut().1.insert(path(&Key::Host(host("b"))), ("{".to_owned(), 99));
    records
}

#[test]
fn its_addresses_are_taken_over_when_it_is_gone_only() {
    let (records, network, by) = (damaged(), front(), "web");
    let c = host("c");
    let wanted =
        PinRequest { network: &network, address: [10, 8, 1, 9].into(), host: &c, by, name: None };
    let refused = pin(&records, &wanted, &BTreeSet::new()).unwrap_err();
    assert_eq!(refused.kind(), model::Kind::TryAgain);
    let gone = BTreeSet::from([host("b")]);
    assert_eq!(pin(&records, &wanted, &gone).unwrap(), Pinning::Granted);
}

#[test]
fn its_server_stays() {
    let records = damaged();
    forget_servers(&records, &records.read().unwrap(), |_| false).unwrap();
    assert!(records.read().unwrap().servers.contains_key(&host("b")));
}

#[test]
fn it_was_not_removed() {
    let records = damaged();
    let alive = AliveRecord::new(None, None);
    let lease = (LeaseId(1), &alive);
    let mut view = records.read().unwrap();
    let refused = be_alive(&records, &mut view, &host("b"), lease).unwrap_err();
    assert_eq!(refused.kind(), model::Kind::TryAgain);
    let refused = change_host(&records, &host("b"), |_| Ok(())).unwrap_err();
    assert_eq!(refused.kind(), model::Kind::TryAgain);
    let refused = change_host(&records, &host("d"), |_| Ok(())).unwrap_err();
    assert_eq!(refused.kind(), model::Kind::NotFound);
}
