use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{Image, Policy};
use model::Kind;
use serde_json::{Value, json};
use tests::registry::{Fault, Login, Registry};

use super::support::{Bench, check};

fn get(bench: &Bench, registry: &Registry, entry: Value) -> model::Result<Image> {
    let auth = bench.path("auth.json");
    fs::write(&auth, json!({"auths": {registry.host(): entry}}).to_string()).unwrap();
    let policy = Policy { auth: Some(auth), ..Policy::default() };
    bench.images(policy).get(&format!("docker://{}/a/x", registry.host()).parse().unwrap())
}

fn password(text: &str) -> Value {
    json!({"auth": STANDARD.encode(text)})
}

fn mine() -> (String, String) {
    ("me".to_owned(), "pass:word".to_owned())
}

#[test]
fn names_and_passwords_are_sent() {
    for login in [Login::Basic(mine().0, mine().1), Login::Bearer(Some(mine()))] {
        let (bench, registry) = (Bench::new(), Registry::start());
        bench.push(&registry, "a/x", "latest");
        registry.require(login);
        for wrong in [password("me:x"), json!({})] {
            let error = get(&bench, &registry, wrong).unwrap_err();
            assert_eq!(error.kind(), Kind::Denied, "{error}");
            assert!(!error.to_string().contains("bWU6"), "{error}");
        }
        check(&get(&bench, &registry, password("me:pass:word")).unwrap());
    }
}

#[test]
fn tokens_are_asked_for_once() {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "a/x", "latest");
    registry.require(Login::Bearer(None));
    check(&bench.get(&format!("docker://{}/a/x", registry.host())).unwrap());
    let seen = registry.take();
    let tokens: Vec<_> = seen.iter().filter(|call| call.target.starts_with("/token")).collect();
    assert_eq!(tokens.len(), 1, "{seen:#?}");
    assert_eq!(tokens[0].target, "/token?service=test&scope=repository:a/x:pull");
}

#[test]
fn an_identity_is_exchanged() {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "a/x", "latest");
    registry.require(Login::Bearer(Some(("me".to_owned(), "an-identity".to_owned()))));
    let entry = json!({"auth": "", "identitytoken": "an-identity"});
    check(&get(&bench, &registry, entry).unwrap());
    let seen = registry.take();
    let exchanged = seen.iter().find(|call| call.target == "/token").unwrap();
    assert_eq!(exchanged.method, "POST");
    assert!(exchanged.body.starts_with("grant_type=refresh_token&"), "{}", exchanged.body);
}

#[test]
fn no_other_server_gets_them() {
    let (bench, registry, other) = (Bench::new(), Registry::start(), Registry::start());
    bench.push(&registry, "a/x", "latest");
    bench.push(&other, "a/x", "latest");
    registry.require(Login::Basic(mine().0, mine().1));
    registry.fail("/v2/a/x/blobs/", 100, Fault::Redirect(other.origin()));
    check(&get(&bench, &registry, password("me:pass:word")).unwrap());
    let seen = other.take();
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert!(seen.iter().all(|call| call.authorization.is_none()), "{seen:#?}");
    let seen = registry.take();
    assert!(seen.iter().any(|call| call.authorization.is_some()));
}

/// The target of a redirect is not the registry: what it asks for is not answered (CVE-2020-15157).
#[test]
fn the_target_of_a_redirect_gets_no_password() {
    for path in ["/v2/a/x/blobs/", "/v2/a/x/manifests/"] {
        let (bench, registry, other) = (Bench::new(), Registry::start(), Registry::start());
        bench.push(&registry, "a/x", "latest");
        other.require(Login::Bearer(Some(mine())));
        registry.fail(path, 100, Fault::Redirect(other.origin()));
        let error = get(&bench, &registry, password("me:pass:word")).unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{error}");
        assert!(error.to_string().contains(&other.origin()), "{error}");
        let seen = other.take();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        assert!(seen[0].authorization.is_none(), "{seen:#?}");
    }
}
