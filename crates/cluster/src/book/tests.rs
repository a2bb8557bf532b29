//! What two hosts do at the same moment, one transaction between the reading and the writing of the other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use model::{ClusterHost, HostName, IpNet, NetworkName, PinState, Result, Timestamp};

use super::{
    Certified, PinRequest, Pinning, Shown, answer_pin, asked_at, be_alive, certify, certify_again,
    change_host, claim_block, create_token, forget_servers, form, give_up_block, join, join_with,
    pin, prune, remove_host, revoke_strays,
};
use crate::layout::{key, path, record, value};
use crate::port::{Cluster, Expect, LeaseId, Listener, Outcome, Txn, WatchEnd, Write};
use crate::record::{AliveRecord, Change, Key, Record, Revision};
use crate::trust::{CertificateRecord, Serial};
use crate::view::View;

mod authority;
mod called;
mod damaged;
mod kept;
mod renewal;
mod ruled;
mod six;
mod tokens;
mod unanswered;

/// By path: the value, and when it was written.
type StoredValues = BTreeMap<String, (String, u64)>;

/// Records with etcd's rules for transactions, and what others write before the next one.
#[derive(Default)]
struct Records {
    kept: RefCell<(u64, StoredValues)>,
    before: RefCell<Vec<Txn>>,
    /// How many of the next transactions are carried out whose answers are lost.
    unanswered: Cell<usize>,
    /// Whether there is no room for more.
    is_full: Cell<bool>,
}

impl Records {
    fn write(&self, txn: &Txn) -> Outcome {
        let (revision, records) = &mut *self.kept.borrow_mut();
        let is = |(key, expect): &(Key, Expect)| {
            let at = records.get(&path(key)).map(|(_, at)| *at);
            match expect {
                Expect::Absent => at.is_none(),
                Expect::Present => at.is_some(),
                Expect::At(Revision(wanted)) => at == Some(*wanted),
            }
        };
        let pin = |(path, (_, at)): (&String, &(String, u64))| {
            path.contains("/pin/") && txn.no_pin_since.is_some_and(|since| *at > since.0)
        };
        let certificate = |(path, (_, at)): (&String, &(String, u64))| {
            let of = txn.no_certificate_since.as_ref();
            of.is_some_and(|(of, since)| {
                path.contains(&format!("/certificate/{of}/")) && *at > since.0
            })
        };
        if !txn.expect.iter().all(is) || records.iter().any(|it| pin(it) || certificate(it)) {
            return Outcome::Lost;
        }
        *revision += 1;
        for write in &txn.writes {
            match write {
                Write::Put(key, it, _) => {
                    drop(records.insert(path(key), (value(it).unwrap(), *revision)))
                }
                Write::Delete(key) => drop(records.remove(&path(key))),
                Write::DeleteEndpointsOf(_) => {}
            }
        }
        Outcome::Done(Revision(*revision))
    }
}

impl Cluster for Records {
    fn read(&self) -> Result<View> {
        let kept = self.kept.borrow();
        let mut view = View { revision: Revision(kept.0), ..View::default() };
        for (path, (value, at)) in &kept.1 {
            let key = key(path)?;
            let read = record(&key, value.as_bytes());
            let read = read.map(|it| (key, Some((it, Revision(*at))))).map_err(|it| it.to_string());
            view.apply(Change { path: path.clone(), is_gone: false, bytes: 0, read });
        }
        Ok(view)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        for before in self.before.take() {
            assert_ne!(self.write(&before), Outcome::Lost, "{before:?}");
        }
        if self.is_full.get() {
            return Err(model::Error::new(model::Kind::Exhausted, "etcd has no room"));
        }
        let outcome = self.write(txn);
        match self.unanswered.get().checked_sub(1) {
            Some(rest) => {
                self.unanswered.set(rest);
                Err(model::Error::try_again("etcd does not answer"))
            }
            None => Ok(outcome),
        }
    }

    fn grant(&self, _: u32) -> Result<LeaseId> {
        Ok(LeaseId(1))
    }

    fn renew(&self, _: LeaseId) -> Result<bool> {
        Ok(true)
    }

    fn watch(&self, _: Revision, _: Duration, _: &mut Listener<'_>) -> Result<WatchEnd> {
        Ok(WatchEnd::Over)
    }
}

