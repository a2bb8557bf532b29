use std::fs;

use image::{Image, Policy, Proxies, build};
use tests::registry::{Fault, Login, Registry};

use super::support::{Bench, check};

/// Names are found through a proxy, so that no test needs a name server or port 80.
fn get(bench: &Bench, web: &Registry, name: &str) -> model::Result<Image> {
    let origin = web.origin();
    let proxies =
        Proxies::of_environment(|name| (name == "http_proxy").then(|| origin.to_string()));
    let insecure = vec!["krm.test".to_owned()];
    let policy = Policy { insecure, proxies, ..Policy::default() };
    bench.images(policy).get(&name.parse().unwrap())
}

fn web(bench: &Bench) -> Registry {
    let (web, path) = (Registry::start(), bench.path("x.aci"));
    build::aci(&bench.recipe(), &path).unwrap();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    };
    let page = "<html><head><meta name=\"ac-discovery\" \
                content=\"krm.test http://krm.test/d/{name}-{version}-{os}-{arch}.{ext}\"></head>";
    web.serve("/", page.as_bytes());
    for version in ["latest", "1.0"] {
        let path_of = format!("/d/krm.test/spoke-{version}-linux-{architecture}.aci");
        web.serve(&path_of, &fs::read(&path).unwrap());
    }
    web
}

#[test]
fn names_lead_to_images() {
    let bench = Bench::new();
    let web = web(&bench);
    check(&get(&bench, &web, "krm.test/spoke:1.0").unwrap());
    let seen: Vec<String> = web.take().into_iter().map(|call| call.target).collect();
    assert!(seen[0].ends_with("/spoke?ac-discovery=1"), "{seen:?}");
    assert!(seen[1].ends_with("/?ac-discovery=1"), "{seen:?}");
    assert!(seen[2].contains("/d/krm.test/spoke-1.0-linux-"), "{seen:?}");
}

#[test]
fn another_image_is_not_taken() {
    let bench = Bench::new();
    let web = web(&bench);
    let other = fs::read(bench.path("x.aci")).unwrap();
    let architecture = if cfg!(target_arch = "aarch64") { "aarch64" } else { "amd64" };
    web.serve(&format!("/d/krm.test/spy-latest-linux-{architecture}.aci"), &other);
    let error = get(&bench, &web, "krm.test/spy").unwrap_err();
    assert!(error.to_string().contains("krm.test/spy was asked for"), "{error}");
}

#[test]
fn what_no_page_says_is_not_found() {
    let bench = Bench::new();
    let web = Registry::start();
    let error = get(&bench, &web, "krm.test/a/b").unwrap_err();
    assert_eq!(error.kind(), model::Kind::NotFound, "{error}");
    web.fail("", 100, Fault::Body(vec![b' '; 2 << 20]));
    web.serve("/a/b", b"x");
    let error = get(&bench, &web, "krm.test/a/b").unwrap_err().to_string();
    assert!(error.contains("longer than it may be"), "{error}");
}

#[test]
fn hosts_that_are_not_listed_are_asked_with_tls_only() {
    let bench = Bench::new();
    let web = web(&bench);
    assert!(get(&bench, &web, "other.test/spoke").is_err());
    assert_eq!(web.take(), []);
    let error = get(&bench, &web, "http://other.test/x.aci").unwrap_err();
    assert_eq!(error.kind(), model::Kind::Denied, "{error}");
}

#[test]
fn files_on_the_web() {
    let bench = Bench::new();
    let web = web(&bench);
    web.serve("/x.aci", &fs::read(bench.path("x.aci")).unwrap());
    let at = |path: &str| format!("{}{path}", web.origin());
    check(&bench.get(&at("/x.aci")).unwrap());
    let error = bench.get(&at("/y.aci")).unwrap_err().to_string();
    assert!(error.contains("HTTP 404 on retrieving"), "{error}");
    web.fail("/z.aci", 1, Fault::Truncate(100));
    web.serve("/z.aci", &fs::read(bench.path("x.aci")).unwrap());
    check(&bench.get(&at("/z.aci")).unwrap());
}

/// A page cannot make this host ask its own services, which only redirects were kept from before.
#[test]
fn a_page_does_not_lead_to_this_host() {
    let (bench, own) = (Bench::new(), Registry::start());
    let web = web(&bench);
    let page =
        format!("<meta name=\"ac-discovery\" content=\"krm.test {}/x.{{ext}}\">", own.origin());
    web.serve("/", page.as_bytes());
    own.serve("/x.aci", &fs::read(bench.path("x.aci")).unwrap());
    let error = get(&bench, &web, "krm.test/spoke").unwrap_err();
    assert_eq!(error.kind(), model::Kind::Denied, "{error}");
    assert!(error.to_string().contains("leads to this host itself"), "{error}");
    assert_eq!(own.take(), []);
}

/// The same of the server that a registry names for its tokens.
#[test]
fn a_registry_does_not_name_this_host_for_tokens() {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "a/x", "latest");
    registry.require(Login::Bearer(None));
    let error = get(&bench, &registry, "docker://krm.test/a/x").unwrap_err();
    assert_eq!(error.kind(), model::Kind::Denied, "{error}");
    assert!(error.to_string().contains("leads to this host itself"), "{error}");
    let seen = registry.take();
    assert!(!seen.iter().any(|call| call.target.starts_with("/token")), "{seen:#?}");
}
