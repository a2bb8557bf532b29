//! Addresses that names keep.

use std::collections::BTreeSet;

use model::{AddressPin, OwnerName};

use super::*;
use crate::book::{answer_kept, answer_pin, asked_at, kept_elsewhere, publish_kept};

fn name() -> OwnerName {
    "db".parse().unwrap()
}

/// Of the block of b.
fn address() -> IpAddr {
    [10, 8, 1, 9].into()
}

/// Host b is there, and keeps an address of its block for the name.
fn kept() -> Records {
    let records = cluster();
    records.write(&put(Key::Alive(host("b")), Record::Mark));
    let all = [(front(), address(), name())];
    let written = publish_kept(&records, &records.read().unwrap(), &host("b"), &all).unwrap();
    assert_eq!(written.len(), 1);
    let again = publish_kept(&records, &records.read().unwrap(), &host("b"), &all).unwrap();
    assert!(again.is_empty(), "{again:?}");
    records
}

fn ask_as(records: &Records, name: Option<&OwnerName>, gone: &[&str]) -> Result<Pinning> {
    let (network, me) = (front(), host("a"));
    let wanted = PinRequest { network: &network, address: address(), host: &me, by: "db", name };
    pin(records, &wanted, &gone.iter().map(|name| host(name)).collect::<BTreeSet<_>>())
}

fn there(records: &Records) -> (AddressPin, Revision) {
    records.read().unwrap().pins[&(front(), address())].clone()
}

/// The answer to what a asks now, which is there.
fn answer(records: &Records, is_given: bool) -> Option<(AddressPin, Revision)> {
    alive(records, "a");
    let (view, (pin, at), network) = (records.read().unwrap(), there(records), front());
    answer_kept(records, &view, (&network, address()), (&pin, at), is_given).unwrap()
}

fn alive(records: &Records, name: &str) {
    records.write(&put(Key::Alive(host(name)), Record::Mark));
}