fn host(name: &str) -> HostName {
    name.parse().unwrap()
}

fn front() -> NetworkName {
    "front".parse().unwrap()
}

fn block() -> IpNet {
    "10.8.1.0/24".parse().unwrap()
}

fn put(key: Key, record: Record) -> Txn {
    Txn::default().put(key, record)
}

/// Hosts a, b and c, and a block of b, which is not heard of.
fn cluster() -> Records {
    let records = Records::default();
    for (last, name) in [(1, "a"), (2, "b"), (3, "c")] {
        let address = [192, 0, 2, last].into();
        let it = ClusterHost::new(address, Timestamp(1));
        records.write(&put(Key::Host(host(name)), Record::Host(it.into())));
    }
    let network =
        r#"{"vni":7,"subnet":"10.8.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}"#;
    let name = Key::Network(front());
    records.write(&put(name.clone(), record(&name, network.as_bytes()).unwrap()));
    records.write(&put(Key::Block(front(), block()), Record::Block(host("b"))));
    records
}

/// The block goes from b to c, which leases from it without asking.
fn to_c(records: &Records) {
    let key = Key::Block(front(), block());
    *records.before.borrow_mut() =
        vec![Txn::default().delete(key.clone()), put(key, Record::Block(host("c")))];
}

fn ask(records: &Records, gone: &[&str]) -> Result<Pinning> {
    let (network, me) = (front(), host("a"));
    let address = [10, 8, 1, 9].into();
    let wanted = PinRequest { network: &network, address, host: &me, by: "db", name: None };
    pin(records, &wanted, &gone.iter().map(|name| host(name)).collect::<BTreeSet<_>>())
}

#[test]
fn a_block_that_changes_hands_is_asked_for_again() {
    let records = cluster();
    records.write(&put(Key::Alive(host("c")), Record::Mark));
    to_c(&records);
    // Granted over b, which is gone, it would have had two holders.
    assert_eq!(ask(&records, &["b"]).unwrap(), Pinning::Asked(host("c")));
}

#[test]
fn an_address_of_a_gone_host_is_taken_over_and_marked() {
    let records = cluster();
    assert_eq!(ask(&records, &["b"]).unwrap(), Pinning::Granted);
    let mut view = records.read().unwrap();
    assert!(view.is_taken_over(&host("b")) && !view.is_taken_over(&host("c")));
    // From its next life on it knows.
    be_alive(&records, &mut view, &host("b"), (LeaseId(1), &AliveRecord::new(None, None))).unwrap();
    let mut view = records.read().unwrap();
    assert!(view.alive.remove(&host("b")) && !view.is_taken_over(&host("b")));
}

/// The host of a block gets an address of it back that it gave to a host which is lost since.
#[test]
fn the_host_of_the_block_takes_over_too() {
    let records = cluster();
    let (network, me) = (front(), host("b"));
    let wanted = PinRequest {
        network: &network,
        address: [10, 8, 1, 9].into(),
        host: &me,
        by: "db",
        name: None,
    };
    let text = r#"{"host":"c","by":"db","state":"granted"}"#;
    let key = Key::Pin(front(), [10, 8, 1, 9].into());
    records.write(&put(key.clone(), record(&key, text.as_bytes()).unwrap()));
    let none = BTreeSet::new();
    assert!(pin(&records, &wanted, &none).unwrap_err().to_string().contains("which is lost"));
    let gone = BTreeSet::from([host("c")]);
    assert_eq!(pin(&records, &wanted, &gone).unwrap(), Pinning::Granted);
    let view = records.read().unwrap();
    assert_eq!(view.pinned(&front(), [10, 8, 1, 9].into()), Some(&me));
    assert!(view.is_taken_over(&host("c")) && !view.is_taken_over(&me));
    // Where no host has it the host leases it as any other of its block.
    records.write(&Txn::default().delete(key));
    assert!(pin(&records, &wanted, &gone).unwrap_err().to_string().contains("a moment ago"));
}

