use std::fs;

use image::Policy;
use model::Kind;
use serde_json::{Value, json};
use tests::registry::{Certificate, Registry};

use super::support::{Bench, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, check, index_of};

#[test]
fn both_forms_of_slashes_name_an_image() {
    let (bench, registry) = (Bench::new(), Registry::start());
    let digest = bench.push(&registry, "user/plugin-name", "tag");
    bench.push(&registry, "user/plugin-name", "latest");
    let host = registry.host();
    for written in ["docker://H/user/plugin-name:tag", "docker:///H/user/plugin-name"] {
        let image = bench.get(&written.replace('H', &host)).unwrap();
        check(&image);
        assert_eq!(image.id.to_string(), digest.replace(':', "-"));
        assert_eq!(image.name, format!("{host}/user/plugin-name"));
    }
    registry.take();
    bench.get(&format!("docker://{host}/user/plugin-name:tag")).unwrap();
    assert_eq!(registry.take(), [], "the cache knows it");
}

#[test]
fn what_is_known_is_not_fetched_again() {
    let (bench, registry) = (Bench::new(), Registry::start());
    bench.push(&registry, "x", "a");
    bench.push(&registry, "x", "b");
    bench.get(&format!("docker://{}/x:a", registry.host())).unwrap();
    registry.take();
    bench.get(&format!("docker://{}/x:b", registry.host())).unwrap();
    let seen = registry.take();
    assert!(!seen.iter().any(|call| call.target.contains("/blobs/")), "{seen:#?}");
}

#[test]
fn the_image_for_this_host_is_chosen() {
    let (bench, registry) = (Bench::new(), Registry::start());
    let manifest = bench.push(&registry, "x", "one");
    let index = index_of(&registry, &manifest, registry.manifest("x", "one").len());
    let pin = registry.add_manifest("x", "latest", OCI_INDEX, &index);
    check(&bench.get(&format!("docker://{}/x", registry.host())).unwrap());
    check(&bench.get(&format!("docker://{}/x@{pin}", registry.host())).unwrap());
    check(&bench.get(&format!("docker://{}/x:one@{manifest}", registry.host())).unwrap());
    let foreign = String::from_utf8(index).unwrap().replace("\"linux\"", "\"plan9\"");
    registry.add_manifest("x", "foreign", OCI_INDEX, foreign.as_bytes());
    let error = bench.get(&format!("docker://{}/x:foreign", registry.host())).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("plan9/s390x"), "{error}");
}

/// A manifest whose media types are Docker's, with two layers of which the upper whites out.
#[test]
fn dockers_schema_2_is_the_same() {
    let (bench, registry) = (Bench::new(), Registry::start());
    let layers = [
        tar(&bench, "lower", &[("a/gone", "x"), ("a/kept", "old"), ("b/x", "x")]),
        tar(&bench, "upper", &[("a/.wh.gone", ""), ("a/kept", "new"), ("b/.wh..wh..opq", "")]),
    ];
    let layers: Vec<Value> = layers
        .iter()
        .map(|bytes| {
            json!({"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                   "size": bytes.len(), "digest": registry.add_blob(bytes)})
        })
        .collect();
    let config = json!({"os": "linux", "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "config": {"Entrypoint": null, "Cmd": ["/bin/x"]}, "rootfs": {"type": "layers", "diff_ids": []}})
    .to_string();
    let manifest = json!({"schemaVersion": 2, "mediaType": DOCKER_MANIFEST, "layers": layers,
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                   "size": config.len(), "digest": registry.add_blob(config.as_bytes())}});
    registry.add_manifest("x", "latest", DOCKER_MANIFEST, manifest.to_string().as_bytes());
    let image = bench.get(&format!("docker://{}/x", registry.host())).unwrap();
    assert_eq!(image.app.unwrap().exec, ["/bin/x"]);
    let root = image.layers.last().unwrap();
    assert_eq!(fs::read(root.join("a/kept")).unwrap(), b"new");
    assert!(!root.join("a/gone").exists());
    assert_eq!(fs::read_dir(root.join("b")).unwrap().count(), 0);
}

#[test]
fn what_is_missing_is_said_so() {
    let (bench, registry) = (Bench::new(), Registry::start());
    let error = bench.get(&format!("docker://{}/x:1", registry.host())).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    assert_eq!(error.status(), Some(404));
    registry.add_manifest("x", "1", OCI_MANIFEST, b"{\"schemaVersion\": 1}");
    let error = bench.get(&format!("docker://{}/x:1", registry.host())).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    drop(registry);
    let error = bench.get("docker://127.0.0.1:9/x:1").unwrap_err();
    assert_eq!(error.kind(), Kind::TryAgain, "{error}");
}

#[test]
fn only_listed_hosts_need_no_certificate() {
    let bench = Bench::new();
    let registry = Registry::secure(&Certificate::of(&["elsewhere.test"]));
    bench.push(&registry, "x", "latest");
    let locator = format!("docker://{}/x", registry.host()).parse().unwrap();
    let get = |insecure: Vec<String>| {
        bench.images(Policy { insecure, ..Policy::default() }).get(&locator)
    };
    assert!(get(Vec::new()).is_err());
    assert!(get(vec!["192.0.2.1".to_owned()]).is_err());
    check(&get(vec![registry.host()]).unwrap());
}

/// Packs files with the system's tar.
fn tar(bench: &Bench, name: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let root = bench.path(name);
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let packed = std::process::Command::new("tar").arg("-C").arg(&root).args(["-cz", "."]).output();
    let packed = packed.unwrap();
    assert!(packed.status.success());
    packed.stdout
}
