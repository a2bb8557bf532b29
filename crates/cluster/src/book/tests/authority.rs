//! A change of the authority: what is refused, and what it waits for.

use super::super::{
    abandon_rotation, advance_rotation, begin_rotation, is_trusted_by_none, needs_next,
    refuse_rotation, rotating, unconfirmed,
};
use super::*;
use crate::trust::{
    Abandoned, Authority, AuthorityRecord, Files, Phase, Standing, Successor, Trusted,
};

fn authority() -> Authority {
    Authority::new(Timestamp(1)).unwrap()
}

/// A change from one authority to another.
fn change((from, to): (&Authority, &Authority), phase: Phase) -> AuthorityRecord {
    let next = from.endorse(to).unwrap();
    AuthorityRecord { phase, next, since: Timestamp(1), without: BTreeSet::new() }
}

fn say(records: &Records, name: &str, standing: Option<Standing>) {
    let alive = AliveRecord::new(None, standing);
    records.write(&put(Key::Alive(host(name)), Record::Alive(alive)));
}

fn trusting(issuer: &Authority, trusted: &[&Authority]) -> Option<Standing> {
    let trusted = trusted.iter().map(|it| it.digest()).collect();
    Some(Standing { issuer: Some(issuer.digest()), trusted })
}

/// Three hosts that trust one authority.
fn of(one: &Authority) -> Records {
    let records = cluster();
    ["a", "b", "c"].into_iter().for_each(|name| say(&records, name, trusting(one, &[one])));
    records
}

#[test]
fn a_host_of_the_first_version_keeps_the_authority_as_it_is() {
    let (one, two) = (authority(), authority());
    let records = of(&one);
    // As 0.1.0 writes it.
    let key = Key::Alive(host("c"));
    records.kept.borrow_mut().1.insert(path(&key), ("{}".to_owned(), 99));
    let begun = begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap_err();
    assert_eq!(begun.kind(), model::Kind::Unsupported);
    assert!(begun.to_string().contains("host c runs an earlier version"), "{begun}");
    assert!(records.read().unwrap().authority.is_none());
    // It was put back while a change goes on: that waits for it.
    let (both, next) = ([&one, &two], Record::Authority(change((&one, &two), Phase::Trust)));
    records.write(&put(Key::Authority, next));
    ["a", "b"].into_iter().for_each(|name| say(&records, name, trusting(&one, &both)));
    advance_rotation(&records, &records.read().unwrap()).unwrap();
    let view = records.read().unwrap();
    assert_eq!(unconfirmed(&view), BTreeSet::from([host("c")]));
    assert_eq!(view.authority.unwrap().0.phase, Phase::Trust);
}

#[test]
fn of_two_that_begin_at_once_one_is_refused() {
    let (one, two, three) = (authority(), authority(), authority());
    let records = of(&one);
    let other = change((&one, &three), Phase::Trust);
    *records.before.borrow_mut() =
        vec![put(Key::Authority, Record::Authority(other.clone())).put(Key::Turn, Record::Mark)];
    let begun = begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap_err();
    assert!(begun.to_string().contains("the cluster changes its authority"), "{begun}");
    assert_eq!(records.read().unwrap().authority.unwrap().0, other);
}

#[test]
fn an_authority_that_was_given_up_is_trusted_no_more_before_another_change() {
    let (one, two, three) = (authority(), authority(), authority());
    let records = of(&one);
    begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap();
    say(&records, "b", trusting(&one, &[&one, &two]));
    abandon_rotation(&records, |_| true).unwrap();
    let again = change((&one, &three), Phase::Trust);
    let refused = begin_rotation(&records, &again).unwrap_err();
    assert!(refused.to_string().contains("host b still trusts"), "{refused}");
    say(&records, "b", trusting(&one, &[&one]));
    begin_rotation(&records, &again).unwrap();
}

/// Who still trusts it may be getting a certificate of it at this moment.
#[test]
fn what_was_given_up_is_so_for_good_once_no_host_trusts_it() {
    let (one, two) = (authority(), authority());
    let records = of(&one);
    let is_over = || is_trusted_by_none(&records.read().unwrap(), &two.digest());
    assert!(is_over());
    for (standing, is) in [
        (trusting(&one, &[&one, &two]), false),
        (trusting(&two, &[&one, &two]), false),
        (trusting(&two, &[&two]), false),
        // Its server of etcd begins anew, or its program does not say.
        (trusting(&one, &[]), false),
        (None, false),
        (trusting(&one, &[&one]), true),
    ] {
        say(&records, "b", standing.clone());
        assert_eq!(is_over(), is, "{standing:?}");
    }
    say(&records, "b", trusting(&two, &[&one, &two]));
    let key = Key::Alive(host("b"));
    records.kept.borrow_mut().1.remove(&path(&key));
    assert!(is_over(), "a host that is lost is not waited for");
}