#[test]
fn a_host_that_is_heard_of_again_knows_what_was_taken_meanwhile() {
    let records = cluster();
    let mut view = records.read().unwrap();
    ask(&records, &["b"]).unwrap();
    let heard =
        be_alive(&records, &mut view, &host("b"), (LeaseId(1), &AliveRecord::new(None, None)))
            .unwrap();
    // The watch tells what was written until then.
    assert!(view.revision < heard && heard == records.read().unwrap().revision);
    let mut view = records.read().unwrap();
    assert_eq!(view.pinned(&front(), [10, 8, 1, 9].into()), Some(&host("a")));
    let gone = Txn::default().delete(Key::Host(host("b")));
    *records.before.borrow_mut() = vec![gone];
    assert!(
        be_alive(&records, &mut view, &host("b"), (LeaseId(1), &AliveRecord::new(None, None)))
            .is_err()
    );
}

/// What is said of a lost host does not undo what was taken over from it.
#[test]
fn what_is_said_of_a_host_that_was_taken_over_stays() {
    let draining = |it: &mut ClusterHost| {
        it.draining = true;
        Ok(())
    };
    let records = cluster();
    ask(&records, &["b"]).unwrap();
    let refused = change_host(&records, &host("b"), draining).unwrap_err();
    assert!(refused.to_string().contains("addresses of it were taken over"), "{refused}");
    assert!(records.read().unwrap().is_taken_over(&host("b")));
    // It is taken over between the reading and the writing.
    let records = cluster();
    let pin = Key::Pin(front(), [10, 8, 1, 9].into());
    let text = r#"{"host":"a","by":"db","state":"granted","over":"b"}"#;
    *records.before.borrow_mut() = vec![put(pin.clone(), record(&pin, text.as_bytes()).unwrap())];
    assert!(change_host(&records, &host("b"), draining).is_err());
    assert!(records.read().unwrap().is_taken_over(&host("b")));
    // Of one that is only lost it can be said.
    change_host(&records, &host("c"), draining).unwrap();
    assert!(records.read().unwrap().hosts[&host("c")].draining);
}

#[test]
fn only_the_host_of_the_block_answers() {
    let records = cluster();
    records.write(&put(Key::Alive(host("b")), Record::Mark));
    assert_eq!(ask(&records, &[]).unwrap(), Pinning::Asked(host("b")));
    let (view, key) = (records.read().unwrap(), (front(), [10, 8, 1, 9].into()));
    let (pin, at) = &view.pins[&key];
    to_c(&records);
    let name = (&key.0, key.1);
    answer_pin(&records, &view, name, (pin, *at), PinState::Granted).unwrap();
    assert_eq!(records.read().unwrap().pins[&key].0.state, PinState::Asked);
}

