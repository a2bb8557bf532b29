//! Tokens: who asks for one, when, and how often.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::Kind;
use neutron::Neutron;
use neutron::config::{Access, Domain, Identity, Named};
use tempfile::tempdir;

use super::connect;
use super::server::{Call, Reply, Server, json};

const SECRET: &str = "correct horse battery staple";

/// A cloud whose tokens are `t0`, `t1`, …; the tokens below `valid` are no longer taken.
struct Cloud {
    server: Server,
    valid: Arc<AtomicUsize>,
}

impl Cloud {
    /// Whose tokens are good for so many seconds.
    fn new(life: u64) -> Self {
        let valid = Arc::new(AtomicUsize::new(0));
        let (least, made) = (Arc::clone(&valid), AtomicUsize::new(0));
        let server = Server::new(move |call, _| match call.line.as_str() {
            "POST /v3/auth/tokens" => token(call, made.fetch_add(1, Ordering::SeqCst), life),
            _ => {
                let token = call.header("x-auth-token").unwrap_or_default();
                let number: usize = token.trim_start_matches('t').parse().unwrap();
                match number >= least.load(Ordering::SeqCst) {
                    true => json(200, &[], r#"{"ports": []}"#),
                    false => json(401, &[], r#"{"error": {"message": "who?"}}"#),
                }
            }
        });
        Self { server, valid }
    }

    fn signed_on(&self) -> usize {
        self.server.lines().iter().filter(|line| line.contains("/auth/tokens")).count()
    }

    fn revoke(&self, below: usize) {
        self.valid.store(below, Ordering::SeqCst);
    }

    fn open(&self, directory: &Path) -> Neutron {
        self.open_with(SECRET, directory)
    }

    fn open_with(&self, password: &str, directory: &Path) -> Neutron {
        connect(access(&self.server.url(), password), directory)
    }
}

fn access(url: &str, password: &str) -> Access {
    let domain = || Domain::Id("default".to_owned());
    let identity = Identity::Password {
        url: url.to_owned(),
        user: Named::Name { name: "kuryr".to_owned(), domain: domain() },
        password: password.to_owned(),
        project: Named::Name { name: "kuryr".to_owned(), domain: domain() },
    };
    Access { timeout: Duration::from_secs(5), ..Access::of(identity) }
}

fn token(call: &Call, number: usize, life: u64) -> Reply {
    if !call.body.contains(SECRET) {
        return json(401, &[], r#"{"error": {"title": "Unauthorized", "message": "no"}}"#);
    }
    let endpoint = format!("http://{}", call.header("host").unwrap());
    let (hours, minutes, seconds) = (life / 3600, life / 60 % 60, life % 60);
    let body = format!(
        r#"{{"token": {{"issued_at": "2001-01-01T00:00:00.000000Z",
            "expires_at": "2001-01-01T{hours:02}:{minutes:02}:{seconds:02}.000000Z",
            "project": {{"id": "p"}}, "catalog": [{{"type": "network", "endpoints":
            [{{"interface": "public", "region": "R", "url": "{endpoint}"}}]}}]}}}}"#
    );
    json(201, &[&format!("X-Subject-Token: t{number}")], &body)
}

#[test]
fn nothing_happens_before_the_first_call() {
    let directory = tempdir().unwrap();
    let cloud = Cloud::new(3600);
    let neutron = cloud.open(&directory.path().join("neutron"));
    assert!(cloud.server.lines().is_empty() && !directory.path().join("neutron").exists());
    assert!(!format!("{:?}", neutron.settings()).contains(SECRET));
}

#[test]
fn all_threads_share_one_token_and_one_renewal() {
    let directory = tempdir().unwrap();
    let cloud = Cloud::new(3600);
    let neutron = cloud.open(directory.path());
    let everybody = || {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| neutron.api().ports(&[]).unwrap());
            }
        });
    };
    everybody();
    assert_eq!(cloud.signed_on(), 1);
    cloud.revoke(1);
    everybody();
    assert_eq!(cloud.signed_on(), 2);
}

#[test]
fn processes_share_a_token_while_it_is_good() {
    let directory = tempdir().unwrap();
    let cloud = Cloud::new(3600);
    cloud.open(directory.path()).api().ports(&[]).unwrap();
    let neutron = cloud.open(directory.path());
    neutron.api().ports(&[]).unwrap();
    assert_eq!(cloud.signed_on(), 1);
    cloud.revoke(1);
    let stale = cloud.open(directory.path());
    let before = cloud.server.lines().len();
    stale.api().ports(&[]).unwrap();
    let lines = cloud.server.lines();
    assert_eq!(
        lines[before..],
        ["GET /v2.0/ports", "POST /v3/auth/tokens", "GET /v2.0/ports"],
        "one refusal and one renewal"
    );
    neutron.api().ports(&[]).unwrap();
    assert_eq!(cloud.signed_on(), 2, "what another process renewed is taken");
    cloud.open_with("another password", directory.path()).api().ports(&[]).unwrap_err();
    assert_eq!(cloud.signed_on(), 3, "another identity is another matter");
}

#[test]
fn a_token_is_renewed_ahead_of_its_end() {
    let directory = tempdir().unwrap();
    let cloud = Cloud::new(0);
    let neutron = cloud.open(directory.path());
    neutron.api().ports(&[]).unwrap();
    neutron.api().ports(&[]).unwrap();
    assert_eq!(cloud.signed_on(), 2);
    assert!(!cloud.server.calls().iter().any(|call| call.header("x-auth-token") == Some("")));
}

#[test]
fn a_wrong_password_is_reported_without_it() {
    let directory = tempdir().unwrap();
    let cloud = Cloud::new(3600);
    let neutron = cloud.open_with("hunter2", directory.path());
    let error = neutron.api().ports(&[]).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::Denied, Some(401)));
    let text = format!("{error} {error:?}");
    assert!(text.starts_with("Keystone at http://127.0.0.1:"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_token_that_is_refused_is_renewed_once() {
    let directory = tempdir().unwrap();
    let cloud = Cloud::new(3600);
    cloud.revoke(1000);
    let error = cloud.open(directory.path()).api().ports(&[]).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::Denied, Some(401)), "{error}");
    assert_eq!(cloud.signed_on(), 2);
}
