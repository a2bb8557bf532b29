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
