//! A certificate is renewed by one that is worth something when the new one is written.

use super::*;

#[test]
fn what_was_revoked_since_it_was_heard_of_renews_nothing() {
    let records = cluster();
    sign(&records, "b", 1, None);
    let heard = records.read().unwrap();
    let renew = |serial: &Serial, shown| {
        let record = CertificateRecord { digest: "2".to_owned(), expires: Timestamp(2) };
        let host = host("b");
        certify(&records, &heard, Certified { host: &host, serial, record }, Some(shown))
    };
    let (late, again) = (Serial::new().unwrap(), Serial::new().unwrap());
    assert_eq!(renew(&late, "unknown").unwrap_err().kind(), model::Kind::NotFound);
    // The host was removed, and another one of its name has joined.
    remove_host(&records, &host("b"), &host("a"), true).unwrap();
    let it = ClusterHost::new([192, 0, 2, 9].into(), Timestamp(5));
    form(&records, &host("b"), &it).unwrap();
    assert_eq!(renew(&late, "1").unwrap_err().kind(), model::Kind::NotFound);
    assert!(records.read().unwrap().certificates.is_empty());
    // One that is known still renews.
    sign(&records, "b", 3, None);
    let (view, host) = (records.read().unwrap(), host("b"));
    let record = CertificateRecord { digest: "4".to_owned(), expires: Timestamp(4) };
    let certified = Certified { host: &host, serial: &again, record };
    certify(&records, &view, certified, Some("3")).unwrap();
    assert_eq!(records.read().unwrap().certificates.len(), 2);
}

/// The answer to a token was lost, and while it is shown again the host is removed and another one of its name joins.
#[test]
fn a_token_that_is_shown_again_certifies_no_later_host_of_its_name() {
    let records = cluster();
    let token = crate::JoinToken::new(vec!["http://192.0.2.9:2379".parse().unwrap()]).unwrap();
    create_token(&records, &token, Timestamp(1), 60).unwrap();
    let it = |last, since| ClusterHost::new([192, 0, 2, last].into(), Timestamp(since));
    join(&records, &token, &host("d"), &it(7, 2)).unwrap();
    let by = "d 192.0.2.7";
    let shown = Shown { id: &token.id, secret: &token.secret, by };
    let again = join_with(&records, shown, (&host("d"), &it(7, 3)), Vec::new()).unwrap();
    assert!(again.is_again);
    let (name, late, first) = (host("d"), Serial::new().unwrap(), Serial::new().unwrap());
    let certify = |serial: &Serial| {
        let record = CertificateRecord { digest: "d".to_owned(), expires: Timestamp(9) };
        let certified = Certified { host: &name, serial, record };
        certify_again(&records, &again.view, certified, &token.id)
    };
    certify(&first).unwrap();
    remove_host(&records, &name, &name, true).unwrap();
    form(&records, &name, &it(8, 4)).unwrap();
    assert_eq!(certify(&late).unwrap_err().kind(), model::Kind::TryAgain);
    assert!(records.read().unwrap().certificates.is_empty());
}
