//! What a token is worth, and to whom.

use super::*;

#[test]
fn a_token_that_was_used_is_worth_something_to_its_host_only() {
    let records = cluster();
    let token = crate::JoinToken::new(vec!["http://192.0.2.9:2379".parse().unwrap()]).unwrap();
    create_token(&records, &token, Timestamp(1), 60).unwrap();
    let it = |last, since| ClusterHost::new([192, 0, 2, last].into(), Timestamp(since));
    let denied = |name: &str, last, since| {
        let refused = join(&records, &token, &host(name), &it(last, since)).unwrap_err();
        assert_eq!(refused.kind(), model::Kind::Denied, "{name} {last}: {refused}");
    };
    join(&records, &token, &host("d"), &it(7, 2)).unwrap();
    // The answer was lost: the same host asks again, and no other one.
    join(&records, &token, &host("d"), &it(7, 9)).unwrap();
    denied("e", 8, 9);
    denied("d", 8, 9);
    denied("d", 7, 62);
    // A host that is there has its answer.
    let alive =
        Record::Alive(crate::AliveRecord { layout: 1, ..crate::AliveRecord::new(None, None) });
    records.write(&put(Key::Alive(host("d")), alive));
    denied("d", 7, 9);
    // Nor is it worth something once the host was removed, and for a later one of its name.
    remove_host(&records, &host("d"), &host("d"), false).unwrap();
    denied("d", 7, 9);
    form(&records, &host("d"), &it(7, 11)).unwrap();
    denied("d", 7, 12);
    // What programs of the version before compare says nothing to them.
    let view = records.read().unwrap();
    assert!(view.tokens.values().all(|(known, _)| known.digest != token.secret.digest()));
}