#[test]
fn what_others_took_stays_theirs() {
    let records = cluster();
    to_c(&records);
    give_up_block(&records, &front(), &host("b"), block()).unwrap();
    assert_eq!(records.read().unwrap().blocks[&(front(), block())].0, host("c"));
    // A pin of b is taken over by a while b is removed.
    let records = cluster();
    let (key, value) = (Key::Pin(front(), [10, 8, 9, 9].into()), |host: &str| {
        format!(r#"{{"host":"{host}","by":"db","state":"granted"}}"#)
    });
    let of = |host| put(key.clone(), record(&key, value(host).as_bytes()).unwrap());
    records.write(&of("b"));
    let removed = Txn::default().delete(Key::Host(host("b")));
    *records.before.borrow_mut() = vec![removed, of("a")];
    remove_host(&records, &host("b"), &host("c"), false).unwrap();
    let view = records.read().unwrap();
    assert_eq!(view.pinned(&front(), [10, 8, 9, 9].into()), Some(&host("a")));
    assert!(view.blocks.is_empty(), "{:?}", view.blocks);
}

/// A certificate of a host that ends then, signed while the host is in the cluster.
fn sign(records: &Records, name: &str, expires: u64, shown: Option<&str>) -> Serial {
    let serial = Serial::new().unwrap();
    let record = CertificateRecord { digest: expires.to_string(), expires: Timestamp(expires) };
    let (view, host) = (records.read().unwrap(), host(name));
    certify(records, &view, Certified { host: &host, serial: &serial, record }, shown).unwrap();
    serial
}

#[test]
fn a_removed_host_keeps_no_certificate() {
    let records = cluster();
    let known = sign(&records, "b", 1000, None);
    // The host renews it between the reading and the writing of its removal.
    let late = Serial::new().unwrap();
    let record = CertificateRecord { digest: "late".to_owned(), expires: Timestamp(2000) };
    let renewal =
        put(Key::Certificate(host("b"), late.clone()), Record::Certificate(record.clone()));
    *records.before.borrow_mut() = vec![renewal];
    remove_host(&records, &host("b"), &host("c"), false).unwrap();
    let view = records.read().unwrap();
    assert!(view.revoked.contains_key(&known) && view.revoked.contains_key(&late), "{view:?}");
    // As an earlier program leaves it.
    let late = Serial::new().unwrap();
    let stray = put(Key::Certificate(host("b"), late.clone()), Record::Certificate(record.clone()));
    records.write(&stray);
    let view = records.read().unwrap();
    revoke_strays(&records, &view).unwrap();
    let view = records.read().unwrap();
    assert!(view.revoked.contains_key(&late) && view.certificates.is_empty(), "{view:?}");
    // The certificates of members stay.
    let stays = sign(&records, "c", 1000, None);
    revoke_strays(&records, &records.read().unwrap()).unwrap();
    assert!(!records.read().unwrap().revoked.contains_key(&stays));
}

#[test]
fn a_host_that_keeps_no_certificate_keeps_the_one_that_it_has() {
    let records = cluster();
    let has = sign(&records, "b", 1, None);
    for expires in 2..40 {
        sign(&records, "b", expires, Some("1"));
    }
    let view = records.read().unwrap();
    assert!(view.certificates.contains_key(&(host("b"), has)));
    assert_eq!((view.certificates.len(), view.revoked.len()), (32, 7));
    let oldest = view.certificates.values().map(|record| record.expires.0);
    assert_eq!(oldest.filter(|expires| *expires > 1).min(), Some(9));
}

#[test]
fn a_clock_that_is_ahead_forgets_no_certificate() {
    let records = cluster();
    sign(&records, "b", 1000, None);
    for (now, left) in [(1090, 1), (1091, 0)] {
        prune(&records, &records.read().unwrap(), Timestamp(now), 90).unwrap();
        assert_eq!(records.read().unwrap().certificates.len(), left, "{now}");
    }
}

#[test]
fn a_server_that_etcd_has_not_is_forgotten() {
    let records = cluster();
    for name in ["a", "b", "c"] {
        let server = crate::record::ServerRecord { voter: true };
        records.write(&put(Key::Server(host(name)), Record::Server(server)));
    }
    // One that is there sees to its own.
    records.write(&put(Key::Alive(host("a")), Record::Mark));
    let is_server = |it: &ClusterHost| it.address == IpAddr::from([192, 0, 2, 2]);
    forget_servers(&records, &records.read().unwrap(), is_server).unwrap();
    let left = records.read().unwrap().servers;
    assert_eq!(left.into_keys().collect::<Vec<_>>(), [host("a"), host("b")]);
}

#[test]
fn a_removal_that_is_refused_changes_nothing() {
    let records = cluster();
    let mut view = records.read().unwrap();
    // It comes back between the reading and the writing.
    let back =
        put(Key::Host(host("b")), Record::Host(view.hosts.remove(&host("b")).unwrap().into()));
    let alive = put(
        Key::Alive(host("b")),
        Record::Alive(crate::AliveRecord { layout: 1, ..crate::AliveRecord::new(None, None) }),
    );
    *records.before.borrow_mut() = vec![back, alive];
    let refused = remove_host(&records, &host("b"), &host("c"), false).unwrap_err();
    assert_eq!(refused.kind(), model::Kind::Conflict);
    assert!(records.read().unwrap().hosts.contains_key(&host("b")));
}

#[test]
fn a_host_with_an_address_of_a_network_is_refused() {
    let records = cluster();
    let token = crate::JoinToken::new(vec!["http://192.0.2.9:2379".parse().unwrap()]).unwrap();
    create_token(&records, &token, Timestamp(1), 60).unwrap();
    let it = ClusterHost::new([10, 8, 3, 4].into(), Timestamp(1));
    let refused = join(&records, &token, &host("d"), &it).unwrap_err();
    assert!(refused.to_string().contains("an address of network front (10.8.0.0/16)"), "{refused}");
    assert_eq!(form(&records, &host("d"), &it).unwrap_err().kind(), model::Kind::Conflict);
    // The network comes between the reading and the writing.
    let it = ClusterHost::new([10, 9, 3, 4].into(), Timestamp(1));
    let network =
        r#"{"vni":8,"subnet":"10.9.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}"#;
    let name = Key::Network("back".parse().unwrap());
    let network = record(&name, network.as_bytes()).unwrap();
    *records.before.borrow_mut() = vec![put(name, network).put(Key::Turn, Record::Mark)];
    assert_eq!(join(&records, &token, &host("d"), &it).unwrap_err().kind(), model::Kind::Conflict);
    // Another host that joins at the same moment is no reason to refuse this one, or its token.
    let it = ClusterHost::new([192, 0, 2, 7].into(), Timestamp(1));
    *records.before.borrow_mut() = vec![put(Key::Turn, Record::Mark)];
    join(&records, &token, &host("d"), &it).unwrap();
    assert!(records.read().unwrap().hosts.contains_key(&host("d")));
    let again = join(&records, &token, &host("e"), &it).unwrap_err();
    assert_eq!(again.kind(), model::Kind::Denied);
}

#[test]
fn a_host_that_is_a_member_again_keeps_what_was_said_of_it() {
    let records = cluster();
    records.write(&put(Key::Layout, Record::Layout(crate::layout_version::LATEST)));
    let draining = |it: &mut ClusterHost| {
        it.draining = true;
        Ok(())
    };
    change_host(&records, &host("b"), draining).unwrap();
    let it = ClusterHost::new([192, 0, 2, 2].into(), Timestamp(9));
    // An operator says more between the reading and the writing.
    let mut said = records.read().unwrap().hosts[&host("b")].clone();
    said.labels = model::Labels::of_pairs([("zone", "eu")]).unwrap();
    *records.before.borrow_mut() =
        vec![put(Key::Host(host("b")), Record::Host(said.clone().into()))];
    form(&records, &host("b"), &it).unwrap();
    assert_eq!(records.read().unwrap().hosts[&host("b")], said);
    assert_eq!((said.since, said.draining), (Timestamp(1), true));
    // Its daemon is heard of between the two: then it is none that comes again.
    let alive = put(
        Key::Alive(host("b")),
        Record::Alive(crate::AliveRecord { layout: 2, ..crate::AliveRecord::new(None, None) }),
    );
    *records.before.borrow_mut() = vec![alive];
    assert_eq!(form(&records, &host("b"), &it).unwrap_err().kind(), model::Kind::Conflict);
}

#[test]
fn hosts_that_take_blocks_at_once_try_others_than_each_other() {
    let records = cluster();
    let all = 60;
    for last in 0..all {
        let it = ClusterHost::new([192, 0, 2, 100 + last].into(), Timestamp(1));
        records.write(&put(Key::Host(host(&format!("h{last}"))), Record::Host(it.into())));
    }
    // All know the same, and the first of them is faster than they.
    let view = records.read().unwrap();
    let claim = |view: &View, name: &str| {
        claim_block(&records, view, &front(), &host(name), None).unwrap().0
    };
    assert_eq!(claim(&view, "h0").to_string(), "10.8.0.0/24");
    let net = |third: u8| IpNet::new([10, 8, third, 0].into(), 24).unwrap();
    let mut taken = BTreeSet::new();
    for last in 1..all {
        // As if each read before the others wrote.
        let name = format!("h{last}");
        let block = claim(&view, &name);
        taken.insert(block);
        let key = Key::Block(front(), block);
        records.write(&Txn::default().delete(key));
    }
    assert!(taken.len() > 40 && !taken.contains(&net(0)), "{taken:?}");
}

#[test]
fn an_answer_says_when_it_was_asked_for() {
    let records = cluster();
    records.write(&put(Key::Alive(host("b")), Record::Mark));
    ask(&records, &[]).unwrap();
    let (view, key) = (records.read().unwrap(), (front(), [10, 8, 1, 9].into()));
    let (pin, at) = &view.pins[&key];
    assert_eq!(asked_at(pin, *at), *at);
    be_alive(&records, &mut view.clone(), &host("c"), (LeaseId(1), &AliveRecord::new(None, None)))
        .unwrap();
    let name = (&key.0, key.1);
    answer_pin(&records, &view, name, (pin, *at), PinState::Granted).unwrap();
    let (answered, now) = &records.read().unwrap().pins[&key];
    assert!(now > at && asked_at(answered, *now) == *at);
}
