use std::time::{Duration, Instant};

use image::{Images, Limits, Policy};
use model::Kind;
use tests::registry::{Fault, Registry};

use super::support::{Bench, check};

/// A registry with one image, and what getting it with a fault gives.
fn with(
    prefix: &str,
    times: usize,
    fault: Fault,
) -> (Bench, Registry, model::Result<image::Image>) {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "x", "latest");
    registry.fail(prefix, times, fault);
    let got = bench.get(&format!("docker://{}/x", registry.host()));
    (bench, registry, got)
}

fn left(bench: &Bench) -> usize {
    ["images", "layers", "staging"]
        .iter()
        .map(|part| std::fs::read_dir(bench.path("cache").join(part)).unwrap().count())
        .sum()
}

#[test]
fn what_passes_is_waited_for() {
    for (prefix, fault) in [
        ("/v2/x/manifests/", Fault::Busy(429, Some(1))),
        ("/v2/x/manifests/", Fault::Busy(503, None)),
        ("/v2/x/blobs/", Fault::Busy(502, None)),
        ("/v2/x/blobs/", Fault::Truncate(10)),
        ("/v2/x/manifests/", Fault::Cut),
        ("/v2/x/", Fault::Delay(Duration::from_millis(300))),
    ] {
        let since = Instant::now();
        let (_bench, _registry, got) = with(prefix, 1, fault.clone());
        check(&got.unwrap_or_else(|error| panic!("{fault:?}: {error}")));
        if let Fault::Busy(_, Some(seconds)) = fault {
            assert!(since.elapsed() >= Duration::from_secs(seconds));
        }
    }
}

#[test]
fn what_does_not_pass_is_said_and_leaves_nothing() {
    let loops = "http://127.0.0.1:9".to_owned();
    for (prefix, fault, kind) in [
        ("/v2/x/manifests/", Fault::Busy(429, Some(1000)), Kind::TryAgain),
        ("/v2/x/manifests/", Fault::Busy(500, None), Kind::TryAgain),
        ("/v2/x/manifests/", Fault::Busy(418, None), Kind::Invalid),
        ("/v2/x/manifests/", Fault::Body(b"{}".to_vec()), Kind::Invalid),
        ("/v2/x/manifests/", Fault::Body(b"\xff[".to_vec()), Kind::Invalid),
        ("/v2/x/blobs/", Fault::Truncate(10), Kind::TryAgain),
        ("/v2/x/blobs/", Fault::Body(b"wrong".to_vec()), Kind::TryAgain),
        ("/v2/x/blobs/", Fault::Body(vec![7; 1 << 20]), Kind::Invalid),
        ("/v2/x/blobs/", Fault::Redirect(loops), Kind::TryAgain),
        ("/v2/x/blobs/", Fault::Redirect("http://192.0.2.1/".to_owned()), Kind::Denied),
        ("/v2/x/blobs/", Fault::Redirect("file:///etc/passwd".to_owned()), Kind::Invalid),
    ] {
        let (bench, _registry, got) = with(prefix, 1000, fault);
        let error = got.expect_err(prefix);
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(left(&bench), 0, "{error}");
    }
}

#[test]
fn changed_content_is_not_taken() {
    let (bench, registry) = (Bench::new(), Registry::start());
    let digest = bench.push(&registry, "x", "latest");
    let other = String::from_utf8(registry.manifest("x", "latest")).unwrap();
    let changed = other.replace("\"schemaVersion\":2", "\"schemaVersion\": 2");
    registry.fail("/v2/x/manifests/", 100, Fault::Body(changed.into_bytes()));
    let error = bench.get(&format!("docker://{}/x@{digest}", registry.host())).unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
}

#[test]
fn redirects_end() {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "x", "latest");
    registry.fail("/v2/x/manifests/", 1000, Fault::Redirect(registry.origin()));
    let error = bench.get(&format!("docker://{}/x", registry.host())).unwrap_err();
    assert!(error.to_string().contains("more than 10 times"), "{error}");
    assert!(registry.take().len() < 30);
}

#[test]
fn what_is_too_large_is_not_fetched() {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "x", "latest");
    for limits in [
        Limits { compressed: 1000, ..Limits::default() },
        Limits { unpacked: 1000, ..Limits::default() },
        Limits { entries: 3, ..Limits::default() },
    ] {
        let images: Images = bench.images(Policy { limits, ..Policy::default() });
        let locator = format!("docker://{}/x", registry.host()).parse().unwrap();
        let error = images.get(&locator).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert_eq!(left(&bench), 0);
    }
}