#[test]
fn a_record_that_gives_up_the_authority_of_now_is_not_waited_for() {
    let (one, two) = (authority(), authority());
    let records = of(&one);
    let bogus = change((&one, &one), Phase::Abandoned);
    records.write(&put(Key::Authority, Record::Authority(bogus)));
    begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap();
    assert_eq!(records.read().unwrap().authority.unwrap().0.phase, Phase::Trust);
}

#[test]
fn nothing_is_given_up_by_which_a_host_has_its_certificate() {
    let (one, two) = (authority(), authority());
    let records = of(&one);
    begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap();
    say(&records, "b", trusting(&two, &[&one, &two]));
    let refused = abandon_rotation(&records, |_| true).unwrap_err();
    assert!(refused.to_string().contains("it has to go on"), "{refused}");
}

#[test]
fn a_change_that_no_host_follows_is_given_up_in_every_phase() {
    let (one, two, other) = (authority(), authority(), authority());
    let trusted = Trusted::read(one.certificate()).unwrap();
    let is_ours = |next: &Successor| trusted.has(next.digest()) || trusted.endorses(next);
    for phase in [Phase::Sign, Phase::Drop] {
        let records = of(&one);
        records.write(&put(Key::Authority, Record::Authority(change((&one, &two), phase))));
        let refused = abandon_rotation(&records, is_ours).unwrap_err();
        assert!(refused.to_string().contains("it has to go on"), "{refused}");
        // A member without the authority's key has written it.
        records.write(&put(Key::Authority, Record::Authority(change((&other, &two), phase))));
        abandon_rotation(&records, is_ours).unwrap();
        begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap();
    }
}

#[test]
fn a_record_that_cannot_be_read_is_in_no_ones_way() {
    let (one, two) = (authority(), authority());
    let records = of(&one);
    let damaged = ("{\"phase\":\"sign\"}".to_owned(), 99);
    records.kept.borrow_mut().1.insert(path(&Key::Authority), damaged);
    let view = records.read().unwrap();
    // A change may go on.
    assert!(needs_next(&view, &one.digest()) && rotating(&view).is_none());
    refuse_rotation(&view, &BTreeSet::new()).unwrap();
    begin_rotation(&records, &change((&one, &two), Phase::Trust)).unwrap();
    assert_eq!(records.read().unwrap().authority.unwrap().0.phase, Phase::Trust);
}

#[test]
fn the_next_key_is_needed_until_it_signs_or_is_given_up() {
    let (one, two) = (authority(), authority());
    let records = of(&one);
    assert!(!needs_next(&records.read().unwrap(), &one.digest()));
    for (phase, own, needs) in [
        (Phase::Trust, &one, true),
        (Phase::Sign, &two, true),
        (Phase::Done, &one, true),
        (Phase::Done, &two, false),
        (Phase::Abandoned, &one, false),
    ] {
        records.write(&put(Key::Authority, Record::Authority(change((&one, &two), phase))));
        assert_eq!(needs_next(&records.read().unwrap(), &own.digest()), needs, "{phase:?}");
    }
}

#[test]
fn only_what_an_authority_has_signed_follows_it() {
    let (one, two, other) = (authority(), authority(), authority());
    let trusted = |it: &Authority| Trusted::read(it.certificate()).unwrap();
    let both = trusted(&one).and(trusted(&two));
    let (next, back) = (one.endorse(&two).unwrap(), other.endorse(&one).unwrap());
    assert!(trusted(&one).endorses(&next) && both.endorses(&next));
    // Neither by a stranger nor by the one that came before.
    assert!(!trusted(&one).endorses(&other.endorse(&two).unwrap()) && !both.endorses(&back));
}

