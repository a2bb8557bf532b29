use std::process::Command;

use image::build;
use tests::registry::{Login, Registry};

use super::support::{Bench, check};

/// Podman with a storage of its own; what it prints.
fn podman(bench: &Bench, arguments: &[&str]) -> String {
    let flag = |name: &str, path: &str| format!("--{name}={}", bench.path(path).display());
    let ran = Command::new("podman")
        .args([flag("root", "storage"), flag("runroot", "run"), flag("tmpdir", "tmp")])
        .args(["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=file"])
        .args(arguments)
        .env("REGISTRY_AUTH_FILE", bench.path("auth.json"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "podman {arguments:?}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

/// What is built here is loaded, run through a registry and back by Podman, and is still the same.
#[test]
fn podman_takes_and_gives_what_is_built() {
    let (bench, registry) = (Bench::new(), Registry::start());
    let archive = bench.path("a.tar");
    build::archive(&bench.recipe(), &archive).unwrap();
    podman(&bench, &["load", "-q", "-i", archive.to_str().unwrap()]);
    let images = podman(&bench, &["images", "--format={{.Repository}}:{{.Tag}}"]);
    assert!(images.contains("krm.test/spoke:1.0"), "{images}");
    registry.require(Login::Bearer(Some(("me".to_owned(), "word".to_owned()))));
    let host = registry.host();
    podman(&bench, &["login", "--tls-verify=false", "-u=me", "-p=word", &host]);
    for format in ["oci", "v2s2"] {
        let to = format!("{host}/a/spoke:{format}");
        podman(
            &bench,
            &["push", "-q", "--tls-verify=false", "--format", format, "krm.test/spoke:1.0", &to],
        );
        let auth = Some(bench.path("auth.json"));
        let images = bench.images(image::Policy { auth, ..image::Policy::default() });
        check(&images.get(&format!("docker://{to}").parse().unwrap()).unwrap());
    }
    bench.push(&registry, "b/spoke", "1.0");
    podman(&bench, &["pull", "-q", "--tls-verify=false", &format!("{host}/b/spoke:1.0")]);
    let saved = bench.path("saved.tar");
    for format in ["docker-archive", "oci-archive"] {
        let _ = std::fs::remove_file(&saved);
        let name = format!("{host}/b/spoke:1.0");
        let to = saved.to_str().unwrap();
        podman(&bench, &["save", "-q", "--format", format, "-o", to, &name]);
        check(&bench.get(&format!("{format}:{to}")).unwrap());
    }
    podman(&bench, &["rmi", "-a", "-f"]);
}
