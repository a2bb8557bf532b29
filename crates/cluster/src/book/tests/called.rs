//! What a host that has an address from the others says of it later.

use super::*;
use crate::book::{call_pin, is_called};

fn place() -> (NetworkName, IpAddr) {
    (front(), [10, 8, 1, 9].into())
}

/// The record has this name; what was written.
fn call(records: &Records, by: &str) -> Option<(model::AddressPin, Revision)> {
    let (view, place) = (records.read().unwrap(), place());
    let (pin, at) = &view.pins[&place];
    call_pin(records, &view, (&place.0, place.1), (pin, *at), by).unwrap()
}

fn be_heard_of(records: &Records, name: &str) {
    let mut view = records.read().unwrap();
    be_alive(records, &mut view, &host(name), (LeaseId(1), &AliveRecord::new(None, None))).unwrap();
}

fn lose(records: &Records, name: &str) {
    records.write(&Txn::default().delete(Key::Alive(host(name))));
}

#[test]
fn a_name_that_is_known_later_changes_nothing_else() {
    let records = cluster();
    assert_eq!(ask(&records, &["b"]).unwrap(), Pinning::Granted);
    let (pin, at) = records.read().unwrap().pins[&place()].clone();
    let (called, _) = call(&records, "docker/db").unwrap();
    let (now, written) = records.read().unwrap().pins[&place()].clone();
    assert_eq!((&now, now.by.as_str(), asked_at(&now, written)), (&called, "docker/db", at));
    assert_eq!((now.host, now.state, now.over), (pin.host, pin.state, pin.over));
    // Another one writes meanwhile.
    let key = Key::Pin(front(), place().1);
    let text = r#"{"host":"c","by":"db","state":"granted"}"#;
    *records.before.borrow_mut() = vec![put(key.clone(), record(&key, text.as_bytes()).unwrap())];
    assert_eq!(call(&records, "docker/web"), None);
}

/// A record holds less than a name may have.
#[test]
fn a_long_name_is_written_once() {
    for length in [53, 54, 200] {
        let records = cluster();
        ask(&records, &["b"]).unwrap();
        let by = format!("docker/{}", "n".repeat(length));
        let (pin, _) = call(&records, &by).unwrap();
        assert!(is_called(&pin, &by) && !is_called(&pin, "docker/n"), "{length}");
        let before = records.read().unwrap().revision;
        assert_eq!(call(&records, &by), None, "{length}");
        assert_eq!(records.read().unwrap().revision, before, "{length}");
    }
}

/// A takeover of before would be one since otherwise.
#[test]
fn a_host_that_came_back_is_not_taken_over_by_a_name() {
    let records = cluster();
    ask(&records, &["b"]).unwrap();
    be_heard_of(&records, "b");
    let (now, at) = call(&records, "docker/db").unwrap();
    assert!(now.over.is_none() && asked_at(&now, at) < at, "{now:?}");
    lose(&records, "b");
    assert!(!records.read().unwrap().is_taken_over(&host("b")));
    // As long as it is not heard of it stays one; also where it comes back between the reading and the writing.
    let records = cluster();
    ask(&records, &["b"]).unwrap();
    assert_eq!(call(&records, "docker/db").unwrap().0.over, Some(host("b")));
    assert!(records.read().unwrap().is_taken_over(&host("b")));
    *records.before.borrow_mut() = vec![put(Key::Alive(host("b")), Record::Mark)];
    assert_eq!(call(&records, "docker/web"), None);
}

/// The same where the host of the block answers.
#[test]
fn a_host_that_came_back_is_not_taken_over_by_an_answer() {
    let records = cluster();
    let key = Key::Pin(front(), place().1);
    let text = r#"{"host":"a","by":"db","state":"asked","over":"c"}"#;
    records.write(&put(key.clone(), record(&key, text.as_bytes()).unwrap()));
    be_heard_of(&records, "b");
    be_heard_of(&records, "c");
    let (view, place) = (records.read().unwrap(), place());
    let (pin, at) = &view.pins[&place];
    answer_pin(&records, &view, (&place.0, place.1), (pin, *at), PinState::Granted).unwrap();
    lose(&records, "c");
    let view = records.read().unwrap();
    assert_eq!(view.pinned(&place.0, place.1), Some(&host("a")));
    assert!(!view.is_taken_over(&host("c")));
}
