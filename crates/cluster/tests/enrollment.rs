//! What hosts say to each other by TLS, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use cluster::enrollment::{PeerQuestion, Pinned, ask_pinned, ask_with, is_other, server, wire};
use cluster::trust::{Authority, Files, OwnCertificate, Pending, Serial, Usage, Validity};
use model::{Error, HostName, Kind, Result, Timestamp};

const LIFE: u32 = 3600;

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.unwrap().as_secs())
}

/// An authority, and files of a host that it has signed.
struct SignedHost {
    authority: Authority,
    files: Files,
    _directory: tempfile::TempDir,
}

impl SignedHost {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::below(directory.path());
        let authority = Authority::new(now()).unwrap();
        files.keep_authority(&authority).unwrap();
        let made = Self { authority, files, _directory: directory };
        made.certify(&made.files.server_path(), Usage::Server(Ipv4Addr::LOCALHOST.into()), now());
        made.certify(&made.files.host_path(), Usage::Client, now());
        made
    }

    fn certify(&self, path: &std::path::Path, usage: Usage, now: Timestamp) -> String {
        let (key, serial) = (Pending::new().unwrap(), Serial::new().unwrap());
        let name: HostName = "a".parse().unwrap();
        let validity = Validity { now, life: LIFE };
        let signed = self.authority.sign(&key.public().unwrap(), (&name, usage), &serial, validity);
        let (certificate, record) = signed.unwrap();
        let digest = record.digest.clone();
        let own =
            OwnCertificate { serial: Some(serial), record: Some(record), since: now, until: now };
        self.files.keep(path, &key, &certificate, &own).unwrap();
        digest
    }

    fn read(&self, path: &std::path::Path) -> String {
        self.files.read(path).unwrap()
    }

    /// Serves one connection, and says which certificate was shown; what is asked is answered with a key.
    fn serve(&self) -> (SocketAddr, thread::JoinHandle<Option<Result<Option<String>>>>) {
        let own = self.read(&self.files.server_path());
        let config = server(self.authority.certificate(), &own).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let served = thread::spawn(move || {
            let mut shown = None;
            let answered = PeerQuestion::answer(listener.accept().unwrap().0, config, |asked| {
                shown = Some(asked.certificate);
                Ok(wire::Reply::Authority("key".to_owned()))
            });
            answered.err().map_or(shown.map(Ok), |error| Some(Err(error)))
        });
        (at, served)
    }
}

#[test]
fn a_host_is_known_by_the_digest_of_its_authority() {
    let made = SignedHost::new();
    let (at, served) = made.serve();
    let reply = ask_pinned(at, Pinned(made.authority.digest()), &wire::Ask::Authority).unwrap();
    assert!(matches!(reply, wire::Reply::Authority(key) if key == "key"));
    assert_eq!(served.join().unwrap().unwrap().unwrap(), None);
    assert_eq!(made.files.authority_digest().unwrap(), made.authority.digest());

    let (at, served) = made.serve();
    let other = Authority::new(now()).unwrap().digest();
    let error = ask_pinned(at, Pinned(other), &wire::Ask::Authority).unwrap_err();
    assert!(error.kind() == Kind::Denied && is_other(&error));
    assert!(!is_other(&Error::new(Kind::Denied, "this token was used")));
    assert!(error.to_string().contains("is not the one that was meant"), "{error}");
    assert!(served.join().unwrap().unwrap().is_err());
}

#[test]
fn a_host_shows_its_certificate() {
    let made = SignedHost::new();
    let digest = made.certify(&made.files.host_path(), Usage::Client, now());
    let (at, served) = made.serve();
    let own = made.read(&made.files.host_path());
    let ask = |own: &str| {
        ask_with(at, (made.authority.certificate(), own), &wire::Ask::Authority, Duration::MAX)
    };
    ask(&own).unwrap();
    assert_eq!(served.join().unwrap().unwrap().unwrap(), Some(digest));
}

/// One that has ended, one of another authority, and an authority's that was read anew.
#[test]
fn other_certificates_are_refused() {
    let (made, other) = (SignedHost::new(), SignedHost::new());
    let old = Timestamp(now().0 - 10 * u64::from(LIFE));
    made.certify(&made.files.host_path(), Usage::Client, old);
    for files in [&made.files, &other.files] {
        let (at, served) = made.serve();
        let own = files.read(&files.host_path()).unwrap();
        ask_with(at, (made.authority.certificate(), &own), &wire::Ask::Authority, Duration::MAX)
            .unwrap_err();
        assert!(served.join().unwrap().unwrap().is_err());
    }
    let (certificate, key) = (made.authority.certificate(), made.authority.key());
    assert_eq!(Authority::read(certificate, &key).unwrap().digest(), made.authority.digest());
    assert!(Authority::read(certificate, &other.authority.key()).is_err());
    assert!(Authority::read("", &key).is_err());
}

/// Whatever a stranger sends, it is not answered, and the thread ends.
#[test]
fn what_is_no_question_is_not_answered() {
    let made = SignedHost::new();
    for said in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[22, 3, 1, 255, 255, 0, 0]] {
        let (at, served) = made.serve();
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(said).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // What the server says to that is an alert at most.
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(served.join().unwrap().unwrap().is_err(), "{said:?}");
    }
}

#[test]
fn lines_are_bounded_and_nothing_of_them_is_repeated() {
    let long = vec![b'x'; 1 << 20];
    for line in [&long[..], b"{\"join\":{\"secret\":\"abc\"}}\n", b"", b"[]\n"] {
        let mut rest = line;
        let error = wire::read::<wire::Ask>(&mut rest).unwrap_err().to_string();
        assert!(error.contains("not understood") && !error.contains("abc"), "{error}");
        assert!(line.len() < 1 << 16 || rest.len() > 1 << 19);
    }
}

#[test]
fn a_revoked_certificate_is_in_the_list() {
    let made = SignedHost::new();
    let serial = Serial::new().unwrap();
    let revoked = [(serial, Timestamp(now().0 + 9))].into();
    made.files.write_revocations(&made.authority, &revoked, now()).unwrap();
    assert_eq!(made.files.revocations().unwrap(), revoked);
    let pem = made.read(&made.files.revocations_path());
    assert!(pem.starts_with("-----BEGIN X509 CRL-----"), "{pem}");
}

#[test]
fn a_certificate_is_due_when_a_third_of_its_life_is_over() {
    let own = |since, until| OwnCertificate {
        serial: None,
        record: None,
        since: Timestamp(since),
        until: Timestamp(until),
    };
    assert!(!own(100, 400).is_due(Timestamp(199)));
    assert!(own(100, 400).is_due(Timestamp(200)));
    // The clock was set back.
    assert!(own(100, 400).is_due(Timestamp(50)));
}