/// Host c keeps an address of b's block for the name, and a asks for it.
fn in_the_block_of_a_third(state: &str) -> Records {
    let (records, key) = (cluster(), Key::Pin(front(), address()));
    let text = format!(r#"{{"host":"c","by":"db","state":"granted","name":"db"{state}}}"#);
    alive(&records, "c");
    records.write(&put(key.clone(), record(&key, text.as_bytes()).unwrap()));
    let of = Pinning::Wanted(host("c"), Revision(8));
    assert_eq!(ask_as(&records, Some(&name()), &[]).unwrap(), of);
    records
}

#[test]
fn the_host_of_the_block_keeps_it_for_the_next_one() {
    // It may be of a version that would give the address to a container of its own in between.
    let records = in_the_block_of_a_third("");
    alive(&records, "b");
    let (now, at) = answer(&records, true).unwrap();
    assert_eq!((&now.host, &now.state, &now.name), (&host("a"), &PinState::Asked, &Some(name())));
    let (view, network) = (records.read().unwrap(), front());
    let place = (&network, address());
    answer_pin(&records, &view, place, (&now, at), PinState::Granted).unwrap();
    let (now, at) = there(&records);
    assert_eq!((&now.state, &now.name), (&PinState::Granted, &Some(name())));
    // Since when it is not b's goes with it.
    assert_eq!(asked_at(&now, at), Revision(7));
    // One that is lost keeps it until it hears for whom; not where it is back meanwhile.
    let records = in_the_block_of_a_third("");
    *records.before.borrow_mut() = vec![put(Key::Alive(host("b")), Record::Mark)];
    assert_eq!(answer(&records, true), None);
    let records = in_the_block_of_a_third("");
    assert_eq!(answer(&records, true).unwrap().0.state, PinState::Granted);
    // It changes hands meanwhile: another host leases from it.
    let records = in_the_block_of_a_third("");
    let block = Key::Block(front(), block());
    *records.before.borrow_mut() = vec![put(block, Record::Block(host("a")))];
    assert_eq!(answer(&records, true), None);
}

/// A takeover of before would be one since otherwise, and the host gone for all at once when it is lost again.
#[test]
fn the_host_of_a_takeover_is_named_until_it_is_heard_of() {
    let over = r#","over":"b""#;
    let records = in_the_block_of_a_third(over);
    assert_eq!(there(&records).0.over, Some(host("b")));
    assert!(records.read().unwrap().is_taken_over(&host("b")));
    let (now, _) = answer(&records, true).unwrap();
    assert_eq!((now.host, now.over), (host("a"), Some(host("b"))));
    assert!(records.read().unwrap().is_taken_over(&host("b")));
    // It is heard of, and lost again, before the answer.
    for is_given in [true, false] {
        let records = in_the_block_of_a_third(over);
        let it = ClusterHost::new([192, 0, 2, 2].into(), Timestamp(1));
        records.write(&put(Key::Host(host("b")), Record::Host(it.into())));
        assert_eq!(answer(&records, is_given).unwrap().0.over, None);
        assert!(!records.read().unwrap().is_taken_over(&host("b")));
    }
    // The same where its name is written.
    let all = [(front(), address(), "web".parse().unwrap())];
    let records = in_the_block_of_a_third(over);
    let it = ClusterHost::new([192, 0, 2, 2].into(), Timestamp(1));
    records.write(&put(Key::Host(host("b")), Record::Host(it.into())));
    publish_kept(&records, &records.read().unwrap(), &host("c"), &all).unwrap();
    let (now, at) = there(&records);
    assert_eq!((&now.over, &now.name), (&None, &Some("web".parse().unwrap())));
    assert_eq!(asked_at(&now, at), Revision(7));
}

#[test]
fn the_host_that_keeps_an_address_is_asked_and_hands_it_over() {
    let records = kept();
    let view = records.read().unwrap();
    let network = front();
    assert_eq!(kept_elsewhere(&view, (&network, &name()), &host("a")), [address()]);
    assert!(kept_elsewhere(&view, (&network, &name()), &host("b")).is_empty());
    // A container with another name, or none, is refused with the holder's name.
    let other = "web".parse().unwrap();
    for asks in [None, Some(&other)] {
        let taken = Pinning::Taken(host("b"), "db".to_owned());
        assert_eq!(ask_as(&records, asks, &[]).unwrap(), taken);
    }
    let Pinning::Wanted(of, at) = ask_as(&records, Some(&name()), &[]).unwrap() else { panic!() };
    let (pin, asked) = there(&records);
    // Until b says so it is b's.
    assert_eq!((of, pin.host.clone(), at), (host("b"), host("b"), asked));
    let place = (&network, address());
    let view = records.read().unwrap();
    // It is not given to a host that is gone.
    assert_eq!(answer_kept(&records, &view, place, (&pin, at), true).unwrap(), None);
    alive(&records, "a");
    let view = records.read().unwrap();
    let answer = answer_kept(&records, &view, place, (&pin, at), true).unwrap().unwrap();
    assert_eq!(answer, there(&records));
    let (now, _) = answer;
    assert_eq!((now.host, now.name, now.wanted, now.over), (host("a"), Some(name()), None, None));
    // It is answered once.
    assert_eq!(answer_kept(&records, &view, place, (&pin, at), true).unwrap(), None);
}

#[test]
fn a_host_with_a_container_of_the_name_says_no() {
    let records = kept();
    ask_as(&records, Some(&name()), &[]).unwrap();
    answer(&records, false).unwrap();
    let (now, _) = there(&records);
    assert_eq!((now.host, now.wanted), (host("b"), None));
    // The host that asked was removed meanwhile: it gets nothing.
    ask_as(&records, Some(&name()), &[]).unwrap();
    records.write(&Txn::default().delete(Key::Host(host("a"))));
    assert_eq!(answer(&records, true), None);
    assert_eq!(there(&records).0.host, host("b"));
}

#[test]
fn a_lost_host_is_waited_for_and_then_taken_over() {
    let records = kept();
    records.write(&Txn::default().delete(Key::Alive(host("b"))));
    let refused = ask_as(&records, Some(&name()), &[]).unwrap_err();
    assert!(refused.to_string().contains("which is lost"), "{refused}");
    assert_eq!(ask_as(&records, Some(&name()), &["b"]).unwrap(), Pinning::Granted);
    let (now, _) = there(&records);
    assert_eq!((now.host, now.name, now.over), (host("a"), Some(name()), Some(host("b"))));
    // What b still says of it is not written over that.
    let all = [(front(), address(), name())];
    assert!(publish_kept(&records, &records.read().unwrap(), &host("b"), &all).unwrap().is_empty());
}

#[test]
fn a_name_is_written_for_own_blocks_and_own_pins_only() {
    let records = kept();
    let free: IpAddr = [10, 8, 7, 7].into();
    let publish = |of: &str, address| {
        let all = [(front(), address, name())];
        publish_kept(&records, &records.read().unwrap(), &host(of), &all).unwrap().len()
    };
    // In a block that no host has, and in another one's.
    assert_eq!((publish("a", free), publish("a", [10, 8, 1, 10].into())), (0, 0));
    let key = Key::Pin(front(), free);
    let text = r#"{"host":"a","by":"db","state":"granted"}"#;
    records.write(&put(key.clone(), record(&key, text.as_bytes()).unwrap()));
    assert_eq!((publish("c", free), publish("a", free)), (0, 1));
    // The block changes hands between the reading and the writing.
    let block = Key::Block(front(), block());
    *records.before.borrow_mut() = vec![put(block, Record::Block(host("b")))];
    assert_eq!(publish("b", [10, 8, 1, 11].into()), 0);
}