#[test]
fn a_record_of_a_change_is_one_authority() {
    let (one, two) = (authority(), authority());
    let written = value(&Record::Authority(change((&one, &two), Phase::Trust))).unwrap();
    let read = |text: &str| record(&Key::Authority, text.as_bytes());
    assert_eq!(value(&read(&written).unwrap()).unwrap(), written);
    let of = |certificates: String, proof: &str| {
        serde_json::json!({"phase": "trust", "certificate": certificates, "proof": proof, "since": 1})
            .to_string()
    };
    let pem = |it: &Authority| it.certificate().to_owned();
    assert!(read(&of(pem(&two), "AAAA")).is_ok());
    for bad in [
        of(String::new(), "AAAA"),
        of(pem(&one) + &pem(&two), "AAAA"),
        of(pem(&two), "*"),
        of(pem(&two), &"A".repeat(400)),
        of(pem(&two) + &" ".repeat(5000), "AAAA"),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
    }
}

/// A member writes the record of a change that was given up once more, as one that goes on.
#[test]
fn a_change_that_was_given_up_comes_to_nothing_again() {
    let (one, two, three) = (authority(), authority(), authority());
    let directory = tempfile::tempdir().unwrap();
    let files = Files::below(directory.path());
    let trusted = Trusted::read(one.certificate()).unwrap();
    files.abandon(one.endorse(&two).unwrap().digest()).unwrap();
    let abandoned = files.abandoned().unwrap();
    let is_ours = |next: &Successor| {
        !abandoned.has(next) && (trusted.has(next.digest()) || trusted.endorses(next))
    };
    for phase in [Phase::Trust, Phase::Sign, Phase::Drop] {
        let (records, replayed) = (of(&one), change((&one, &two), phase));
        records.write(&put(Key::Authority, Record::Authority(replayed.clone())));
        let refused = replayed.refuse_unfit(&trusted, &abandoned).unwrap_err().to_string();
        assert!(refused.contains("given up") && refused.contains("ca abandon`"), "{refused}");
        abandon_rotation(&records, is_ours).unwrap();
        begin_rotation(&records, &change((&one, &three), Phase::Trust)).unwrap();
    }
    change((&one, &three), Phase::Sign).refuse_unfit(&trusted, &abandoned).unwrap();
}

/// etcd is restored from a backup of each phase, where hosts have gone further: they go on from there to the end.
#[test]
fn a_change_goes_on_from_an_older_state_of_etcd() {
    let (one, two) = (authority(), authority());
    let none = Abandoned::default();
    for (phase, rest) in [(Phase::Trust, 3), (Phase::Sign, 2), (Phase::Drop, 1)] {
        // Some have ceased to trust the old one.
        let (records, older) = (of(&one), change((&one, &two), phase));
        for (name, trusted) in [("a", vec![&two]), ("b", vec![&one, &two]), ("c", vec![&one, &two])]
        {
            say(&records, name, trusting(&two, &trusted));
            let pem: String = trusted.iter().map(|it| it.certificate()).collect();
            older.refuse_unfit(&Trusted::read(&pem).unwrap(), &none).unwrap();
        }
        records.write(&put(Key::Authority, Record::Authority(older)));
        let refused = abandon_rotation(&records, |_| true).unwrap_err();
        assert!(refused.to_string().contains("it has to go on"), "{refused}");
        for _ in 0..rest {
            let view = records.read().unwrap();
            if view.authority.as_ref().unwrap().0.phase == Phase::Drop {
                assert!(rotating(&view).unwrap().contains("waits for host b, c"));
                ["b", "c"]
                    .into_iter()
                    .for_each(|name| say(&records, name, trusting(&two, &[&two])));
            }
            advance_rotation(&records, &records.read().unwrap()).unwrap();
        }
        assert_eq!(records.read().unwrap().authority.unwrap().0.phase, Phase::Done);
    }
}

/// The hosts have an authority that came later than that of the state of etcd, which is restored.
#[test]
fn hosts_that_are_beyond_a_change_say_what_to_do() {
    let (one, two, three) = (authority(), authority(), authority());
    let trusted = Trusted::read(three.certificate()).unwrap();
    let is_ours = |next: &Successor| trusted.has(next.digest()) || trusted.endorses(next);
    let again = change((&three, &authority()), Phase::Trust);
    for (phase, what) in
        [(Phase::Sign, "`spoke host ca abandon`"), (Phase::Done, "`spoke host ca rotate` begins")]
    {
        let (records, older) = (of(&three), change((&one, &two), phase));
        records.write(&put(Key::Authority, Record::Authority(older.clone())));
        let refused = older.refuse_unfit(&trusted, &Abandoned::default()).unwrap_err().to_string();
        assert!(refused.contains(what), "{refused}");
        if phase.is_going_on() {
            abandon_rotation(&records, is_ours).unwrap();
        }
        begin_rotation(&records, &again).unwrap();
    }
}
